#!/usr/bin/env python3
"""Draws ranks over time, as planned and as they ran, from traces of one or more runs.

    plot_ranks.py PICTURE TRACE [TRACE ...]     PICTURE: .svg, .png or .pdf

TRACE is a `trace-NNNNNN.json` of a run folder (`monitor.trace_iterations`, docs/output.md). Every
trace is a panel, all with the same time axis: two lines a rank, the plan above and reality below it.
Needs matplotlib (Debian: python3-matplotlib).
"""

import argparse
import json
from pathlib import Path

try:
    import matplotlib
except ImportError:
    raise SystemExit("matplotlib is missing: install python3-matplotlib and start with the system's "
                     "python3 (/usr/bin/python3)") from None
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

WAITING, COMMUNICATION = "#d9d9d9", "#d95f02"
LINE = 0.36  # of the height of a rank
MOST_LABELS = 40  # steps of a rank that can be labelled legibly


def read_trace(path):
    try:
        trace = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None
    if not isinstance(trace, dict) or trace.get("otherData", {}).get("format") != "dcp-trace-1":
        raise SystemExit(f"{path}: not a trace of `dcp train` (format dcp-trace-1)")
    return trace


def color_of(degree):
    """One hue a degree, the same in every panel: 1, 2, 3-4, 5-8, ..."""
    palette = ("#9ecae1", "#3182bd", "#756bb1", "#31a354", "#006d2c", "#636363")
    return palette[min((degree - 1).bit_length(), len(palette) - 1)]


def slices(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def draw_bar(axis, event, row, color):
    axis.broken_barh([(event["ts"] / 1e3, event["dur"] / 1e3)], (row, LINE), facecolors=color,
                     edgecolors="white", linewidth=0.4)


def draw_trace(axis, trace):
    about = trace["otherData"]
    steps = slices(trace, "reality")
    for event in slices(trace, "plan") + steps:
        row = event["pid"] + (0.08 if event["cat"] == "plan" else 0.1 + LINE)
        draw_bar(axis, event, row, color_of(event["args"]["degree"]))
        if len(steps) <= MOST_LABELS * about["ranks"]:
            axis.text((event["ts"] + event["dur"] / 2) / 1e3, row + LINE / 2,
                      event["args"]["degree"], ha="center", va="center", fontsize=7, color="white",
                      clip_on=True)
    for category, color in (("waiting", WAITING), ("communication", COMMUNICATION)):
        for event in slices(trace, category):
            draw_bar(axis, event, event["pid"] + 0.1 + LINE, color)
    bound = about.get("lower_bound_seconds", 0)
    if bound > 0:
        axis.axvline(1e3 * bound, color="black", linewidth=0.8, linestyle="--")
    planned = about.get("predicted_makespan_seconds")
    axis.set_title(f"{about['planner']}: {1e3 * about['makespan_seconds']:.0f} ms"
                   + (f", planned {1e3 * planned:.0f} ms" if planned else "")
                   + f"; {about['tokens'] / about['makespan_seconds']:,.0f} tokens/s in the steps",
                   fontsize=9, loc="left")
    axis.set_ylim(about["ranks"], 0)
    if about["ranks"] <= 32:
        axis.set_yticks([rank + 0.5 for rank in range(about["ranks"])],
                        [f"rank {rank}" for rank in range(about["ranks"])], fontsize=8)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=8)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def draw(traces, picture):
    ranks = [trace["otherData"]["ranks"] for trace in traces]
    heights = [max(0.42 * min(count, 32), 0.8) for count in ranks]
    figure, axes = pyplot.subplots(len(traces), 1, squeeze=False, sharex=True,
                                   figsize=(9, sum(heights) + 0.5 * len(traces) + 0.9),
                                   gridspec_kw={"height_ratios": heights})
    for axis, trace in zip(axes[:, 0], traces):
        draw_trace(axis, trace)
    axes[-1, 0].set_xlabel("milliseconds; of each rank the plan above, reality below", fontsize=8)
    axes[-1, 0].set_xlim(left=0)
    degrees = sorted({event["args"]["degree"] for trace in traces
                      for event in slices(trace, "reality")})
    legend = [Patch(facecolor=color_of(degree), label=f"step on {degree} rank{'s' * (degree > 1)}")
              for degree in degrees]
    legend += [Patch(facecolor=COMMUNICATION, label="of it communication"),
               Patch(facecolor=WAITING, label="waiting for peers")]
    if any(trace["otherData"].get("lower_bound_seconds", 0) > 0 for trace in traces):
        legend.append(pyplot.Line2D([], [], color="black", linewidth=0.8, linestyle="--",
                                    label="no plan is shorter"))
    figure.legend(handles=legend, loc="upper center", ncol=len(legend), fontsize=7, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / figure.get_figheight()))
    figure.savefig(picture, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture")
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    arguments = parser.parse_args()
    draw([read_trace(path) for path in arguments.traces], arguments.picture)


if __name__ == "__main__":
    main()
