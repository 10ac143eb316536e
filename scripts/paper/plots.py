"""Plots of the report. Every title says that the numbers are simulated."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from simulation import SETS, speed_up  # noqa: E402

matplotlib.rcParams.update({"svg.hashsalt": "dcp", "font.size": 9, "axes.grid": True,
                            "grid.alpha": 0.3, "axes.axisbelow": True})
COLOURS = {"bucket": "#888888", "packed": "#c9a227", "dcp-inter": "#7aa6c2", "dcp-intra": "#2f6f9f",
           "dcp": "#b3402a", "bound": "#222222"}


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def speed_ups(runs, ranks, planners, path):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
    for axis, (kind, sets) in zip(axes, SETS.items()):
        for i, planner in enumerate(planners):
            values = [speed_up(runs[kind, name], planner, ranks=ranks) for name in sets]
            axis.bar([j + 0.15 * i for j in range(len(sets))], values, 0.14, label=planner,
                     color=COLOURS[planner])
        axis.set_xticks([j + 0.15 * (len(planners) - 1) / 2 for j in range(len(sets))], list(sets))
        axis.set_title(f"simulated: Transformer-{kind}, {ranks} x H200")
        axis.set_ylabel("speed-up over bucket")
    axes[0].legend(fontsize=8)
    save(figure, path)


def scaling(runs, path):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, (kind, sets) in zip(axes, SETS.items()):
        for name in sets:
            found = runs[kind, name]
            axis.plot([run["ranks"] for run in found],
                      [run["tokens_per_second"] / run["ranks"]
                       / (found[0]["tokens_per_second"] / found[0]["ranks"]) for run in found],
                      marker="o", markersize=3, label=name)
        axis.axhline(0.95, color="#888888", linewidth=0.8, linestyle="--")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("ranks")
        axis.set_title(f"simulated: Transformer-{kind}, H200")
    axes[0].set_ylabel("throughput of a rank, over 8 ranks")
    axes[0].set_ylim(0.8, 1.1)
    axes[0].legend(fontsize=8)
    save(figure, path)


def recomputation(runs, path):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
    for axis, kind in zip(axes, SETS):
        found = sorted(((key[1], value) for key, value in runs.items() if key[0] == kind),
                       key=lambda point: point[0])
        for planner in ("dcp-intra", "dcp"):
            axis.plot([tokens for tokens, _ in found],
                      [100 * (by["dcp-inter"]["seconds"] / by[planner]["seconds"] - 1)
                       for _, by in found], marker="o", markersize=3, label=planner,
                      color=COLOURS[planner])
        axis.axvline(200_000, color="#888888", linewidth=0.8, linestyle="--")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("tokens of a sequence")
        axis.set_title(f"simulated: Transformer-{kind}, 32 x H200")
    axes[0].set_ylabel("gain over full recomputation, %")
    axes[0].legend(fontsize=8)
    save(figure, path)


def batch_sizes(runs, path):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
    for axis, (kind, sets) in zip(axes, SETS.items()):
        for name in sets:
            found = sorted(((key[2], value) for key, value in runs.items() if key[:2] == (kind, name)),
                           key=lambda point: point[0])
            axis.plot([size for size, _ in found], [speed_up(value, "dcp") for _, value in found],
                      marker="o", markersize=3, label=name)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set_xlabel("sequences of a rank and iteration")
        axis.set_title(f"simulated: Transformer-{kind}, 32 x H200")
    axes[0].set_ylabel("speed-up of dcp over bucket")
    axes[0].legend(fontsize=8)
    save(figure, path)
