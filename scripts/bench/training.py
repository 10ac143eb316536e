"""Starts `dcp train` on ranks of this machine and reads what the run wrote."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "PASSIVE"}


MIN_TOKENS, MAX_TOKENS = 32, 8192
CONFIG = """\
model: {{hidden: 128, layers: 5, heads: 4, kv_heads: 4, head_dim: 32, ffn: 352, vocab: 257}}
data: {{train: [{datasets}], max_tokens: {max_tokens}}}
batch: {{tokens: {batch_tokens}}}
optimizer: {{lr: 1e-3}}
schedule: {{kind: constant, warmup: 2}}
run: {{seed: 1, threads: 1, validate_every: 0, log_samples: true}}
monitor: {{log_steps: true}}
"""


def launcher(ranks, bind_to="none"):
    if ranks == 1:
        return []
    return ["mpirun", "--oversubscribe", "--bind-to", bind_to, "-np", str(ranks)]


def run_command(command, environment=None):
    """Its output; ends this program with it where the command fails."""
    result = subprocess.run([str(part) for part in command], env=environment or ENVIRONMENT,
                            text=True, check=False, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        sys.exit(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def add_common_options(parser):
    parser.add_argument("--dcp", type=Path, default=Path("build/cpu/dcp"), help="the executable")
    parser.add_argument("--text", type=Path, default=Path("data/quickstart"),
                        help="dataset to cut into lengths")
    parser.add_argument("--folder", type=Path, default=Path("build/bench-loop"),
                        help="for runs and figures")
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--dtype", default="bf16", choices=["fp32", "bf16"])


def prepare(options):
    options.dcp = options.dcp.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)


def distribution_of(name):
    return f"{name}:min={MIN_TOKENS},max={MAX_TOKENS}"


def make_lengths(options, distribution, documents):
    """A dataset of the text with such lengths; made once."""
    prefix = options.folder / f"{distribution}-{documents}"
    if not prefix.with_suffix(".idx").exists():
        run_command([options.dcp, "data", "synth", "--out", prefix, "--from", options.text,
                     "--documents", documents, "--distribution",
                     distribution_of(distribution)])
    return prefix


def write_config(path, datasets, batch_tokens):
    path.write_text(CONFIG.format(datasets=", ".join(map(str, datasets)), max_tokens=MAX_TOKENS,
                                  batch_tokens=batch_tokens))
    return path


def read_lines(path):
    """A line that is still being written is left for the next time."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def settings_of(values):
    return [part for value in values for part in ("--set", str(value))]


class Training:
    """A run of `dcp train` in a folder that is emptied first; with what it wrote, once it has ended."""

    def __init__(self, dcp, config, folder, ranks, settings=(), bind_to="none"):
        self.folder = Path(folder)
        self.command = [*launcher(ranks, bind_to), str(dcp), "train", str(config),
                        *settings_of([f"run.folder={folder}", *settings])]
        self.environment = dict(ENVIRONMENT)
        self.output, self.metrics, self.samples = "", [], []

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.output = run_command(self.command, self.environment)
        self.read()
        return self

    def run_beside(self, action):
        """Calls action(metrics so far) again and again while the run goes on."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with tempfile.TemporaryFile("w+") as output:
            with subprocess.Popen(self.command, env=self.environment, text=True, stdout=output,
                                  stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
                while process.poll() is None:
                    action(read_lines(self.folder / "metrics.jsonl"))
                    time.sleep(0.02)
            output.seek(0)
            self.output = output.read()
        if process.returncode != 0:
            sys.exit(f"failed ({process.returncode}): {' '.join(self.command)}\n{self.output}")
        self.read()
        return self

    def read(self):
        self.metrics = read_lines(self.folder / "metrics.jsonl")
        self.samples = read_lines(self.folder / "samples.jsonl")

    def tokens_per_second(self):
        return sum(m["tokens"] for m in self.metrics) / sum(m["seconds"] for m in self.metrics)


def step_errors(metrics, predicted, measured):
    """Of every step: (predicted - measured) / measured, of two columns of its line. A step takes as
    long as the slowest of its ranks and needs what the largest needs."""
    return [value / max(of_ranks) - 1 for line in metrics
            for value, of_ranks in zip(line["steps"][predicted], line["steps"][measured])]


def errors_within_iterations(metrics):
    """Of the steps of ranks that did at least three in an iteration: their error beside the median one
    of the rank there. What the machine did to the whole iteration does not count, only what a balanced
    plan needs to know: how long steps take beside each other."""
    errors = []
    for line in metrics:
        steps = line["steps"]
        of_ranks = {}
        for ranks, predicted, seconds in zip(steps["ranks"], steps["predicted_seconds"],
                                             steps["seconds"]):
            of_ranks.setdefault(tuple(ranks), []).append(predicted / max(seconds))
        for ratios in of_ranks.values():
            if len(ratios) >= 3:
                errors += [ratio / statistics.median(ratios) - 1 for ratio in ratios]
    return errors


def differences_between(trainings):
    """Of steps that were planned alike in two runs, one after the other: how much longer they took in
    the one than in the other. No prediction can be nearer than that."""
    differences = []
    for one, other in zip(trainings, trainings[1:]):
        for line, again in zip(one.metrics[1:], other.metrics[1:]):
            if all(line["steps"][key] == again["steps"][key] for key in ("ranks", "tokens")):
                differences += [max(a) / max(b) - 1 for a, b in zip(line["steps"]["seconds"],
                                                                    again["steps"]["seconds"])]
    return differences


def quantile_of_absolute(values, share):
    ordered = sorted(map(abs, values))
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def median_by_iteration(trainings, key, first=1):
    """Of the same iteration in every run, by default without the first, which only warms up."""
    return [statistics.median(line[key] for line in lines)
            for lines in zip(*(training.metrics[first:] for training in trainings))]
