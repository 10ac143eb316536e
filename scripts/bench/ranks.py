"""`mpirun -np N dcp train` on one machine against one rank with N threads, and against PyTorch's
DistributedDataParallel in N processes: same model, weights and sequences, one thread a rank.

Two batches: lengths as documents have them, and one long sequence beside a few short ones, which
PyTorch cannot split. All sides run one after the other in interleaved rounds. Of a process the best
iteration counts, of the rounds the median; first losses must agree. A second part forces all steps to
degree 1, then to degree N, on the same sequences: what sharing a sequence costs, and what it sends.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import CONFIG, MAX_TOKENS, MODELS, WARMUP_DCP, processor_seconds
from dataset import random_documents, write_dataset
from lengths import built_in_lengths, read_lengths, representative_batch

SHORT = [301, 222, 158, 97, 64]  # beside the long sequence of the dominated batch
LAUNCHER = ["mpirun", "--oversubscribe", "--bind-to", "none"]


class Side:
    """One way to train the batch, and what was measured of it."""

    def __init__(self, name, run):
        self.name, self.run = name, run
        self.wall, self.processor, self.first_loss, self.plans = [], [], None, []


class Batch:
    def __init__(self, options, folder, name, lengths, model):
        self.options, self.folder, self.name = options, folder, name
        self.lengths, self.model = lengths, model
        self.folder.mkdir()
        prefix = self.folder / "sequences"
        write_dataset(str(prefix), random_documents(lengths, model["vocab"]))
        self.config = self.folder / "config.yaml"
        self.config.write_text(CONFIG.format(**model, dataset=prefix, sequences=len(lengths)))
        self.weights = None

    def environment(self, threads):
        return {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE",
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_mpi_yield_when_idle": "1"}

    def command(self, run_folder, iterations, ranks, threads, settings=()):
        launcher = [*LAUNCHER, "-np", str(ranks)] if ranks > 1 else []
        settings = [f"run.folder={run_folder}", f"run.iterations={iterations}",
                    f"run.dtype={self.options.dtype}", f"run.threads={threads}", *settings]
        return [*launcher, str(self.options.dcp), "train", str(self.config),
                *(part for setting in settings for part in ("--set", setting))]

    def dcp(self, ranks, threads, settings=()):
        """Seconds and processor seconds (of all ranks) an iteration, first loss, metrics."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        iterations = WARMUP_DCP + self.options.iterations
        metrics_path = folder / "metrics.jsonl"
        processor_at = {}
        with (folder / "output").open("w+") as output:
            with subprocess.Popen(self.command(folder, iterations, ranks, threads, settings),
                                  env=self.environment(threads), stdout=output,
                                  stderr=subprocess.STDOUT) as process:
                done = 0
                while process.poll() is None and done < iterations:
                    now = metrics_path.read_bytes().count(b"\n") if metrics_path.exists() else 0
                    if now > done:
                        done = now
                        processor_at[done] = sum(map(processor_seconds, ranks_of(process.pid)))
                    time.sleep(0.005)
            output.seek(0)
            if process.returncode != 0:
                sys.exit(f"dcp failed ({process.returncode}):\n{output.read()}")
        metrics = [json.loads(line) for line in metrics_path.read_text().splitlines()]
        used = [processor_at[i + 1] - processor_at[i] for i in range(WARMUP_DCP, iterations)
                if i in processor_at and i + 1 in processor_at]
        if not used:
            sys.exit("iterations of dcp are too short to be timed: raise --batch-tokens")
        return ([line["seconds"] for line in metrics[WARMUP_DCP:]], used, metrics[0]["loss"],
                metrics[WARMUP_DCP:])

    def ddp(self, compiled):
        if self.weights is None:
            start = self.folder / "start"
            subprocess.run(self.command(start, 0, 1, 1), check=True, env=self.environment(1),
                           stdout=subprocess.DEVNULL)
            self.weights = str(start / "weights/model.safetensors")
        rendezvous = Path(tempfile.mkdtemp(dir=self.folder)) / "rendezvous"
        processes = []
        for rank in range(self.options.ranks):
            job = {"model": self.model, "dtype": self.options.dtype, "threads": 1, "rank": rank,
                   "processes": self.options.ranks, "lengths": self.lengths,
                   "max_tokens": MAX_TOKENS, "weights": self.weights, "compiled": compiled,
                   "iterations": WARMUP_DCP + self.options.iterations,
                   "rendezvous": str(rendezvous)}
            process = subprocess.Popen(
                [sys.executable, "-B", Path(__file__).with_name("ddp_worker.py")], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment(1))
            process.stdin.write(json.dumps(job))
            process.stdin.close()
            processes.append(process)
        outputs = [process.stdout.read() for process in processes]
        if any([process.wait() for process in processes]):
            sys.exit("PyTorch's processes failed (messages above)")
        figures = [json.loads(output) for output in outputs]
        used = [sum(seconds) for seconds in zip(*(f["processor_seconds"] for f in figures))]
        return (figures[0]["seconds"][WARMUP_DCP:], used[WARMUP_DCP:],
                sum(f["first_loss"] for f in figures), [])

    def measure(self, sides, rounds):
        for _ in range(rounds):
            for side in sides:
                wall, processor, side.first_loss, plans = side.run()
                side.wall.append(min(wall))
                side.processor.append(min(processor))
                side.plans += plans
                print(f"  {self.name:12}{side.name:24}{1e3 * min(wall):9.0f} ms wall"
                      f"{1e3 * min(processor):9.0f} ms processor", flush=True)
        tolerance = 1e-4 if self.options.dtype == "fp32" else 1e-2
        for side in sides:
            if abs(side.first_loss - sides[0].first_loss) > tolerance * side.first_loss:
                sys.exit(f"{self.name}: the first loss of {sides[0].name} is "
                         f"{sides[0].first_loss}, of {side.name} {side.first_loss}: this is not "
                         "the same work")


