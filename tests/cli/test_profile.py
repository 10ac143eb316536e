#!/usr/bin/env python3
"""`dcp profile` and `profile: auto|FILE|off`, from outside: what is written, kept, found and refused."""

import json
import os
import subprocess
import unittest
from pathlib import Path

from support import DCP, CommandLineTest, dcp

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "PASSIVE"}
SIMULATION = """\
name: profiled
cluster: {{cost: {cost}, ranks: {ranks}}}
data: {{distribution: wikipedia, max_tokens: 256}}
batch: {{sequences: 16}}
run: {{iterations: 2}}
planner: {{names: [dcp]}}
"""


class ProfileTest(CommandLineTest):
    def setUp(self):
        self.cache = self.folder / f"cache-{self.id().rsplit('.', 1)[-1]}"

    def mpirun(self, ranks, command, *values, extra=()):
        settings = [part for value in values for part in ("--set", value)]
        return subprocess.run(
            ["timeout", "-k", "5", "60", os.environ.get("MPIRUN", "mpirun"), "--oversubscribe",
             "--bind-to", "none", "-np", str(ranks), DCP, command, str(self.config), *settings, *extra],
            env={**ENVIRONMENT, "DCP_PROFILE_DIR": str(self.cache)}, capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL, cwd=self.folder)

    def train(self, *values, ranks=2):
        return self.mpirun(ranks, "train", f"run.folder={self.folder / 'run'}", "run.iterations=2",
                           *values)

    def costs(self, result):
        """What the head of a run says, which must have gone well."""
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = [line for line in result.stdout.splitlines() if line.startswith("costs ")]
        self.assertEqual(len(lines), 1, result.stdout)
        return lines[0]

    def kept(self):
        return sorted(self.cache.glob("*.json"))


class Written(ProfileTest):
    def check_ranks(self, ranks):
        path = self.folder / f"profiled-{ranks}.json"
        result = self.mpirun(ranks, "profile", extra=("--out", str(path)))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("micro-batches measured in", result.stdout)
        profile = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(profile["format"], "dcp-profile-1")
        self.assertLessEqual({"model", "precision", "backend", "device", "threads", "libraries",
                              "strategies", "topology"}, profile["measured"].keys())
        degrees = {point["ulysses"] * point["ring"] for point in profile["points"]}
        self.assertEqual(degrees, set(range(1, ranks + 1)))
        for point in profile["points"]:
            for key in ("forward_seconds", "backward_seconds", "recompute_seconds", "kept_bytes",
                        "checkpoint_bytes", "working_bytes"):
                self.assertGreater(point[key], 0, point)
            self.assertLessEqual(point["tokens"], 256 * point["ulysses"] * point["ring"])
        self.assertGreater(profile["micro_batch"]["token_seconds"], 0)
        self.assertGreater(profile["iteration"]["optimizer_seconds"], 0)
        self.assertEqual(self.kept(), [])  # it went where it was told to

        lengths = self.folder / "lengths.txt"
        lengths.write_text("".join(f"{n}\n" for n in (20, 250, 100, 70, 180)), encoding="utf-8")
        plan = self.succeed("plan", "--lengths", lengths, "--cost", path, "--ranks", ranks,
                            "--planner", "dcp")
        self.assertIn("dcp", plan.stdout)
        simulation = self.folder / "simulation.yaml"
        simulation.write_text(SIMULATION.format(cost=path, ranks=ranks), encoding="utf-8")
        self.assertIn("dcp", self.succeed("simulate", simulation).stdout)

    def test_on_two_ranks(self):
        self.check_ranks(2)

    def test_on_three_ranks(self):
        self.check_ranks(3)

    def test_on_one_rank(self):
        self.check_ranks(1)

    def test_into_the_cache(self):
        self.assertEqual(self.mpirun(2, "profile").returncode, 0)
        self.assertEqual(len(self.kept()), 1)
        self.assertIn(f"profile {self.kept()[0]}", self.costs(self.train("profile=auto")))

    def test_where_it_cannot_be_written(self):
        result = self.mpirun(2, "profile", extra=("--out", "/dev/null/profile.json"))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("/dev/null", result.stderr)

    def test_into_a_folder(self):
        result = self.mpirun(2, "profile", extra=("--out", str(self.folder)))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(f"--out {self.folder}: that is a folder", result.stderr)
        self.assertNotIn("measured", result.stdout)  # said before measuring


