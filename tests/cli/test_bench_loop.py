#!/usr/bin/env python3
"""scripts/bench_loop.sh, as little of it as there can be: two planners train the same sequences, the
simulator plans them, and the tables have their rows. Nothing outside of its folder is written."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import DCP, write_documents

ROOT = Path(__file__).resolve().parents[2]
PLANNERS = ["bucket", "dcp"]
# The profile of a few hundred tokens; runs measure what it does not reach when they begin.
QUICK = """\
#!/bin/sh
[ "$1" = profile ] && set -- "$@" --set data.max_tokens=256
exec {dcp} "$@"
"""


def documents_to_import():
    """The script makes a text of the documentation on this machine, and installs some where there is
    too little: not in a test."""
    listed = subprocess.run(["bash", "-c", "source scripts/common.sh; list_documents | wc -l"],
                            cwd=ROOT, capture_output=True, text=True, check=True)
    return int(listed.stdout)


class BenchLoop(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dcp-bench-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_two_planners_on_two_ranks(self):
        if not (ROOT / "data/quickstart.idx").exists() and documents_to_import() < 100:
            self.skipTest("no documentation on this machine")
        documents = write_documents(self.folder / "documents", [9000] * 20)
        subprocess.run([DCP, "data", "import", "--out", self.folder / "text", documents], check=True,
                       capture_output=True)
        quick = self.folder / "dcp"
        quick.write_text(QUICK.format(dcp=shutil.which(DCP)), encoding="utf-8")
        quick.chmod(0o755)
        docs = {path: path.stat().st_mtime_ns for path in (ROOT / "docs").rglob("*")}
        figures = self.folder / "figures"
        result = subprocess.run(
            ["timeout", "-k", "5", "240", ROOT / "scripts/bench_loop.sh", "--distributions", "short",
             "--ranks", "2", "--planners", ",".join(PLANNERS), "--rounds", "1", "--iterations", "2",
             "--documents", "60", "--batch-tokens", "8192", "--folder", figures, "--text",
             self.folder / "text", "--dcp", quick],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "DCP_PROFILE_DIR": str(self.folder / "cache")})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        cell = json.loads((figures / "short-on-2/figures.json").read_text(encoding="utf-8"))
        self.assertEqual(set(cell["planners"]), set(PLANNERS))
        self.assertEqual(set(cell["simulated"]), set(PLANNERS))
        for planner in PLANNERS:
            own = cell["planners"][planner]
            self.assertGreater(own["tokens_per_second"], 0)
            self.assertGreater(cell["simulated"][planner], 0)
            self.assertEqual(len(own["of_rounds"]), 1)
            self.assertEqual(len(own["step_errors"]), len(own["byte_errors"]))
            self.assertGreater(len(own["step_errors"]), 0)
            self.assertGreaterEqual(min(own["byte_errors"]), 0)
            self.assertAlmostEqual(sum(own["degrees"].values()), 1)
        lines = result.stdout.splitlines()
        heads = [line for line in lines if line.startswith("| lengths, ranks |")]
        rows = [line for line in lines if line.startswith("| short, 2 |")]
        self.assertEqual(len(heads), 2, result.stdout)  # speeds, errors
        self.assertEqual([row.count("|") for row in rows], [head.count("|") for head in heads])
        self.assertEqual({path: path.stat().st_mtime_ns for path in (ROOT / "docs").rglob("*")}, docs)


if __name__ == "__main__":
    unittest.main()
