"""`dcp` against the other planners in real runs on this machine, on lengths that differ.

Every planner trains the same sequences in the same order, on data made of the documentation on this
machine with short-, balanced- and long-dominated lengths, on 2 ranks and on 4. A rank's memory is so
scarce that the longest sequence needs all ranks, or recomputes: on GPUs it is no different. Planners
take turns in every round. An iteration counts with its median over the rounds; the first of a run
only warms up. Beside the measured ratio stands that of `dcp simulate` with the profile of this
machine and the same batches. Samples must be the same and losses agree (--tolerance).
"""

import argparse
import json
import re
import statistics
import sys

from training import (MAX_TOKENS, Training, add_common_options, differences_between,
                      errors_within_iterations, launcher, make_lengths, median_by_iteration, prepare, quantile_of_absolute, run_command, settings_of,
                      step_errors, write_config)

DISTRIBUTIONS = ["short", "balanced", "long"]
PLANNERS = ["bucket", "packed", "dcp-inter", "dcp-intra", "dcp"]
SIMULATION = """\
cluster: {{cost: {profile}, ranks: {ranks}, memory_budget: {budget}}}
data: {{dataset: {dataset}, max_tokens: {max_tokens}}}
batch: {{tokens: {batch_tokens}}}
run: {{iterations: {iterations}, seed: 1}}
planner: {{names: [{planners}], effort: fast, plan_seconds: 0}}
"""


