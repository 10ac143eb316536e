#!/usr/bin/env python3
"""`dcp simulate` from outside: what it writes is added up here, and every example runs."""

import csv
import json
import unittest
from pathlib import Path

from support import CommandLineTest, dcp, write_tiny_dataset
from test_cost import profile

ROOT = Path(__file__).resolve().parents[2]
COST = ROOT / "configs/costs/flexsp-gpt-7b.yaml"
CONFIG = """\
name: test
cluster: {{cost: {cost}, ranks: [8, 16]}}
data: {{distribution: wikipedia, max_tokens: 32768}}
batch: {{sequences_per_rank: 8}}
run: {{sequences: 512, seed: 2}}
planner: {{names: [bucket, dcp], effort: fast, plan_seconds: 0}}
iteration: {{reduce_bytes: 1e10, reduce_bandwidth: 1e10, reduce_latency: 0.25, optimizer_seconds: 0.5}}
"""


class Simulate(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.simulation = self.folder / "simulation.yaml"
        self.simulation.write_text(CONFIG.format(cost=COST), encoding="utf-8")
        self.csv = self.folder / "runs.csv"
        self.json = self.folder / "runs.json"

    def simulate(self, *more):
        printed = self.succeed("simulate", self.simulation, "--csv", self.csv, "--json", self.json,
                               *more).stdout
        with open(self.csv, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        runs = [json.loads(line) for line in self.json.read_text(encoding="utf-8").splitlines()]
        return printed, rows, runs

    def test_sums(self):
        printed, rows, runs = self.simulate()
        self.assertTrue(printed.startswith("Simulated: test; flexsp-gpt-7b; first run: 512 "))
        self.assertEqual([(run["ranks"], run["planner"]) for run in runs],
                         [(8, "bucket"), (8, "dcp"), (16, "bucket"), (16, "dcp")])
        for row, run in zip(rows, runs):
            ranks = run["ranks"]
            self.assertTrue(run["simulated"])
            self.assertEqual(len(run["iterations"]), 512 // (8 * ranks))
            self.assertEqual(sum(one["sequences"] for one in run["iterations"]), 512)
            once = 0.5 + 2 * (0.25 + (ranks - 1) / ranks)
            for one in run["iterations"]:
                self.assertAlmostEqual(one["seconds"], one["makespan_seconds"] + once, places=9)
                self.assertAlmostEqual(one["seconds"], one["predicted_seconds"], places=9)
                self.assertLessEqual(one["lower_bound_seconds"],
                                     one["predicted_seconds"] * (1 + 1e-9))
                self.assertAlmostEqual(
                    one["imbalance_ratio"],
                    (1 - one["busy_fraction_mean"]) * one["makespan_seconds"] / one["seconds"])
            seconds = sum(one["seconds"] for one in run["iterations"])
            self.assertAlmostEqual(run["seconds"], seconds, places=6)
            self.assertAlmostEqual(float(row["tokens_per_second"]), run["tokens"] / seconds,
                                   delta=1e-6 * run["tokens"] / seconds)
            self.assertEqual(sum(run["tokens_by_degree"].values()), run["tokens"])
            base = next(r for r in runs if r["ranks"] == ranks)
            self.assertAlmostEqual(float(row["speed_up"]), base["seconds"] / seconds, places=4)
            first = next(r for r in runs if r["planner"] == run["planner"])
            self.assertAlmostEqual(
                float(row["efficiency"]),
                run["tokens_per_second"] / ranks / (first["tokens_per_second"] / 8), places=4)
        # All runs see the same sequences.
        self.assertEqual(len({run["tokens"] for run in runs}), 1)
        # Again, to the byte.
        before = self.csv.read_bytes()
        self.simulate()
        times = [[value for key, value in row.items() if key != "plan_seconds"]
                 for row in csv.DictReader(self.csv.read_text().splitlines())]
        earlier = [[value for key, value in row.items() if key != "plan_seconds"]
                   for row in csv.DictReader(before.decode().splitlines())]
        self.assertEqual(times, earlier)

    def test_noise_and_stragglers_cost_time(self):
        _, _, plain = self.simulate()
        _, _, noisy = self.simulate("--set", "noise.step=0.1")
        _, _, slow = self.simulate("--set", "stragglers.share=0.125", "--set",
                                   "stragglers.slowdown=2")
        _, _, known = self.simulate("--set", "stragglers.share=0.125", "--set",
                                    "stragglers.slowdown=2", "--set", "stragglers.known=true")
        for i, run in enumerate(plain):
            self.assertGreater(noisy[i]["seconds"], run["seconds"])
            self.assertGreater(slow[i]["seconds"], 1.1 * run["seconds"])
        # dcp is told who is slow and works around it.
        self.assertLess(known[1]["seconds"], 0.9 * slow[1]["seconds"])

    def test_the_worst_straggler_can_be_planned_for(self):
        _, _, runs = self.simulate("--set", "cluster.ranks=8", "--set", "stragglers.share=0.125",
                                   "--set", "stragglers.slowdown=1000", "--set",
                                   "stragglers.known=true", "--set", "planner.names=[dcp]", "--set",
                                   "data.max_tokens=4096")
        self.assertEqual(len(runs), 1)

    def test_planning_that_does_not_fit_behind_an_iteration_counts(self):
        _, _, hidden = self.simulate()
        _, _, exposed = self.simulate("--set", "planner.plan_seconds=100")
        for fast, run in zip(hidden, exposed):
            expected = [0] + [100 - one["seconds"] for one in fast["iterations"][:-1]]
            for one, wanted in zip(run["iterations"], expected):
                self.assertAlmostEqual(one["plan_exposed_seconds"], wanted, places=6)

    def test_an_epoch_of_a_dataset_is_all_of_it(self):
        config = CONFIG.format(cost=COST).replace("distribution: wikipedia",
                                                  f"dataset: {self.dataset}")
        self.simulation.write_text(config.replace("run: {sequences: 512", "run: {epochs: 2"),
                                   encoding="utf-8")
        _, _, runs = self.simulate("--set", "cluster.ranks=4", "--set", "batch.sequences_per_rank=2")
        for run in runs:
            self.assertEqual([one["sequences"] for one in run["iterations"]], [8, 8, 8])
            self.assertEqual(run["tokens"], 2 * sum(self.document_bytes))

    def test_batches_are_those_that_training_draws(self):
        more = self.folder / "more"
        write_tiny_dataset(more, [300, 45, 800])
        def train(name, *settings):
            return self.train(self.folder / name, f"data.train=[{self.dataset}, {more}]",
                              "data.validation_documents=4", "run.iterations=9", "run.seed=5",
                              *settings)

        trained = train("drawn")
        config = CONFIG.format(cost=COST).replace(
            "{distribution: wikipedia, max_tokens: 32768}",
            f"{{dataset: [{self.dataset}, {more}], max_tokens: 256, validation_documents: 4}}")
        config = config.replace("sequences_per_rank: 8", "tokens: 1024")
        self.simulation.write_text(config.replace("run: {sequences: 512, seed: 2}",
                                                  "run: {iterations: 9, seed: 5}"),
                                   encoding="utf-8")
        _, _, runs = self.simulate("--set", "cluster.ranks=2")
        for run in runs:
            self.assertEqual([(one["tokens"], one["sequences"]) for one in run["iterations"]],
                             [(one["tokens"], one["sequences"]) for one in trained])
        stored = [(one["tokens"], one["sequences"]) for one in train("stored", "data.shuffle=false")]
        self.assertNotEqual(stored, [(one["tokens"], one["sequences"]) for one in trained])
        _, _, runs = self.simulate("--set", "cluster.ranks=2", "--set", "data.shuffle=false")
        for run in runs:
            self.assertEqual([(one["tokens"], one["sequences"]) for one in run["iterations"]],
                             stored)

    def test_memory_budget(self):
        _, rows, _ = self.simulate("--set", "planner.names=[dcp]")
        _, tight, _ = self.simulate("--set", "planner.names=[dcp]", "--set",
                                    "cluster.memory_budget=20GiB")
        for free, row in zip(rows, tight):
            self.assertEqual(float(row["budget_bytes"]), 20 * 2**30)
            self.assertLessEqual(float(row["peak_bytes"]), 20 * 2**30)
            self.assertGreater(float(row["seconds"]), float(free["seconds"]))
        self.refuse(2, ["cluster.memory_budget is 'much', expected bytes above 0, such as 12GiB"],
                    "simulate", self.simulation, "--set", "cluster.memory_budget=much")

    def test_a_profile_is_a_cost_and_guesses_are_said(self):
        texts = write_tiny_dataset(self.folder / "texts", [90, 150, 240, 60, 300, 45, 200, 120])
        path = self.folder / "profile.json"
        path.write_text(json.dumps(profile()), encoding="utf-8")
        config = CONFIG.format(cost=path).replace(
            "{distribution: wikipedia, max_tokens: 32768}", f"{{dataset: {texts}}}")
        self.simulation.write_text(config[: config.index("iteration:")], encoding="utf-8")
        sizes = ("--set", "cluster.ranks=2", "--set", "run.sequences=24", "--set",
                 "batch.sequences_per_rank=3")
        printed, _, runs = self.simulate(*sizes)
        self.assertIn("a profile", printed)
        self.assertNotIn("careful guesses", printed)
        for one in runs[1]["iterations"]:  # reduction and optimizer are the profile's
            self.assertAlmostEqual(one["seconds"], one["makespan_seconds"] + 0.02, places=9)
        narrow = profile()
        narrow["points"] = [one for one in narrow["points"] if one["tokens"] <= 256]
        path.write_text(json.dumps(narrow), encoding="utf-8")
        self.assertIn("micro-batches lie outside of what was measured: careful guesses",
                      self.simulate(*sizes)[0])

    def test_messages(self):
        for setting, said in [
                ("planner.names=[dcp, dcp]", "planner.names has 'dcp' twice"),
                ("batch.sequences_per_rank=4000000000", "and a batch may have 16777216"),
                ("data.validation_documents=3", "held out of data.dataset, and there is none"),
                ("data.shuffle=false", "a distribution has no order of its own")]:
            self.refuse(2, [said], "simulate", self.simulation, "--set", setting)
        self.refuse(2, ["fixed-groups plans independent steps only"], "simulate", self.simulation,
                    "--set", "planner.names=[fixed-groups]", "--set", "planner.step_mode=rounds")
        self.refuse(2, ["reduction and optimizer take for ever"], "simulate", self.simulation,
                    "--set", "iteration.reduce_bytes=1e300", "--set",
                    "iteration.reduce_bandwidth=1e-300")
        for option in ("--csv", "--json"):
            self.refuse(2, [option, "there is no folder", "make it first"], "simulate",
                        self.simulation, option, self.folder / "nowhere/file")
        self.refuse(2, ["--csv and --json name one file"], "simulate", self.simulation, "--csv",
                    self.csv, "--json", self.csv)
        self.refuse(2, ["CONFIG and --json name one file"], "simulate", self.simulation, "--json",
                    self.simulation)
        self.refuse(2, ["--csv: must not be empty"], "simulate", self.simulation, "--csv", "")
        self.refuse(2, ["no-such.yaml: no such simulation file"], "simulate", "no-such.yaml")
        self.refuse(2, ["unknown key 'cluster.rank'"], "simulate", self.simulation, "--set",
                    "cluster.rank=8")
        self.refuse(2, ["no distribution 'x'"], "simulate", self.simulation, "--set",
                    "data.distribution=x")
        self.refuse(2, ["x.yaml"], "simulate", self.simulation, "--set", "cluster.cost=x.yaml")
        self.refuse(2, ["unknown planner 'x'; known: dcp, dcp-inter, dcp-intra, bucket, packed, random, "
                         "fixed-groups"], "simulate", self.simulation, "--set",
                    "planner.names=[x]")
        self.refuse(2, ["bucket on 8 ranks: ", "fits nowhere"], "simulate", self.simulation,
                    "--set", "data.max_tokens=300000", "--set", "planner.recompute='no'", "--set",
                    "cluster.ranks=[8]")


class Examples(CommandLineTest):
    def test_every_example_runs(self):
        examples = sorted((ROOT / "configs/simulate").glob("*.yaml"))
        self.assertGreaterEqual(len(examples), 3)
        for example in examples:
            with self.subTest(example.name):
                result = dcp("simulate", example, "--set", "planner.effort=fast", cwd=ROOT)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertTrue(result.stdout.startswith("Simulated: "))
                self.assertTrue(example.read_text(encoding="utf-8").startswith("# "))


if __name__ == "__main__":
    unittest.main()
