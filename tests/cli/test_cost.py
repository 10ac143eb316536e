#!/usr/bin/env python3
"""Cost files of every format, in `dcp plan` and in `dcp train`, from outside."""

import json
import os
import subprocess
import unittest
from pathlib import Path

from support import DCP, CommandLineTest, read_json_lines
from test_ranks import RanksTest, read_processes

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CLUSTERS = CONFIGS / "clusters"
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "PASSIVE"}

COST = """\
format: dcp-cost-1
name: constants
layers: 2
degrees: any
ranks_per_node: 2
time: {fixed: 1e-3, per_token: 1e-5, per_token_squared: 1e-9, forward_share: 0.3333}
communication: {bytes_per_token: 1000, bandwidth: {2: 1e9}}
memory: {budget: 1e9, static: 1e6, layer_bytes_per_token: 1000, checkpoint_bytes_per_token: 100}
"""


def point(tokens, squared, degree, seconds):
    return {"tokens": tokens, "squared_tokens": squared, "ulysses": degree, "ring": 1,
            "link": "none" if degree == 1 else "node", "forward_seconds": seconds,
            "backward_seconds": 2 * seconds, "recompute_seconds": seconds,
            "kept_bytes": 1000 * tokens / degree, "checkpoint_bytes": 100 * tokens / degree,
            "working_bytes": 500 * tokens / degree}


def profile(layers=2, heads=4, kv_heads=2):
    points = []
    for degree in (1, 2):
        for tokens in (32, 256, 2048):
            for parts in (1, 4):
                squared = tokens * tokens / parts
                seconds = 1e-4 + (1e-6 * tokens + 1e-9 * squared) / degree
                points.append(point(tokens, squared, degree, seconds))
    return {"format": "dcp-profile-1", "name": "a profile", "measured": {"model": "tiny"},
            "layers": layers, "heads": heads, "kv_heads": kv_heads, "dimensions": 1,
            "text_pairs": 0, "ranks_per_node": 2, "recompute": True,
            "memory": {"budget_bytes": 1e9, "replicated_bytes": 1e6, "sharded_bytes": 1e6},
            "micro_batch": {"fixed_seconds": 1e-3, "token_seconds": 1e-7, "token_bytes": 100},
            "iteration": {"reduction_seconds": 0.01, "optimizer_seconds": 0.01},
            "speeds": [], "points": points}


