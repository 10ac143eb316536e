#!/usr/bin/env python3
"""`dcp plan` from outside: what it writes is checked here from the formulas, not by our own code."""

import json
import math
import unittest

from support import CommandLineTest

COST = """\
format: dcp-cost-1
name: tiny
layers: 4
degrees: [1, 2, 4]
ranks_per_node: 4
recompute: true
time: {fixed: 0.1, per_token: 1e-3, per_token_squared: 1e-6, forward_share: 0.25, per_iteration: 0.5}
communication: {bytes_per_token: 100, bandwidth: {2: 1e6, 4: 5e5}, latency: {2: 0.01, 4: 0.03}}
memory: {budget: 1010000, static: 10000, layer_bytes_per_token: 250, checkpoint_bytes_per_token: 50}
"""


def seconds(tokens, squares, p, k):
    compute = (1e-3 * tokens + 1e-6 * squares) / p
    comm = 0
    if p > 1:
        comm = 100 * tokens / (p * {2: 1e6, 4: 5e5}[p]) + {2: 0.01, 4: 0.03}[p]
    return 0.1 + (compute + comm) * (1 + 0.25 * k / 4)


def peak_bytes(tokens, p, k):
    return 10000 + tokens / p * ((4 - k) * 250 + k * 50 + (250 if k > 0 else 0))


