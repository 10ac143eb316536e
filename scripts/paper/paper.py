"""The paper's benchmarks, simulated: runs the experiments, writes CSV, plots and the report."""

import argparse
import time
from pathlib import Path

import experiments
import plots
import report
from simulation import Simulator

EXPERIMENTS = ["speed_ups", "bucket_degrees", "elastic", "laws", "batch_sizes", "scaling", "recomputation", "degrees", "regrouping"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few batches of everything, at fast effort")
    parser.add_argument("--out", default="build/paper", help="folder for all files (build/paper)")
    arguments = parser.parse_args()
    folder = Path(arguments.out)
    simulator = Simulator(folder)
    results = {}
    for name in EXPERIMENTS:
        start = time.monotonic()
        results[name] = getattr(experiments, name)(simulator, arguments.quick)
        print(f"{name}: simulated in {time.monotonic() - start:.1f} s", flush=True)
    files = {name: f"paper/{name}.svg" for name in ("speed_ups", "batch_sizes", "scaling", "recomputation")}
    (folder / "paper").mkdir(exist_ok=True)
    plots.speed_ups(results["speed_ups"], 32, experiments.PLANNERS[1:], folder / files["speed_ups"])
    plots.batch_sizes(results["batch_sizes"], folder / files["batch_sizes"])
    plots.scaling(results["scaling"], folder / files["scaling"])
    plots.recomputation(results["recomputation"], folder / files["recomputation"])
    report.write(folder / "paper.md", results, arguments.quick, files)
    print(f"report: {folder / 'paper.md'}, plots and CSV beside it")


main()