def ranks_of(pid):
    """The processes named dcp at or below a process."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return ([pid] if name == "dcp" else []) + [rank for c in children for rank in ranks_of(int(c))]


def compare_batches(options, folder):
    model = MODELS[options.model]
    lengths = read_lengths(options.lengths) if options.lengths else built_in_lengths()
    batches = {"ordinary": representative_batch(lengths, MAX_TOKENS, options.batch_tokens),
               "dominated": [options.longest, *SHORT]}
    rows = []
    n = options.ranks
    for name, batch_lengths in batches.items():
        batch = Batch(options, folder / name, name, batch_lengths, model)
        many = Side(f"{n} ranks", lambda b=batch: b.dcp(n, 1))
        one = Side(f"1 rank, {n} threads", lambda b=batch: b.dcp(1, n))
        others = [one] + [Side(f"DDP {'compiled' if compiled else 'plain'}",
                               lambda b=batch, c=compiled: b.ddp(c))
                          for compiled in ((False, True) if options.compiled else (False,))]
        batch.measure([many, *others], options.rounds)
        rows.append((batch, many, others))
    return rows


def median(values):
    return statistics.median(values)


def describe(plan):
    """As on dcp's console."""
    return ", ".join(f"{n} x SP {degree}" for degree, n in plan["steps_by_degree"].items())