class Automatic(ProfileTest):
    def test_measured_once_and_found_again(self):
        first = self.costs(self.train("profile=auto"))
        self.assertIn("micro-batches measured in", first)
        self.assertIn(f"kept in {self.kept()[0]}", first)
        written = self.kept()[0].stat().st_mtime_ns
        self.assertIn(f"profile {self.kept()[0]}", self.costs(self.train("profile=auto")))
        self.assertEqual(self.kept()[0].stat().st_mtime_ns, written)

        # Longer sequences: only they are measured, and added.
        longer = self.costs(self.train("profile=auto", "data.max_tokens=1024"))
        self.assertIn("more micro-batches measured", longer)
        self.assertEqual(len(self.kept()), 1)
        points = json.loads(self.kept()[0].read_text(encoding="utf-8"))["points"]
        self.assertGreater(max(point["tokens"] for point in points), 512)

        # Another model is another profile.
        self.costs(self.train("profile=auto", "model.ffn=64"))
        self.assertEqual(len(self.kept()), 2)

    def test_a_broken_file_is_measured_again(self):
        self.costs(self.train("profile=auto"))
        self.kept()[0].write_text("{", encoding="utf-8")
        result = self.train("profile=auto")
        self.assertIn("micro-batches measured in", self.costs(result))
        self.assertIn("not JSON", result.stderr)
        json.loads(self.kept()[0].read_text(encoding="utf-8"))

    def test_a_cache_that_cannot_be_written(self):
        self.cache.write_text("a file, not a folder", encoding="utf-8")
        result = self.train("profile=auto")
        self.assertIn("micro-batches measured in", self.costs(result))
        self.assertEqual(result.stderr.count("dcp: warning: the profile is not kept"), 1,
                         result.stderr)

    def test_not_on_one_rank(self):
        result = self.train("profile=auto", ranks=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("costs ", result.stdout)
        self.assertFalse(self.cache.exists())


class Chosen(ProfileTest):
    def test_a_file(self):
        path = self.folder / "chosen.json"
        self.assertEqual(self.mpirun(2, "profile", extra=("--out", str(path))).returncode, 0)
        self.assertIn(f"profile {path}", self.costs(self.train(f"profile={path}")))
        self.assertFalse(self.cache.exists())
        for values, difference in [(["run.threads=2"], "threads: '1 a rank' in the profile, '2 a"),
                                   (["model.ffn=64"], "ffn 80"), (["planner.degrees=[2]"], "strategies")]:
            result = self.train(f"profile={path}", *values)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            said = [line for line in result.stderr.splitlines() if line.startswith("dcp: ")]
            self.assertEqual(len(said), 1, result.stderr)
            self.assertIn(f"{path}: was measured for something else", said[0])
            self.assertIn(difference, said[0])
        alone = self.train(f"profile={path}", ranks=1)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("topology: '2 ranks on 1 node: 0-1' in the profile", alone.stderr)

    def test_a_file_of_a_far_faster_or_slower_machine(self):
        path = self.folder / "foreign.json"
        self.assertEqual(self.mpirun(2, "profile", extra=("--out", str(path))).returncode, 0)
        profile = json.loads(path.read_text(encoding="utf-8"))
        if profile["reference"]["tokens"] == 0:
            self.skipTest("two ranks share a processor here: profiles have no reference")
        for seconds in (1e-12, 1e9):
            profile["reference"]["seconds"] = seconds
            path.write_text(json.dumps(profile), encoding="utf-8")
            result = self.train(f"profile={path}")
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn(f"{path}", result.stderr)
            self.assertIn("it is not of this machine", result.stderr)

    def test_a_file_of_another_mpi(self):
        path = self.folder / "other-mpi.json"
        self.assertEqual(self.mpirun(2, "profile", extra=("--out", str(path))).returncode, 0)
        profile = json.loads(path.read_text(encoding="utf-8"))
        libraries = profile["measured"]["libraries"]
        self.assertIn("MPI", libraries)
        other = libraries + ".other"
        profile["measured"]["libraries"] = other
        path.write_text(json.dumps(profile), encoding="utf-8")
        result = self.train(f"profile={path}")
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn(f"libraries: '{other}' in the profile, '{libraries}' here", result.stderr)

    def test_off(self):
        self.assertIn("rates measured in", self.costs(self.train("profile=off")))
        self.assertFalse(self.cache.exists())

    def test_mistakes(self):
        result = dcp("train", self.config, "--set", "profile=nowhere.json", "--set",
                     f"run.folder={self.folder / 'none'}")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere.json: no such profile", result.stderr)
        self.refuse(2, ["profile is a.json", "both say what steps cost"], "train", self.config,
                    "--set", "profile=a.json", "--set", "planner.cost=b.yaml")


if __name__ == "__main__":
    unittest.main()