class CostTest(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.cost = self.folder / "cost.yaml"
        self.cost.write_text(COST, encoding="utf-8")
        self.profile = self.folder / "profile.json"
        self.profile.write_text(json.dumps(profile()), encoding="utf-8")
        self.lengths = self.folder / "lengths.txt"
        self.lengths.write_text("100\n2000\n30\n" * 5, encoding="utf-8")


class Plan(CostTest):
    def plan(self, *more):
        return self.succeed("plan", "--ranks", 2, "--lengths", self.lengths, *more)

    def test_every_model_on_every_cluster(self):
        lengths = self.folder / "videos.txt"
        lengths.write_text("1x144\n30x405\n15x1590  # 51 frames of 480p\n", encoding="utf-8")
        for cluster in sorted(CLUSTERS.glob("*.yaml")):
            is_large = cluster.stem != "cpu-2core"
            for config in sorted(CONFIGS.glob("*.yaml")):
                if not is_large and config.stem not in ("tiny", "quickstart", "llama-26m"):
                    continue
                with self.subTest(cluster=cluster.stem, config=config.stem):
                    is_2d = "transformer-2d" in config.read_text(encoding="utf-8")
                    said = self.succeed("plan", "--cost", cluster, "--model", config, "--ranks", 16,
                                        "--effort", "fast",
                                        "--lengths", lengths if is_2d else self.lengths).stdout
                    self.assertIn("dcp", said)

    def test_three_formats_alike(self):
        plans = self.folder / "plans.jsonl"
        for cost, name in [((self.cost,), "constants"), ((self.profile,), "a profile"),
                           ((CLUSTERS / "cpu-2core.yaml", "--model", self.config),
                            "tiny on cpu-2core")]:
            with self.subTest(name):
                self.plan("--cost", *cost, "--json", plans)
                (plan,) = read_json_lines(plans)
                self.assertEqual(plan["cost"], name)
                self.assertNotIn("frames", plan)
                said = self.succeed("plan", "--check", plans, "--cost", *cost).stdout
                self.assertIn("1 plan, all valid under " + name, said)

    def test_frames_are_in_the_file(self):
        lengths = self.folder / "videos.txt"
        lengths.write_text("30x405\n15x810\n", encoding="utf-8")
        plans = self.folder / "plans.jsonl"
        cost = ("--cost", CLUSTERS / "h200.yaml", "--model", CONFIGS / "transformer-2d-1.2b.yaml")
        self.succeed("plan", "--ranks", 2, "--lengths", lengths, *cost, "--degrees", "1",
                     "--json", plans)
        (plan,) = read_json_lines(plans)
        self.assertEqual((plan["sequences"], plan["frames"]), ([12150, 12150], [30, 15]))
        first, second = sorted(plan["steps"], key=lambda step: step["sequences"])
        self.assertLess(first["seconds"], second["seconds"])  # frames of 810 tokens see more
        self.succeed("plan", "--check", plans, *cost)
        plan["frames"] = [15, 30]
        plans.write_text(json.dumps(plan), encoding="utf-8")
        self.refuse(2, ["seconds"], "plan", "--check", plans, *cost)

    def test_what_does_not_go_together(self):
        base = ("plan", "--ranks", 2, "--lengths", self.lengths)
        h200, model = CLUSTERS / "h200.yaml", CONFIGS / "transformer-1d-5b.yaml"
        self.refuse(2, ["h200.yaml: describes a cluster", "--model CONFIG"], *base, "--cost", h200)
        self.refuse(2, ["cost.yaml: a file of format dcp-cost-1 is about one model"], *base, "--cost",
                    self.cost, "--model", model)
        self.refuse(2, ["profile.json: a file of format dcp-profile-1"], *base, "--cost",
                    self.profile, "--model", model)
        self.refuse(2, ["lengths.txt: has a sequence of 100 tokens without frames"], *base, "--cost",
                    h200, "--model", CONFIGS / "transformer-2d-1.2b.yaml")
        videos = self.folder / "videos.txt"
        videos.write_text("15x100\n", encoding="utf-8")
        self.refuse(2, ["videos.txt: has a sequence of 15 frames"], "plan", "--ranks", 2,
                    "--lengths", videos, "--cost", h200, "--model", model)
        self.refuse(2, ["are not cut"], "plan", "--ranks", 2, "--lengths", videos, "--cost",
                    self.cost, "--max-tokens", 100)
        bad = self.folder / "bad.yaml"
        for text, fragment in [("", "has no key 'format'"), ("format: dcp-cost-9\n", "dcp-cluster-1"),
                               ("{", "not JSON"), ('{"format":"dcp-profile-1"}', "'name' is missing"),
                               (CLUSTERS.joinpath("h100.yaml").read_text().replace("  peak:", "  peek:"),
                                "bad.yaml:12: 'compute.peak' is missing"),
                               (CLUSTERS.joinpath("h100.yaml").read_text().replace("128: {", "120: {"),
                                "")]:
            with self.subTest(fragment):
                bad.write_text(text, encoding="utf-8")
                if fragment:
                    self.refuse(2, ["bad.yaml", fragment], *base, "--cost", bad, "--model", model)
                else:  # heads of 128 are padded to 256 then
                    self.succeed(*base, "--cost", bad, "--model", model)

    def test_guesses_are_announced(self):
        self.lengths.write_text("100\n5000\n", encoding="utf-8")
        result = self.plan("--cost", self.profile)
        self.assertIn("1 of 2 sequences alone lie outside of what was measured", result.stderr)
        self.lengths.write_text("100\n2000\n", encoding="utf-8")
        self.assertEqual(self.plan("--cost", self.profile).stderr, "")


class Train(CostTest):
    def train_ranks(self, folder, *settings):
        options = [part for setting in (f"run.folder={folder}", "run.iterations=4", *settings)
                   for part in ("--set", setting)]
        command = ["timeout", "-k", "5", "100", os.environ.get("MPIRUN", "mpirun"), "--oversubscribe",
                   "--bind-to", "none", "-np", "2", DCP, "train", str(self.config), *options]
        result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False,
                                stdin=subprocess.DEVNULL, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.warnings = result.stderr
        return read_json_lines(Path(folder) / "metrics.jsonl")

    def test_guesses_are_announced_once(self):
        wide = profile()
        wide["points"] = [one for one in wide["points"] if one["tokens"] < 300]
        self.profile.write_text(json.dumps(wide), encoding="utf-8")
        self.train_ranks(self.folder / "guesses", f"planner.cost={self.profile}",
                         "batch.micro_batch_tokens=1024")
        self.assertEqual(self.warnings.count("dcp: warning: iteration"), 1, self.warnings)
        self.assertIn("micro-batches lie outside of what", self.warnings)

    def test_any_format_trains_the_same(self):
        cluster = CLUSTERS / "cpu-2core.yaml"
        losses = [line["loss"] for line in self.train_ranks(self.folder / "plain")]
        for name, cost in [("cost", self.cost), ("profile", self.profile), ("cluster", cluster)]:
            with self.subTest(name):
                lines = self.train_ranks(self.folder / name, f"planner.cost={cost}")
                for line, loss in zip(lines, losses, strict=True):
                    self.assertAlmostEqual(line["loss"], loss, delta=1e-4)

    def test_what_the_file_allows(self):
        self.cost.write_text(COST.replace("degrees: any", "degrees: [2]"), encoding="utf-8")
        lines = self.train_ranks(self.folder / "pairs", f"planner.cost={self.cost}")
        self.assertTrue(all(set(line["steps_by_degree"]) == {"2"} for line in lines), lines)

    def test_files_of_other_models(self):
        base = ("train", self.config, "--set", f"run.folder={self.folder / 'none'}", "--set")
        self.refuse(2, ["nowhere.yaml: no such cost file"], *base, "planner.cost=nowhere.yaml")
        self.cost.write_text(COST.replace("layers: 2", "layers: 3"), encoding="utf-8")
        self.refuse(2, ["is about a model of 3 layers, and model.layers is 2"], *base,
                    f"planner.cost={self.cost}")
        self.cost.write_text(COST.replace("degrees: any", "degrees: [2]"), encoding="utf-8")
        self.refuse(2, ["allows no SP degree of 1 rank"], *base, f"planner.cost={self.cost}")
        self.cost.write_text(COST.replace("budget: 1e9", "budget: 1.1e6"), encoding="utf-8")
        self.refuse(2, ["needs", "lower batch.micro_batch_tokens to 50 or less"], *base,
                    "planner.recompute=no", "--set",
                    f"planner.cost={self.cost}")
        self.profile.write_text(json.dumps(profile(heads=8)), encoding="utf-8")
        self.refuse(2, ["8 heads and 2 key and value heads", "model.heads is 4"], *base,
                    f"planner.cost={self.profile}")

    def test_two_dimensions_are_not_trained(self):
        self.refuse(2, ["model.kind is transformer-2d", "dcp plan --model"], "train",
                    CONFIGS / "transformer-2d-1.2b.yaml")


class RandomStrategies(RanksTest):
    def test_a_file_that_lacks_a_strategy_is_refused_at_the_start(self):
        """The planner `random` would come to it sooner or later (that a planner which fails later
        ends all ranks: tests/mpi/test_train_memory.cpp)."""
        path = self.folder / "profile.json"
        path.write_text(json.dumps(profile()), encoding="utf-8")
        folder = self.folder / "refused"
        result = self.run_ranks(2, folder, f"planner.cost={path}", "planner.name=random",
                                "batch.micro_batch_tokens=256", "batch.tokens=256")
        self.assert_one_line(2, ["planner.cost", "planner.name random draws every strategy",
                                 "profile 'a profile' has no measurement of SP degree 2 (1 Ulysses x "
                                 "2 ring)"], result)
        self.assertFalse(folder.exists())
        self.assertEqual(read_processes(str(folder)), {})


if __name__ == "__main__":
    unittest.main()
