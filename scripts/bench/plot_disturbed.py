#!/usr/bin/env python3
"""plot_disturbed.py FOLDER: draws neighbour.json and switch.json of bench/disturbed.py, whichever are
there, as FOLDER/neighbour.svg and FOLDER/switch.svg. Needs matplotlib (Debian: python3-matplotlib)."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

WITHOUT, WITH, MARK = "#d95f02", "#3182bd", "#636363"


def panels(count, height):
    figure, axes = pyplot.subplots(count, 1, sharex=True, squeeze=False, figsize=(8, height))
    for axis in axes[:, 0]:
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[-1, 0].set_xlabel("iteration", fontsize=9)
    return figure, list(axes[:, 0])


def mark(axis, iteration, text):
    axis.axvline(iteration - 0.5, color=MARK, linewidth=0.8, linestyle="--")
    axis.text(iteration - 0.4, 0.97, text, transform=axis.get_xaxis_transform(), va="top",
              fontsize=8, color=MARK)


def finish(figure, axes, path):
    for axis in axes:
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=8, frameon=False, loc="upper left", ncol=2)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def draw_neighbour(figures, path):
    figure, (imbalance, speed) = panels(2, 4.2)
    for correct, color in (("false", WITHOUT), ("true", WITH)):
        lines = figures["runs"][correct][1:]  # the first only warms up
        iterations = [line["iteration"] for line in lines]
        label = f"planner.correct: {correct}"
        imbalance.plot(iterations, [100 * line["imbalance_ratio"] for line in lines], color=color,
                       marker=".", label=label)
        speed.plot(iterations, [line["tokens"] / line["seconds"] / 1e3 for line in lines],
                   color=color, marker=".", label=label)
    imbalance.set_ylabel("imbalance, %", fontsize=9)
    speed.set_ylabel("1000 tokens/s", fontsize=9)
    for axis in (imbalance, speed):
        mark(axis, figures["loaded_from"], "another process loads one core")
    finish(figure, [imbalance, speed], path)


def draw_switch(figures, path):
    half, tokens, seconds = figures["half"], figures["tokens"], figures["seconds"]
    figure, (axis,) = panels(1, 3)

    def plot(values, start, **options):
        iterations = range(start + 2, start + len(values) + 1)  # the first only warms up
        axis.plot(iterations, [tokens[i - 1] / values[i - 1 - start] / 1e3 for i in iterations],
                  **options)

    plot(seconds["short"], 0, color=WITHOUT, marker="o", markerfacecolor="none", linewidth=0.6,
         label="each half alone")
    plot(seconds["long"], half, color=WITHOUT, marker="o", markerfacecolor="none", linewidth=0.6)
    plot(seconds["switch"], 0, color=WITH, marker=".", label="one run that switches")
    axis.set_ylabel("1000 tokens/s", fontsize=9)
    mark(axis, half + 1, "short- to long-dominated lengths")
    finish(figure, [axis], path)


def main():
    folder = Path(sys.argv[1])
    for name, draw in (("neighbour", draw_neighbour), ("switch", draw_switch)):
        path = folder / f"{name}.json"
        if path.exists():
            draw(json.loads(path.read_text(encoding="utf-8")), folder / f"{name}.svg")
            print(f"{folder / name}.svg")


if __name__ == "__main__":
    main()