class Plan(CommandLineTest):
    def setUp(self):
        super().setUp()
        self.cost = self.folder / "tiny.yaml"
        self.cost.write_text(COST, encoding="utf-8")
        self.lengths = self.folder / "lengths.txt"
        numbers = [1 + (i * i * 37) % 1500 for i in range(60)]
        self.lengths.write_text("# a comment\n" + "\n".join(map(str, numbers)) + "\n",
                                encoding="utf-8")
        self.numbers = numbers
        self.plans = self.folder / "plans.jsonl"

    def plan(self, *more):
        return self.succeed("plan", "--lengths", self.lengths, "--cost", self.cost, "--ranks", 8,
                            *more).stdout

    def read(self):
        return [json.loads(line) for line in self.plans.read_text(encoding="utf-8").splitlines()]

    def check(self, plan):
        ready, busy, seen = [0.0] * 8, [0.0] * 8, []
        for step in plan["steps"]:
            ranks, k = step["ranks"], step["recompute_layers"]
            lengths = [plan["sequences"][i] for i in step["sequences"]]
            seen += step["sequences"]
            self.assertEqual(ranks, sorted(set(ranks)))
            self.assertEqual(len({rank // 4 for rank in ranks}), 1)
            expected = seconds(sum(lengths), sum(n * n for n in lengths), len(ranks), k)
            self.assertTrue(math.isclose(step["seconds"], expected, rel_tol=1e-9))
            need = peak_bytes(sum(lengths), len(ranks), k)
            self.assertTrue(math.isclose(step["peak_bytes"], need, rel_tol=1e-9))
            self.assertLessEqual(need, 1010000)
            start = max(ready[rank] for rank in ranks)
            self.assertAlmostEqual(step["start_seconds"], start)
            for rank in ranks:
                ready[rank] = start + expected
                busy[rank] += expected
        self.assertEqual(sorted(seen), list(range(len(plan["sequences"]))))
        makespan = max(ready) + 0.5
        self.assertAlmostEqual(plan["makespan_seconds"], makespan)
        self.assertAlmostEqual(plan["imbalance_ratio"],
                               sum(max(ready) - b for b in busy) / 8 / makespan)
        self.assertAlmostEqual(plan["tokens_per_second"], sum(plan["sequences"]) / makespan)
        self.assertLessEqual(plan["lower_bound_seconds"], makespan * (1 + 1e-9))

    def test_the_whole_file_is_one_batch_in_order(self):
        text = self.plan("--compare", "bucket,packed,dcp", "--json", self.plans)
        plans = self.read()
        self.assertEqual([p["planner"] for p in plans], ["bucket", "packed", "dcp"])
        for plan in plans:
            self.assertEqual(plan["sequences"], self.numbers)
            self.assertEqual((plan["batch"], plan["ranks"], plan["ranks_per_node"], plan["cost"]),
                             (0, 8, 4, "tiny"))
            self.check(plan)
            self.assertIn(plan["planner"], text)
        self.assertLessEqual(plans[2]["makespan_seconds"],
                             min(p["makespan_seconds"] for p in plans[:2]))

    def test_batches_are_drawn_once_an_epoch(self):
        self.plan("--batch-sequences", 20, "--batches", 3, "--seed", 5, "--planner", "packed",
                  "--json", self.plans)
        drawn = [n for plan in self.read() for n in plan["sequences"]]
        self.assertEqual(sorted(drawn), sorted(self.numbers))
        self.assertNotEqual(drawn, self.numbers)
        base = ("plan", "--lengths", self.lengths, "--cost", self.cost, "--ranks", 8, "--planner",
                "packed", "--json", self.plans)
        self.assertEqual(self.succeed(*base, "--batch-sequences", 60, "--batches", 2).stderr, "")
        again = self.succeed(*base, "--batch-sequences", 90, "--batches", 2).stderr
        self.assertEqual(again.count("has 60 sequences, and a batch of 90 holds some of them more "
                                     "than once"), 1)
        drawn = [n for plan in self.read() for n in plan["sequences"]]
        self.assertEqual(sorted(drawn), sorted(3 * self.numbers))
        self.assertIn("more than once", self.succeed(*base, "--batch-tokens", 10**6).stderr)
        self.assertIn("more than there are gives some more than once",
                      " ".join(self.succeed("plan", "--help").stdout.split()))
        self.plan("--batch-tokens", 3000, "--batches", 5, "--planner", "random", "--json",
                  self.plans)
        for plan in self.read():
            self.check(plan)
            self.assertLessEqual(sum(plan["sequences"]), 3000)

    def test_the_same_seed_plans_the_same(self):
        def lines():
            self.plan("--batch-sequences", 30, "--seed", 3, "--json", self.plans)
            return [{**plan, "plan_seconds": 0} for plan in self.read()]
        self.assertEqual(lines(), lines())
        largest = 2**64 - 1
        self.plan("--batch-sequences", 30, "--seed", largest, "--json", self.plans)
        self.assertEqual(self.read()[0]["seed"], largest)

    def test_the_command_line_beats_the_cost_file(self):
        self.plan("--degrees", "2", "--recompute", "no", "--ranks-per-node", 2, "--max-tokens", 700,
                  "--json", self.plans)
        (plan,) = self.read()
        self.assertEqual(plan["ranks_per_node"], 2)
        self.assertEqual(max(plan["sequences"]), 700)
        self.assertEqual(sum(plan["sequences"]), sum(self.numbers))
        for step in plan["steps"]:
            self.assertEqual((len(step["ranks"]), step["recompute_layers"]), (2, 0))

    def test_the_lp_bound_is_stronger_and_still_a_bound(self):
        found = {}
        for bound in ("slots", "lp"):
            self.plan("--compare", "packed,dcp", "--bound", bound, "--json", self.plans)
            plans = self.read()
            found[bound] = plans[0]["lower_bound_seconds"]
            for plan in plans:
                self.assertEqual(plan["lower_bound_seconds"], found[bound])
                self.assertLessEqual(found[bound], plan["makespan_seconds"])
        self.assertGreater(found["lp"], found["slots"])
        self.refuse(2, ["--bound"], "plan", "--lengths", self.lengths, "--cost", self.cost,
                    "--ranks", 8, "--bound", "exact")

    def test_datasets_and_traces(self):
        trace = self.folder / "trace.json"
        self.succeed("plan", "--dataset", self.dataset, "--cost", self.cost, "--ranks", 4, "--json",
                     self.plans, "--trace", trace)
        (plan,) = self.read()
        self.assertEqual(sorted(plan["sequences"]), sorted(self.document_bytes))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual(len(slices), sum(len(step["ranks"]) for step in plan["steps"]))

    def test_checks_its_own_files_and_finds_a_fault(self):
        self.plan("--compare", "packed,dcp", "--json", self.plans)
        said = self.succeed("plan", "--check", self.plans, "--cost", self.cost).stdout
        self.assertIn("2 plans, all valid", said)
        first, second = self.read()
        second["steps"][0]["seconds"] *= 1.001
        self.plans.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n",
                              encoding="utf-8")
        self.refuse(2, ["plans.jsonl:2: plan step 0: seconds"], "plan", "--check", self.plans, "--cost",
                    self.cost)
        for key, value in (("imbalance_ratio", first["imbalance_ratio"] + 0.1),
                           ("tokens_per_second", first["tokens_per_second"] * 1.1),
                           ("cost", "other")):
            with self.subTest(key):
                self.plans.write_text(json.dumps(first | {key: value}) + "\n", encoding="utf-8")
                self.refuse(2, ["plans.jsonl:1", key if key != "cost" else "the costs 'other'"], "plan",
                            "--check", self.plans, "--cost", self.cost)
        # Bounds are of different strength: any will do that the plan itself does not refute.
        makespan = first["makespan_seconds"]
        for bound in (0, makespan / 2, makespan):
            self.plans.write_text(json.dumps(first | {"lower_bound_seconds": bound}) + "\n",
                                  encoding="utf-8")
            said = self.succeed("plan", "--check", self.plans, "--cost", self.cost).stdout
            self.assertIn("1 plan, all valid", said)
        for key, value, says in (
                ("lower_bound_seconds", makespan * 1.001, "is not from 0 to its makespan"),
                ("lower_bound_seconds", -1, "lower_bound_seconds -1 is not from 0"),
                ("ranks", 10**9, "'ranks' is missing or not a whole number from 1 to 1048576"),
                ("rank_speeds", [1] * 7 + [1e-9], "rank 7 has speed 1e-09, and speeds are from"),
                ("ranks_per_node", 2**30, "'ranks_per_node' is missing or not a whole number"),
                ("batch_mode", "other", "'batch_mode' is missing or not fixed or elastic"),
                ("batch", -1, "'batch' is missing or not a whole number from 0 up"),
                ("plan_seconds", -1, "'plan_seconds' is missing or not a number from 0 up")):
            with self.subTest(key=key, value=value):
                self.plans.write_text(json.dumps(first | {key: value}) + "\n", encoding="utf-8")
                self.refuse(2, ["plans.jsonl:1", says], "plan", "--check", self.plans, "--cost",
                            self.cost)
        self.assertIn("lower_bound_seconds", self.succeed("plan", "--help").stdout)
        self.plans.write_text(json.dumps(first) + "\n", encoding="utf-8")
        nodes = first["ranks_per_node"] + 1
        self.refuse(2, [f"--ranks-per-node {nodes}"], "plan", "--check", self.plans, "--cost", self.cost,
                    "--ranks-per-node", nodes)
        # What says how to plan would be ignored.
        for more in (("--ranks", 8), ("--compare", "dcp"), ("--json", self.plans), ("--batches", 2)):
            with self.subTest(more):
                self.refuse(2, ["--check", more[0]], "plan", "--check", self.plans, "--cost", self.cost,
                            *more)

    def test_bad_input_is_named(self):
        base = ("plan", "--cost", self.cost, "--ranks", 4)
        self.refuse(2, ["needs --lengths FILE, --dataset PREFIX or --distribution NAME"], *base)
        self.refuse(2, ["needs --ranks"], "plan", "--cost", self.cost, "--lengths", self.lengths)
        self.refuse(2, ["unknown planner 'best'; known: dcp"], *base, "--lengths", self.lengths,
                    "--planner", "best")
        self.refuse(2, ["--degrees is '4,2'"], *base, "--lengths", self.lengths, "--degrees", "4,2")
        self.refuse(2, ["no such lengths file"], *base, "--lengths", self.folder / "nowhere")
        bad = self.folder / "bad.txt"
        bad.write_text("5\n3x\n", encoding="utf-8")
        self.refuse(2, ["bad.txt:2: '3x'"], *base, "--lengths", bad)
        bad.write_text("9000000\n", encoding="utf-8")
        self.refuse(2, ["sequence 0 (id 0) of 9000000 tokens fits nowhere", "or more ranks"], *base,
                    "--lengths", bad)
        bad.write_text("9000000\n5\n8000000\n9000001\n", encoding="utf-8")
        self.refuse(2, ["sequence 0 (id 0) of 9000000 tokens fits nowhere (nor do 2 others)"], *base,
                    "--lengths", bad)
        bad.write_bytes(b"\x01\xffno text at all, and a long line of it" * 9)
        said = self.refuse(2, ["bad.txt:1: '??no text at all", "is no length: TOKENS, from 1 to"],
                           *base, "--lengths", bad).stderr
        self.assertLess(len(said), 250)
        bad.write_text("# nothing\n", encoding="utf-8")
        self.refuse(2, ["bad.txt: holds no length"], *base, "--lengths", bad)
        self.refuse(2, ["no such lengths file, or it cannot be read"], *base, "--lengths",
                    self.folder)

    def test_absurd_requests_are_refused(self):
        base = ("plan", "--cost", self.cost, "--lengths", self.lengths)
        for more, said in [
                (("--ranks", 10**8), "--ranks 100000000: must be at most 1048576"),
                (("--ranks", 0), "--ranks 0: must be at least 1"),
                (("--ranks", 2, "--ranks-per-node", 2**30), "must be at most 1048576"),
                (("--ranks", 2, "--batch-sequences", 10**12), "must be at most 16777216"),
                (("--ranks", 2, "--batches", 3), "--batches needs a batch size"),
                (("--ranks", 2, "--seed", -1), "--seed: must be a whole number from 0 to 18446744"),
                (("--ranks", 2, "--seed", 2**64), "18446744073709551615, and is '18446744073709551616'"),
                (("--ranks", 2, "--seed", 10**23), "--seed: must be a whole number from 0 to"),
                (("--ranks", 2, "--max-tokens", 10**23), "--max-tokens: must be a whole number"),
                (("--ranks", "010"), "--ranks: must be a whole number such as 10"),
                (("--ranks", 2, "--batch-tokens", "0x10"), "--batch-tokens: must be a whole"),
                (("--ranks", 2, "--compare", "dcp,packed,dcp"), "--compare names 'dcp' twice"),
                (("--ranks", 2, "--rank-speed", "1"), "--rank-speed has 1 speed for 2 ranks"),
                (("--ranks", 2, "--rank-speed", "1,nan"), "rank 1 has speed nan"),
                (("--ranks", 2, "--rank-speed", "1e-9,1e-9"),
                 "--rank-speed: rank 0 has speed 1e-09, and speeds are from 0.001 to 1000"),
                (("--ranks", 2, "--rank-speed", "1,1e4"), "rank 1 has speed 10000, and"),
                (("--ranks", 2, "--memory-budget", "much"), "--memory-budget much: expected bytes"),
                (("--ranks", 2, "--memory-budget", "1KiB"), "fits nowhere")]:
            with self.subTest(more):
                self.refuse(2, [said], *base, *more)
        for option, value in [
                ("--degrees", ""), ("--compare", ""), ("--json", ""), ("--trace", ""),
                ("--memory-budget", ""), ("--model", ""), ("--planner", "")]:
            with self.subTest(option):
                self.refuse(2, [f"{option}: must not be empty"], *base, "--ranks", 2, option, value)
        for option, list_, place in [
                ("--compare", "dcp,", 2), ("--compare", ",dcp", 1), ("--compare", "dcp,,packed", 2),
                ("--rank-speed", "1,1,", 3)]:
            with self.subTest(list_):
                self.refuse(2, [f"{option} is '{list_}': element {place} is empty"], *base,
                            "--ranks", 2, option, list_)
        self.refuse(2, ["--degrees is '1,2,'"], *base, "--ranks", 2, "--degrees", "1,2,")
        self.refuse(2, ["--rank-speed is '1,fast': 'fast' is not a number"], *base, "--ranks", 2,
                    "--rank-speed", "1,fast")
        both = self.folder / "both"
        self.refuse(2, ["--json and --trace name one file"], *base, "--ranks", 2, "--json", both,
                    "--trace", self.folder / "." / "both")
        self.assertFalse(both.exists())
        self.refuse(2, ["--lengths and --json name one file"], *base, "--ranks", 2, "--json",
                    self.lengths)
        long = self.folder / "long.txt"
        long.write_text(f"{2**40}\n", encoding="utf-8")
        self.refuse(2, ["max_tokens 1 cuts the sequences into more than"], "plan", "--cost",
                    self.cost, "--ranks", 2, "--lengths", long, "--max-tokens", 1)
        for option in ("--json", "--trace"):
            self.refuse(2, [option, "there is no folder", "make it first"], *base, "--ranks", 2,
                        option, self.folder / "nowhere" / "file")
        none = self.folder / "none.jsonl"
        none.write_text("\n", encoding="utf-8")
        self.refuse(2, ["none.jsonl: holds no plan"], "plan", "--cost", self.cost, "--check", none)

    def test_the_memory_budget_is_kept(self):
        self.plan("--memory-budget", "800kB", "--json", self.plans)
        (plan,) = self.read()
        most = max(step["peak_bytes"] for step in plan["steps"])
        self.assertLessEqual(most, 800000)
        self.assertGreater(most, 400000)

    def test_any_number_of_ranks_and_any_degrees(self):
        for ranks in (1, 2, 3, 5, 7, 11, 13):
            for more in ((), ("--degrees", "2,3"), ("--step-mode", "rounds"),
                         ("--degrees", "2", "--step-mode", "rounds-one-depth")):
                if ranks == 1 and "--degrees" in more:
                    continue
                with self.subTest(ranks=ranks, more=more):
                    self.succeed("plan", "--lengths", self.lengths, "--cost", self.cost, "--ranks",
                                 ranks, "--effort", "fast", "--compare",
                                 "bucket,packed,dcp-inter,dcp-intra,dcp,random", "--json",
                                 self.plans, *more)
                    self.succeed("plan", "--check", self.plans, "--cost", self.cost, *more[:2])
        self.refuse(2, ["--degrees is '2,3': none of them fits on 1 ranks"], "plan", "--lengths",
                    self.lengths, "--cost", self.cost, "--ranks", 1, "--degrees", "2,3")


if __name__ == "__main__":
    unittest.main()
