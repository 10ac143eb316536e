#!/usr/bin/env python3
"""Plots what bench_plan measured: plan time over ranks x sequences, with the power that fits it, and how
far plans are from the bound.

    plot_planner.py MEASURED.csv PLOT.png
"""

import csv
import math
import statistics
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend comes first)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def bound(row):
    return max(float(row[key]) for key in ("area_seconds", "slots_seconds", "lp_seconds"))


def fitted_power(points):
    """Slope of log(time) over log(size) by least squares; None where there is but one size."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    if len(set(xs)) < 2:
        return None
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum(
        (x - mean_x) ** 2 for x in xs)


def plot_times(axes, rows):
    times = defaultdict(lambda: defaultdict(list))  # planner -> ranks x sequences -> seconds
    for row in rows:
        size = int(row["ranks"]) * int(row["sequences"])
        times[row["planner"]][size].append(float(row["plan_seconds"]))
    for planner, by_size in times.items():
        points = [(size, statistics.median(seconds)) for size, seconds in sorted(by_size.items())]
        power = fitted_power(points)
        label = planner if power is None else f"{planner} (power {power:.2f})"
        axes.loglog([x for x, _ in points], [1e3 * y for _, y in points], "o-", label=label)
        if power is not None:
            print(f"{planner}: plan time grows as (ranks x sequences)^{power:.2f}")
    axes.set_xlabel("ranks x sequences")
    axes.set_ylabel("plan time, ms (median)")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()


def plot_gaps(axes, rows):
    gaps = defaultdict(list)
    for row in rows:
        case = f"{row['lengths']}\n{row['ranks']} x {row['sequences']}, {row['degrees']}"
        if row["recompute"] == "yes":
            case += ", recompute"
        if row["planner"].startswith("dcp "):
            gaps[case, row["planner"]].append(100 * (float(row["makespan_seconds"]) / bound(row) - 1))
    cases = list(dict.fromkeys(case for case, _ in gaps))
    for planner in dict.fromkeys(planner for _, planner in gaps):
        places = [i for i, case in enumerate(cases) if (case, planner) in gaps]
        means = [statistics.fmean(gaps[cases[i], planner]) for i in places]
        worst = [max(gaps[cases[i], planner]) - mean for i, mean in zip(places, means)]
        axes.errorbar(places, means, yerr=[[0] * len(worst), worst], fmt="o", capsize=3, label=planner)
    axes.set_xticks(range(len(cases)), cases, rotation=90, fontsize=6)
    axes.set_ylabel("over the best bound, % (mean, worst)")
    axes.set_ylim(bottom=0)
    axes.grid(True, axis="y", alpha=0.3)
    axes.legend()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = read(sys.argv[1])
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(14, 6))
    plot_times(left, rows)
    plot_gaps(right, rows)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=120)


if __name__ == "__main__":
    main()
