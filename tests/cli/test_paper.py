#!/usr/bin/env python3
"""scripts/paper/run.sh --quick: writes a report that says what it is, CSV and plots; and the committed
report is one of the same program, whole and not quick."""

import csv
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def headings(text):
    return [line for line in text.splitlines() if line.startswith("#")]


class Paper(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="dcp-paper-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.result = subprocess.run(
            [ROOT / "scripts/paper/run.sh", "--quick", "--out", cls.folder], capture_output=True,
            text=True, timeout=240, check=False)
        cls.report = cls.folder / "paper.md"

    def test_it_runs(self):
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)

    def test_every_section_says_simulated(self):
        for heading in headings(self.report.read_text(encoding="utf-8")):
            self.assertIn("simulated", heading)

    def test_plots_and_tables_are_there(self):
        text = self.report.read_text(encoding="utf-8")
        for plot in re.findall(r"!\[.*\]\((.*)\)", text):
            self.assertGreater((self.folder / plot).stat().st_size, 5000)
        tables = list((self.folder / "csv").glob("*.csv"))
        self.assertGreater(len(tables), 20)
        for table in tables:
            with open(table, encoding="utf-8") as file:
                self.assertTrue(list(csv.DictReader(file)), table)

    def test_no_planner_beats_the_bound(self):
        for table in (self.folder / "csv").glob("*.csv"):
            with open(table, encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    self.assertGreaterEqual(float(row["gap"]), -1e-9, f"{table} {row['planner']}")

    def test_the_committed_report_is_a_whole_one(self):
        committed = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
        self.assertEqual(headings(committed), headings(self.report.read_text(encoding="utf-8")))
        self.assertNotIn("quick run", committed)
        for plot in re.findall(r"!\[.*\]\((.*)\)", committed):
            self.assertTrue((ROOT / "docs" / plot).is_file(), plot)


if __name__ == "__main__":
    unittest.main()