def print_comparison(rows):
    print("\nmedians an iteration; ratio: how many times faster the ranks are (above 1 is faster), "
          "and in brackets\nthe lowest and highest of single rounds")
    print(f"{'batch':12}{'':24}{'ms wall':>9}{'ms processor':>14}{'ratio wall':>13}"
          f"{'':16}{'ratio processor':>16}")
    for batch, many, others in rows:
        for side in [many, *others]:
            ratios = [theirs / ours for theirs, ours in zip(side.wall, many.wall)]
            print(f"{batch.name:12}{side.name:24}{1e3 * median(side.wall):9.0f}"
                  f"{1e3 * median(side.processor):14.0f}{median(ratios):13.2f}"
                  f"{f' [{min(ratios):.2f}, {max(ratios):.2f}]':16}"
                  f"{median(side.processor) / median(many.processor):16.2f}")
        plan = many.plans[-1]
        print(f"{'':12}{len(batch.lengths)} sequences, {sum(batch.lengths)} tokens, longest "
              f"{max(batch.lengths)}; plan {describe(plan)}; imbalance "
              f"{100 * median([p['imbalance_ratio'] for p in many.plans]):.0f} %; planning "
              f"{1e3 * median([p['plan_seconds'] for p in many.plans]):.0f} ms, of which "
              f"{1e3 * median([p['plan_exposed_seconds'] for p in many.plans]):.1f} ms in the way")


def even(options):
    """Degree 1 balances them over two ranks as well as degree 2 does."""
    return [options.longest // 2] * 2


def compare_degrees(options, folder):
    """The same two sequences: one on each rank, or both on all ranks. Heads decide the strategy."""
    rows = []
    for strategy, heads in {"Ulysses": 8, "ring": 7}.items():
        model = {**MODELS[options.model], "heads": heads, "kv_heads": heads}
        batch = Batch(options, folder / strategy, strategy, even(options), model)
        sides = [Side(f"degree {degree}",
                      lambda b=batch, d=degree: b.dcp(2, 1, [f"planner.degrees=[{d}]",
                                                             "planner.name=packed"]))
                 for degree in (1, 2)]
        batch.measure(sides, options.rounds)
        rows.append((batch, *sides))
    return rows


def print_degrees(rows):
    print(f"\nthe same sequences of {rows[0][0].lengths} tokens on two ranks, medians an iteration; "
          "degree 1 -> 2")
    print(f"{'':12}{'ms wall':>20}{'overhead':>10}{'ms processor':>20}{'overhead':>10}"
          f"{'MiB sent':>10}{'ms exchanging':>15}")
    for batch, one, two in rows:
        wall, processor = ([median(getattr(side, what)) for side in (one, two)]
                           for what in ("wall", "processor"))
        # each round's sides ran one after the other
        overhead = [median([b / a - 1 for a, b in zip(getattr(one, what), getattr(two, what))])
                    for what in ("wall", "processor")]
        print(f"{batch.name:12}{f'{1e3 * wall[0]:.0f} -> {1e3 * wall[1]:.0f}':>20}"
              f"{100 * overhead[0]:8.1f} %"
              f"{f'{1e3 * processor[0]:.0f} -> {1e3 * processor[1]:.0f}':>20}"
              f"{100 * overhead[1]:8.1f} %"
              f"{median([p['sent_bytes'] for p in two.plans]) / 2**20:10.1f}"
              f"{1e3 * median([p['exchange_seconds'] for p in two.plans]):15.0f}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dcp", type=Path, default=Path("build/cpu/dcp"), help="the executable")
    parser.add_argument("--model", default="small", choices=list(MODELS))
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--lengths", help="lengths file; default: built-in quantiles")
    parser.add_argument("--batch-tokens", type=int, default=16384, help="of the ordinary batch")
    parser.add_argument("--longest", type=int, default=MAX_TOKENS,
                        help="tokens of the long sequence of the dominated batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=2, help="counted iterations a process")
    parser.add_argument("--compiled", action="store_true", help="also DDP with torch.compile")
    parser.add_argument("--parts", default="batches,degrees", help="what to measure")
    return parser.parse_args()


def main():
    options = parse_options()
    parts = options.parts.split(",")
    with tempfile.TemporaryDirectory(prefix="dcp-bench-") as folder:
        batches = compare_batches(options, Path(folder)) if "batches" in parts else []
        degrees = compare_degrees(options, Path(folder)) if "degrees" in parts else []
    if batches:
        print_comparison(batches)
    if degrees:
        print_degrees(degrees)


if __name__ == "__main__":
    main()
