"""Whole training iterations of `dcp train` against PyTorch: same model, sequences, type, threads.

Both sides run one process after the other in interleaved rounds (dcp, way 1, way 2, ..., dcp, ...),
so that a machine that gets slower meanwhile slows both. The first round tries every PyTorch way; the
following rounds repeat plain padded batches and the way that was fastest. The dataset holds exactly
the sequences of one global batch, so every iteration of both sides trains the same ones. Both start
from the weights that `dcp train` writes, and their first losses must agree: it is the same work.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dataset import random_documents, write_dataset
from lengths import built_in_lengths, read_lengths, representative_batch

MAX_TOKENS = 8192  # of a sequence and of a micro-batch, on both sides
WARMUP_DCP = 1  # its first iteration packs weights and fills caches

COMMON = {"norm_eps": 1e-5, "rope_theta": 10000, "max_tokens": MAX_TOKENS}
MODELS = {
    "small": {**COMMON, "batch_tokens": 16384, "hidden": 256, "layers": 6, "heads": 8,
              "kv_heads": 8, "head_dim": 32, "ffn": 704, "vocab": 257},
    "medium": {**COMMON, "batch_tokens": 12288, "hidden": 768, "layers": 4, "heads": 12,
               "kv_heads": 12, "head_dim": 64, "ffn": 2048, "vocab": 8192},
}
PADDED = "padded"
WAYS = {
    "fp32": [("padded", "fp32"), ("packed", "fp32"), ("padded+compiled", "fp32"),
             ("packed+compiled", "fp32")],
    "bf16": [("padded", "bf16"), ("packed", "bf16"), ("packed", "bf16-autocast"),
             ("padded+compiled", "bf16"), ("packed+compiled", "bf16")],
}
CONFIG = """\
model: {{kind: transformer-1d, hidden: {hidden}, layers: {layers}, heads: {heads}, kv_heads: {kv_heads},
  head_dim: {head_dim}, ffn: {ffn}, vocab: {vocab}, norm: rmsnorm, norm_eps: {norm_eps},
  activation: swiglu, positions: rope, rope_theta: {rope_theta}, causal: true, tie_embeddings: false}}
data: {{train: [{dataset}], max_tokens: {max_tokens}}}
batch: {{sequences: {sequences}, micro_batch_tokens: {max_tokens}}}
optimizer: {{name: adamw, lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1, clip: 1.0}}
schedule: {{kind: constant, warmup: 0}}
run: {{device: cpu, validate_every: 0}}
"""


class Case:
    """One model, type and number of threads: a dataset, a configuration, and what was measured."""

    def __init__(self, options, folder, model, dtype, threads):
        self.options, self.folder = options, folder
        self.model, self.dtype, self.threads = model, dtype, threads
        lengths = read_lengths(options.lengths) if options.lengths else built_in_lengths()
        self.lengths = representative_batch(lengths, MAX_TOKENS, options.batch_tokens
                                            or MODELS[model]["batch_tokens"])
        self.num_tokens = sum(self.lengths)
        self.wall, self.processor, self.first_loss = {}, {}, {}  # by way
        self.peak_share = []  # of dcp: FLOP/s over the matrix-product rate measured at its start
        self.environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE",
                            "OMP_NUM_THREADS": str(threads)}
        self.config = folder / f"{model}.yaml"
        prefix = folder / model
        write_dataset(str(prefix), random_documents(self.lengths, MODELS[model]["vocab"]))
        self.config.write_text(CONFIG.format(**MODELS[model], dataset=prefix,
                                             sequences=len(self.lengths)))

    def name(self):
        return f"{self.model}, {self.dtype}, {self.threads} thread{'s' * (self.threads > 1)}"

    def record(self, way, wall, processor):
        """Of a process the best iteration counts, of the rounds the median."""
        self.wall.setdefault(way, []).append(min(wall))
        self.processor.setdefault(way, []).append(min(processor))
        print(f"  {self.name():24} {way:24} {1e3 * min(wall):9.0f} ms wall "
              f"{1e3 * min(processor):9.0f} ms processor", flush=True)

    def dcp_command(self, run_folder, iterations):
        settings = [f"run.folder={run_folder}", f"run.iterations={iterations}",
                    f"run.dtype={self.dtype}", f"run.threads={self.threads}"]
        return [str(self.options.dcp), "train", str(self.config),
                *(part for setting in settings for part in ("--set", setting))]

    def write_weights(self):
        folder = self.folder / f"{self.model}-start"
        if not folder.exists():
            subprocess.run(self.dcp_command(folder, 0), check=True, env=self.environment,
                           stdout=subprocess.DEVNULL)
        return str(folder / "weights/model.safetensors")

    def run_dcp(self):
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        iterations = WARMUP_DCP + self.options.iterations
        metrics_path = folder / "metrics.jsonl"
        processor_at = {}  # seconds used when so many iterations were done
        with (folder / "output").open("w+") as output:
            with subprocess.Popen(self.dcp_command(folder, iterations), env=self.environment,
                                  stdout=output, stderr=subprocess.STDOUT) as process:
                done = 0
                while process.poll() is None and done < iterations:
                    now = metrics_path.read_bytes().count(b"\n") if metrics_path.exists() else 0
                    if now > done:
                        done = now
                        processor_at[done] = processor_seconds(process.pid)
                    time.sleep(0.002)
            output.seek(0)
            text = output.read()
        if process.returncode != 0:
            sys.exit(f"dcp failed ({process.returncode}):\n{text}")
        metrics = [json.loads(line) for line in metrics_path.read_text().splitlines()]
        measured = metrics[WARMUP_DCP:]
        used = [processor_at[i + 1] - processor_at[i] for i in range(WARMUP_DCP, iterations)
                if i in processor_at and i + 1 in processor_at]
        if not used:
            sys.exit("iterations of dcp are too short to be timed: raise --batch-tokens")
        self.first_loss["dcp"] = metrics[0]["loss"]
        peak = re.search(r"products at ([\d.]+) TFLOP/s", text)
        if peak and "flops_per_second" in measured[0]:
            self.peak_share += [line["flops_per_second"] * 1e-12 / float(peak.group(1))
                                for line in measured]
        self.record("dcp", [line["seconds"] for line in measured], used)

    def run_torch(self, form, dtype, weights):
        way = form if dtype == self.dtype else f"{form} {dtype.partition('-')[2]}"
        job = {"model": MODELS[self.model], "way": form, "dtype": dtype, "threads": self.threads,
               "lengths": self.lengths, "max_tokens": MAX_TOKENS, "weights": weights,
               "iterations": self.options.iterations}
        worker = Path(__file__).with_name("torch_worker.py")
        result = subprocess.run([sys.executable, "-B", worker], input=json.dumps(job), text=True,
                                capture_output=True, check=False, env=self.environment)
        if result.returncode != 0:
            print(f"  {self.name():24} {way:24} not possible: "
                  f"{result.stderr.strip().splitlines()[-1]}", flush=True)
            return
        figures = json.loads(result.stdout)
        self.first_loss[way] = figures["first_loss"]
        self.record(way, figures["seconds"], figures["processor_seconds"])

    def torch_ways(self):
        return [way for way in self.wall if way != "dcp"]

    def best(self, measured):
        return min(self.torch_ways(), key=lambda way: statistics.median(measured[way]))

    def run(self):
        weights = None if self.options.torch_only else self.write_weights()
        ways = WAYS[self.dtype]
        for round_number in range(self.options.rounds):
            if not self.options.torch_only:
                self.run_dcp()
            if round_number == 1:
                keep = {PADDED, self.best(self.wall), self.best(self.processor)}
                ways = [(form, dtype) for form, dtype in ways
                        if (form if dtype == self.dtype else f"{form} autocast") in keep]
            for form, dtype in ways:
                self.run_torch(form, dtype, weights)
        self.check_losses()

    def check_losses(self):
        if "dcp" not in self.first_loss:
            return
        tolerance = 1e-4 if self.dtype == "fp32" else 1e-2
        for way, loss in self.first_loss.items():
            if abs(loss - self.first_loss["dcp"]) > tolerance * loss:
                sys.exit(f"{self.name()}: the first loss of dcp is {self.first_loss['dcp']}, of "
                         f"{way} {loss}: this is not the same work")


def processor_seconds(pid):
    """User and system time of a process and its threads until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_details(case):
    print(f"\n{case.name()}: {len(case.lengths)} sequences, {case.num_tokens} tokens an iteration, "
          f"longest {max(case.lengths)}")
    print(f"  {'way':24}{'ms wall':>10}{'ms processor':>14}{'tokens/s':>11}")
    for way in sorted(case.wall, key=lambda way: statistics.median(case.wall[way])):
        wall = statistics.median(case.wall[way])
        print(f"  {way:24}{1e3 * wall:10.0f}{1e3 * statistics.median(case.processor[way]):14.0f}"
              f"{case.num_tokens / wall:11.0f}")
    if case.peak_share:
        print(f"  dcp reaches {100 * statistics.median(case.peak_share):.0f} % of the matrix-product "
              "rate that it measures at its start")


