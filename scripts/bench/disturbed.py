"""What `dcp` does when a run is disturbed, in real runs of two ranks.

neighbour: half way another process starts to load one of the two processors, to which the ranks are
bound. The same run without and with `planner.correct`: imbalance, and tokens a second, of every
iteration. Lengths are short-dominated: most sequences fit on one rank, so the planner can choose
which rank gets them.

switch: half way the data changes from short- to long-dominated lengths (two datasets one after the
other, data.shuffle: false). Compared with runs on each half alone, which profile and correct
themselves on its lengths only: the same sequences, so iterations are compared one by one.

Writes FOLDER/neighbour.json and FOLDER/switch.json, which plot_disturbed.py draws.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from training import (Training, add_common_options, distribution_of, make_lengths,
                      median_by_iteration, prepare, run_command, write_config)

RANKS = 2
USE_A_PROCESSOR = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"


class Neighbour:
    """Starts to use a processor when a run has done so many iterations, until it is stopped."""

    def __init__(self, processor, iterations):
        self.processor, self.iterations, self.process = processor, iterations, None

    def look(self, metrics):
        if self.process is None and len(metrics) >= self.iterations:
            self.process = subprocess.Popen([sys.executable, "-c", USE_A_PROCESSOR,
                                             str(self.processor)])

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def measure_neighbour(options):
    dataset = make_lengths(options, "short", 60 * options.iterations)
    config = write_config(options.folder / "neighbour.yaml", [dataset], options.batch_tokens)
    processor = min(os.sched_getaffinity(0))
    runs = {}
    for correct in ("false", "true"):
        training = Training(options.dcp, config, options.folder / f"neighbour-{correct}", RANKS,
                            [f"run.dtype={options.dtype}", f"run.iterations={options.iterations}",
                             f"planner.correct={correct}"], bind_to="core")
        neighbour = Neighbour(processor, options.iterations // 2)
        try:
            training.run_beside(neighbour.look)
        finally:
            neighbour.stop()
        runs[correct] = [{key: line[key] for key in ("iteration", "tokens", "seconds",
                                                     "imbalance_ratio", "busy_fractions")}
                         for line in training.metrics]
    figures = {"loaded_from": options.iterations // 2 + 1, "runs": runs}
    (options.folder / "neighbour.json").write_text(json.dumps(figures, indent=1))


def settled(lines, start, stop):
    """Mean imbalance and tokens a second of the last two thirds of some iterations."""
    part = lines[start + (stop - start) // 3: stop]
    return (statistics.mean(line["imbalance_ratio"] for line in part),
            sum(line["tokens"] for line in part) / sum(line["seconds"] for line in part))


def print_neighbour(figures):
    print("\n| planner.correct | imbalance before | with the neighbour | tokens/s before | with it |")
    print("| --- | --- | --- | --- | --- |")
    for correct, lines in figures["runs"].items():
        start = figures["loaded_from"] - 1
        before, beside = settled(lines, 0, start), settled(lines, start, len(lines))
        print(f"| {correct} | {100 * before[0]:.1f} % | {100 * beside[0]:.1f} % | {before[1]:,.0f} | "
              f"{beside[1]:,.0f} |")


def fill_batches(lengths, batch_tokens):
    """As the sampler does: of every full batch how many sequences end it, and the room left."""
    ends, tokens = [], 0
    for position, length in enumerate(lengths):
        if tokens > 0 and tokens + length > batch_tokens:
            ends.append((position, batch_tokens - tokens))
            tokens = 0
        tokens += length
    return ends


def sample_lengths(options, distribution, count):
    output = run_command([options.dcp, "data", "sample", distribution_of(distribution), "--count",
                          count])
    return [int(line) for line in output.splitlines() if not line.startswith("#")]


def measure_switch(options):
    """The short half ends with a batch in which nothing that may come next finds room; so the halves
    alone have the same batches as the whole."""
    short, long = (sample_lengths(options, name, 400 * options.iterations)
                   for name in ("short", "long"))
    ends = fill_batches(short, options.batch_tokens)
    half = next(number for number, (_, room) in enumerate(ends, 1)
                if number >= options.iterations // 2 and room < min(short[0], long[0]))
    datasets = [make_lengths(options, "short", ends[half - 1][0]),
                make_lengths(options, "long",
                             fill_batches(long, options.batch_tokens)[half + 1][0])]
    parts = {"switch": (datasets, 2 * half), "short": (datasets[:1], half),
             "long": (datasets[1:], half)}
    runs = {name: [] for name in parts}
    for number in range(options.rounds):
        for name, (of_part, iterations) in parts.items():
            config = write_config(options.folder / f"switch-{name}.yaml", of_part,
                                  options.batch_tokens)
            training = Training(options.dcp, config, options.folder / f"switch-{name}", RANKS,
                                [f"run.dtype={options.dtype}", f"run.iterations={iterations}",
                                 "data.shuffle=false"])
            training.environment["DCP_PROFILE_DIR"] = str(options.folder / f"profile-{name}-{number}")
            runs[name].append(training.run())
            print(f"  {name:8}{training.tokens_per_second():9,.0f} tokens/s", flush=True)
    check_halves(runs, half)
    figures = {"half": half,
               "tokens": [line["tokens"] for line in runs["switch"][0].metrics],
               "seconds": {name: median_by_iteration(trainings, "seconds", first=0)
                           for name, trainings in runs.items()}}
    (options.folder / "switch.json").write_text(json.dumps(figures, indent=1))


def check_halves(runs, half):
    """The halves alone have the sequences of the whole."""
    whole = [line["sequences"] for line in runs["switch"][0].samples]
    first = 1 + max(id for ids in whole[:half] for id in ids)
    for name, ids in (("short", whole[:half]),
                      ("long", [[id - first for id in of_one] for of_one in whole[half:]])):
        if [line["sequences"] for line in runs[name][0].samples] != ids:
            sys.exit(f"the run on {name} lengths alone has other batches than the whole run")


def print_switch(figures):
    half = figures["half"]
    print("\n| half | alone, tokens/s | in the run that switches | kept |")
    print("| --- | --- | --- | --- |")
    for name, start in (("short", 0), ("long", half)):
        # The first iteration of a run only warms up, so in both that one does not count.
        tokens = sum(figures["tokens"][start + 1: start + half])
        alone = tokens / sum(figures["seconds"][name][1:])
        inside = tokens / sum(figures["seconds"]["switch"][start + 1: start + half])
        print(f"| {name} | {alone:,.0f} | {inside:,.0f} | {100 * inside / alone:.1f} % |")


PARTS = {"neighbour": (measure_neighbour, print_neighbour),
         "switch": (measure_switch, print_switch)}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--iterations", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3, help="of the switch")
    return parser.parse_args()


def main():
    options = parse_options()
    prepare(options)
    for name in options.parts.split(","):
        measure, show = PARTS[name]
        measure(options)
        show(json.loads((options.folder / f"{name}.json").read_text()))


if __name__ == "__main__":
    main()
