#!/usr/bin/env python3
"""The whole loop from outside: whatever the planner and the number of ranks, the same samples in
every iteration and the same loss curve."""

import itertools
import unittest

from support import read_json_lines
from test_ranks import RanksTest

ITERATIONS = 50
PLANNERS = ("bucket", "dcp-intra", "dcp")
RANKS = (1, 2, 4)
LONGEST = 256  # of the tiny configuration
SETTINGS = ("run.log_samples=true", f"run.iterations={ITERATIONS}", "monitor.log_steps=true")


class PlanInvariance(RanksTest):
    """The longest sequence needs all ranks: nobody can hold more than its share of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.metrics, cls.samples = {}, {}
        for planner, ranks in itertools.product(PLANNERS, RANKS):
            folder = cls.folder / f"{planner}-{ranks}"
            result = cls.run_ranks(cls(), ranks, folder, *SETTINGS, f"planner.name={planner}",
                                   f"batch.micro_batch_tokens={LONGEST // ranks}")
            if result.returncode != 0:
                raise AssertionError(f"{planner}, {ranks} ranks:\n{result.stdout}{result.stderr}")
            cls.metrics[planner, ranks] = read_json_lines(folder / "metrics.jsonl")
            cls.samples[planner, ranks] = read_json_lines(folder / "samples.jsonl")

    def test_the_same_samples_in_every_iteration(self):
        expected = self.samples[PLANNERS[0], 1]
        self.assertEqual([line["iteration"] for line in expected], list(range(1, ITERATIONS + 1)))
        self.assertGreater(len({tuple(line["sequences"]) for line in expected}), ITERATIONS // 2)
        for run, samples in self.samples.items():
            self.assertEqual(samples, expected, run)

    def test_the_same_loss_curve(self):
        expected = [line["loss"] for line in self.metrics[PLANNERS[0], 1]]
        self.assertLess(expected[-1], 0.7 * expected[0])  # it learns: a curve, not a constant
        for run, metrics in self.metrics.items():
            losses = [line["loss"] for line in metrics]
            self.assertEqual(len(losses), ITERATIONS)
            worst = max(abs(a - b) / b for a, b in zip(losses, expected))
            self.assertLess(worst, 1e-4, run)

    def test_the_plans_differ(self):
        """Else the two above would show nothing."""
        for ranks in RANKS[1:]:
            plans = {planner: [(line["steps"]["ranks"], line["steps"]["tokens"])
                               for line in self.metrics[planner, ranks]] for planner in PLANNERS}
            for one, other in itertools.combinations(PLANNERS, 2):
                self.assertNotEqual(plans[one], plans[other], (one, other, ranks))
            degrees = {len(group) for line in self.metrics["dcp", ranks]
                       for group in line["steps"]["ranks"]}
            self.assertIn(1, degrees)
            self.assertIn(ranks, degrees)


if __name__ == "__main__":
    unittest.main()
