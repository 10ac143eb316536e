"""Runs `dcp simulate` and keeps what it wrote."""

import json
import os
import subprocess
from pathlib import Path

CLUSTER = "configs/clusters/h200.yaml"
MODELS = {"1D": "configs/transformer-1d-5b-full.yaml", "2D": "configs/transformer-2d-1.2b.yaml"}
SETS = {"1D": {"short": "short", "balanced": "balanced", "long": "long"},
        "2D": {"short": "video-short", "balanced": "video-balanced", "long": "video-long"}}


class Simulator:
    """One folder of results; every simulation leaves its configuration and its CSV there."""

    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "configs").mkdir(parents=True, exist_ok=True)
        (self.folder / "csv").mkdir(exist_ok=True)

    def run(self, name, kind, data, ranks, planners, **keys):
        """Runs, in the order of ranks, then planners. `data` is a distribution or a list of lengths;
        other keys are SECTION__KEY=value."""
        settings = {"planner__effort": "background", "planner__plan_seconds": 0, "run__seed": 1, **keys}
        if isinstance(data, str):
            settings["data__distribution"] = data
        else:
            lengths = self.folder / "configs" / f"{name}.lengths"
            lengths.write_text("".join(f"{line}\n" for line in data), encoding="utf-8")
            settings["data__lengths"] = str(lengths)
        settings |= {"cluster__cost": CLUSTER, "cluster__model": MODELS[kind],
                     "cluster__ranks": list(ranks), "planner__names": list(planners)}
        config = self.folder / "configs" / f"{name}.yaml"
        config.write_text(self.yaml(name, settings), encoding="utf-8")
        table, lines = self.folder / "csv" / f"{name}.csv", self.folder / "configs" / f"{name}.json"
        subprocess.run([os.environ["DCP"], "simulate", config, "--csv", table, "--json", lines],
                       check=True, stdout=subprocess.DEVNULL)
        return self.read(table, lines)

    @staticmethod
    def yaml(name, settings):
        sections = {}
        for key, value in settings.items():
            section, key = key.split("__")
            text = "[" + ", ".join(map(str, value)) + "]" if isinstance(value, list) else value
            sections.setdefault(section, {})[key] = text
        text = f"# Written by scripts/paper/paper.py.\nname: {name}\n"
        for section, keys in sections.items():
            text += f"{section}:\n" + "".join(f"  {key}: {value}\n" for key, value in keys.items())
        return text

    @staticmethod
    def read(table, lines):
        rows = [line.split(",") for line in table.read_text(encoding="utf-8").splitlines()]
        runs = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
        for run, row in zip(runs, rows[1:]):
            for key, value in zip(rows[0], row):
                run.setdefault(key, float(value) if key != "planner" else value)
            run["bound_seconds"] = sum(one["lower_bound_seconds"] for one in run["iterations"])
        return runs


def find(runs, **wanted):
    return next(run for run in runs if all(run[key] == value for key, value in wanted.items()))


def speed_up(runs, planner, base="bucket", **where):
    """Time of `base` over that of `planner`: both train the same sequences."""
    return find(runs, planner=base, **where)["seconds"] / find(runs, planner=planner, **where)["seconds"]