def print_summary(cases):
    print("\nHow many times faster dcp is (medians; above 1 is faster)")
    print(f"{'':26}{'over the best way':^24}{'':4}{'over plain padded':^20}")
    print(f"{'model':8}{'type':6}{'threads':>7}{'':5}{'wall':>10}{'processor':>12}{'':6}"
          f"{'wall':>10}{'processor':>12}   best way")
    for case in cases:
        def over(measured, way):
            return statistics.median(measured[way]) / statistics.median(measured["dcp"])

        best_wall, best_processor = case.best(case.wall), case.best(case.processor)
        print(f"{case.model:8}{case.dtype:6}{case.threads:7}{'':5}{over(case.wall, best_wall):10.2f}"
              f"{over(case.processor, best_processor):12.2f}{'':6}{over(case.wall, PADDED):10.2f}"
              f"{over(case.processor, PADDED):12.2f}   {best_wall}")


def parse_options():
    def names(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dcp", type=Path, default=Path("build/cpu/dcp"), help="the executable")
    parser.add_argument("--models", type=names, default=list(MODELS), help="of " + ",".join(MODELS))
    parser.add_argument("--dtypes", type=names, default=list(WAYS), help="of " + ",".join(WAYS))
    parser.add_argument("--threads", type=names, default=["1", "2"])
    parser.add_argument("--lengths", help="lengths file; default: built-in quantiles")
    parser.add_argument("--batch-tokens", type=int, default=0,
                        help="tokens of an iteration; default: " + ", ".join(
                            f"{name} {m['batch_tokens']}" for name, m in MODELS.items()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=2, help="counted iterations a process")
    parser.add_argument("--torch-only", action="store_true", help="measure only PyTorch")
    return parser.parse_args()


def main():
    options = parse_options()
    cases = []
    with tempfile.TemporaryDirectory(prefix="dcp-bench-") as folder:
        for model in options.models:
            for dtype in options.dtypes:
                for threads in options.threads:
                    case = Case(options, Path(folder), model, dtype, int(threads))
                    case.run()
                    cases.append(case)
    for case in cases:
        print_details(case)
    if not options.torch_only:
        print_summary(cases)


if __name__ == "__main__":
    main()