class Setup:
    """A number of ranks: the settings that all runs on them share, and their profile."""

    def __init__(self, options, ranks, datasets):
        self.options, self.ranks = options, ranks
        self.folder = options.folder / f"ranks-{ranks}"
        self.folder.mkdir(exist_ok=True)
        self.config = write_config(self.folder / "config.yaml", datasets, options.batch_tokens)
        self.settings = [f"run.dtype={options.dtype}"]
        self.budget = self.scarce_budget()
        self.settings.append(f"memory.budget={self.budget}")
        self.profile = self.folder / "profile.json"
        run_command([*launcher(ranks), options.dcp, "profile", self.config, "--out", self.profile,
                     *settings_of(self.settings)])
        self.settings.append(f"profile={self.profile}")

    def scarce_budget(self):
        """So many bytes that the longest sequence, without recomputation, needs all ranks."""
        share = -(-MAX_TOKENS // self.ranks)
        run = Training(self.options.dcp, self.config, self.folder / "budget", self.ranks,
                       [*self.settings, "run.iterations=0", "planner.recompute=no", "profile=off",
                        f"batch.micro_batch_tokens={share}"]).run()
        most = re.search(r"at most ([\d.]+) MiB will be used", run.output)
        return int(1.02 * float(most.group(1))) << 20


class Cell:
    """One set of lengths on a number of ranks."""

    def __init__(self, options, setup, distribution, dataset):
        self.options, self.setup, self.distribution = options, setup, distribution
        self.ranks, self.dataset = setup.ranks, dataset
        self.folder = options.folder / f"{distribution}-on-{setup.ranks}"
        self.folder.mkdir(exist_ok=True)
        self.config = write_config(self.folder / "config.yaml", [dataset], options.batch_tokens)

    def train(self, planner):
        iterations = self.options.iterations
        return Training(self.options.dcp, self.config, self.folder / planner, self.ranks,
                        [*self.setup.settings, f"run.iterations={iterations}",
                         f"planner.name={planner}", f"monitor.trace_iterations=[{iterations}]"]).run()

    def simulate(self):
        """Tokens a second of every planner, in virtual time."""
        config = self.folder / "simulate.yaml"
        config.write_text(SIMULATION.format(
            profile=self.setup.profile, ranks=self.ranks, budget=self.setup.budget,
            dataset=self.dataset, max_tokens=MAX_TOKENS, batch_tokens=self.options.batch_tokens,
            iterations=self.options.iterations, planners=", ".join(self.options.planners)))
        result = self.folder / "simulate.json"
        run_command([self.options.dcp, "simulate", config, "--json", result])
        runs = [json.loads(line) for line in result.read_text().splitlines()]
        return {run["planner"]: run["tokens_per_second"] for run in runs}

    def check_same_work(self, name, training, first):
        where = f"{self.distribution}, {self.ranks} ranks, {name}"
        if training.samples != first.samples:
            sys.exit(f"{where}: other samples than the first run")
        for line, expected in zip(training.metrics, first.metrics, strict=True):
            if abs(line["loss"] - expected["loss"]) > self.options.tolerance * expected["loss"]:
                sys.exit(f"{where}: the loss of iteration {line['iteration']} is {line['loss']}, "
                         f"of the first run {expected['loss']}")

    def measure(self):
        planners = self.options.planners
        runs = {planner: [] for planner in planners}
        first = None
        for number in range(self.options.rounds):
            turn = number % len(planners)  # nobody is always first
            for planner in planners[turn:] + planners[:turn]:
                training = self.train(planner)
                first = first or training
                self.check_same_work(planner, training, first)
                runs[planner].append(training)
                print(f"  {self.distribution:9}{self.ranks} ranks  {planner:10}"
                      f"{training.tokens_per_second():9,.0f} tokens/s", flush=True)
        figures = {"distribution": self.distribution, "ranks": self.ranks,
                   "budget": self.setup.budget, "simulated": self.simulate(),
                   "planners": {planner: figures_of(trainings)
                                for planner, trainings in runs.items()}}
        (self.folder / "figures.json").write_text(json.dumps(figures, indent=1))


def figures_of(trainings):
    seconds = median_by_iteration(trainings, "seconds")
    tokens = median_by_iteration(trainings, "tokens")
    metrics = [line for training in trainings for line in training.metrics[1:]]
    degrees = {}
    for line in metrics:
        for ranks, count in zip(line["steps"]["ranks"], line["steps"]["tokens"]):
            degrees[len(ranks)] = degrees.get(len(ranks), 0) + count
    total = sum(degrees.values())
    return {"tokens_per_second": sum(tokens) / sum(seconds),
            "of_rounds": [sum(tokens) / sum(line["seconds"] for line in training.metrics[1:])
                          for training in trainings],
            "imbalance": statistics.mean(line["imbalance_ratio"] for line in metrics),
            "plan_exposed": max(line["plan_exposed_seconds"] for line in metrics),
            "degrees": {degree: count / total for degree, count in sorted(degrees.items())},
            "step_errors": step_errors(metrics, "predicted_seconds", "seconds"),
            "errors_within": errors_within_iterations(metrics),
            "differences": differences_between(trainings),
            "uncorrected_errors": step_errors(metrics, "uncorrected_seconds", "seconds"),
            "byte_errors": step_errors(metrics, "predicted_bytes", "bytes")}


def read_figures(folder):
    """Of all cells that were measured, now or earlier."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*-on-*/figures.json"))]


def print_speeds(cells, planners):
    print("\ntokens/s, and how many times those of the first planner: measured (least and most of single "
          "rounds)\nand, after the slash, simulated\n")
    print("| lengths, ranks | " + " | ".join(planners) + " | dcp over the best other |")
    print("|" + " --- |" * (len(planners) + 2))
    for cell in cells:
        row = []
        base, simulated = cell["planners"][planners[0]], cell["simulated"]
        for planner in planners:
            own = cell["planners"][planner]
            ratio = own["tokens_per_second"] / base["tokens_per_second"]
            ratios = [a / b for a, b in zip(own["of_rounds"], base["of_rounds"])]
            row.append(f"{own['tokens_per_second']:,.0f}" if planner == planners[0] else
                       f"{ratio:.2f} ({min(ratios):.2f}-{max(ratios):.2f}) / "
                       f"{simulated[planner] / simulated[planners[0]]:.2f}")
        others = {p: f["tokens_per_second"] for p, f in cell["planners"].items() if p != "dcp"}
        best = max(others, key=others.get)
        row.append(f"{cell['planners']['dcp']['tokens_per_second'] / others[best]:.2f} ({best})")
        print(f"| {cell['distribution']}, {cell['ranks']} | " + " | ".join(row) + " |")


def median_text(errors):
    return f"{100 * quantile_of_absolute(errors, 0.5):.1f} %" if errors else "-"


def print_errors(cells):
    print("\nof the steps of all planners: |predicted - measured| / measured\n")
    print("| lengths, ranks | steps | seconds: median | 95 % | beside the rank's other steps: median | "
          "the same step in the next round: median | without correction: median | `dcp`: median "
          "| bytes: median | largest | needed more than predicted | planning waited for |")
    print("|" + " --- |" * 12)
    rows = [(f"{cell['distribution']}, {cell['ranks']}", [cell]) for cell in cells]
    for ranks in sorted({cell["ranks"] for cell in cells}):
        rows.append((f"all, {ranks}", [cell for cell in cells if cell["ranks"] == ranks]))
    for name, some in rows:
        figures = [figures for cell in some for figures in cell["planners"].values()]
        own = [error for cell in some for error in cell["planners"]["dcp"]["step_errors"]]
        seconds, uncorrected, within, differences, num_bytes = (
            [error for planner in figures for error in planner[key]]
            for key in ("step_errors", "uncorrected_errors", "errors_within", "differences",
                        "byte_errors"))
        print(f"| {name} | {len(seconds)} | "
              f"{100 * quantile_of_absolute(seconds, 0.5):.1f} % | "
              f"{100 * quantile_of_absolute(seconds, 0.95):.1f} % | "
              f"{median_text(within)} | {median_text(differences)} | "
              f"{100 * quantile_of_absolute(uncorrected, 0.5):.1f} % | "
              f"{100 * quantile_of_absolute(own, 0.5):.1f} % | "
              f"{100 * quantile_of_absolute(num_bytes, 0.5):.2f} % | "
              f"{100 * max(map(abs, num_bytes)):.2f} % | {sum(error < 0 for error in num_bytes)} | "
              f"{1e3 * max(planner['plan_exposed'] for planner in figures):.1f} ms |")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser)
    parser.add_argument("--distributions", default=",".join(DISTRIBUTIONS),
                        help="none: only print the tables of all figures that are in the folder")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--planners", default=",".join(PLANNERS), help="ratios are over the first")
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tolerance", type=float, help="of losses, relative; by default 1e-4 in fp32; "
                        "in bf16, where a hard batch multiplies what sums round, 5e-3")
    options = parser.parse_args()
    if options.tolerance is None:
        options.tolerance = 5e-3 if options.dtype == "bf16" else 1e-4
    prepare(options)
    options.planners = options.planners.split(",")
    return options


def main():
    options = parse_options()
    names = [name for name in options.distributions.split(",") if name != "none"]
    datasets = [make_lengths(options, name, options.documents) for name in DISTRIBUTIONS]
    for ranks in map(int, options.ranks.split(",") if names else []):
        setup = Setup(options, ranks, datasets)
        for name in names:
            Cell(options, setup, name, datasets[DISTRIBUTIONS.index(name)]).measure()
    cells = read_figures(options.folder)
    if cells:
        print_speeds(cells, options.planners)
        print_errors(cells)


if __name__ == "__main__":
    main()
