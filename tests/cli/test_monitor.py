#!/usr/bin/env python3
"""What a run shows of itself while it runs and afterwards: metrics of ranks and steps, TensorBoard,
Prometheus, traces of plan and reality, and the picture made of them.

DCP_TENSORBOARD_VENV is an environment with TensorBoard (build/tensorboard-venv, which
scripts/test.sh --all makes); where there is none, the test that reads with it is skipped."""

import json
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from support import DCP, CommandLineTest, read_json_lines
from test_ranks import ENVIRONMENT, mpirun, read_processes, send, settings

REPOSITORY = Path(__file__).resolve().parents[2]
ITERATIONS = 6
TWO_RANKS = ("batch.micro_batch_tokens=128", f"run.iterations={ITERATIONS}")
SHARES = ("busy", "communication", "waiting")
READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)]
                  for tag in events.Tags()["scalars"]}))
"""


def can_import(python, module):
    return Path(python).exists() and subprocess.run(
        [python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def check_exposition(test, text):
    """Text format 0.0.4: every sample belongs to the # TYPE before it. Returns name{labels} -> value."""
    samples, kinds, name = {}, {}, None
    test.assertTrue(text.endswith("\n"))
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP ([a-z_]+) \S.*", line):
            name = match.group(1)
            test.assertNotIn(name, kinds)
        elif match := re.fullmatch(r"# TYPE ([a-z_]+) (counter|gauge)", line):
            test.assertEqual(match.group(1), name)
            kinds[name] = match.group(2)
            test.assertEqual(name.endswith("_total"), match.group(2) == "counter", name)
        else:
            match = re.fullmatch(r'([a-z_]+)(\{\w+="[^"\\]*"(?:,\w+="[^"\\]*")*\})? (\S+)', line)
            test.assertIsNotNone(match, line)
            test.assertEqual(match.group(1), name)
            samples[match.group(1) + (match.group(2) or "")] = float(match.group(3))
    return samples


class MonitorTest(CommandLineTest):
    def start(self, ranks, folder, *values):
        train = ["train", self.config, *settings(f"run.folder={folder}", *values)]
        command = mpirun(ranks, DCP, *train) if ranks > 1 else [DCP, *train]
        return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                                cwd=self.folder)

    def run_ranks(self, ranks, folder, *values):
        process = self.start(ranks, folder, *values)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


class OneRun(MonitorTest):
    """Two ranks with everything on; a sequence of 256 tokens needs both."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "all"
        cls.result = cls.run_ranks(cls(), 2, cls.run_folder, *TWO_RANKS, "monitor.log_steps=true",
                                   "monitor.tensorboard=true", "monitor.trace_iterations=[2, 5]",
                                   "planner.name=random")
        if cls.result.returncode != 0:
            raise AssertionError(cls.result.stdout + cls.result.stderr)
        cls.metrics = read_json_lines(cls.run_folder / "metrics.jsonl")

    def test_shares_of_ranks(self):
        for line in self.metrics:
            for rank in range(2):
                self.assertAlmostEqual(sum(line[f"{share}_fractions"][rank] for share in SHARES), 1,
                                       delta=2e-4)
            for share in SHARES:
                fractions = line[f"{share}_fractions"]
                self.assertEqual(len(fractions), 2)
                self.assertAlmostEqual(line[f"{share}_fraction_mean"], statistics.mean(fractions),
                                       delta=1e-4)
                self.assertAlmostEqual(line[f"{share}_fraction_variance"],
                                       statistics.pvariance(fractions), delta=1e-4)
            self.assertAlmostEqual(line["waiting_fraction_mean"], line["imbalance_ratio"])
            self.assertAlmostEqual(line["bound_gap"],
                                   line["makespan_seconds"] / line["lower_bound_seconds"] - 1)
            self.assertAlmostEqual(
                line["makespan_error"],
                line["predicted_makespan_seconds"] / line["makespan_seconds"] - 1)
            self.assertGreaterEqual(line["predicted_bound_gap"], -1e-3)

    def test_steps(self):
        for line in self.metrics:
            steps = line["steps"]
            count = line["micro_batches"]
            for column in steps.values():
                self.assertEqual(len(column), count)
            self.assertEqual(sum(steps["tokens"]), line["tokens"])
            self.assertEqual(sum(steps["sequences"]), line["sequences"])
            errors = []
            for index, ranks in enumerate(steps["ranks"]):
                for key in ("start_seconds", "wait_seconds", "communication_seconds", "seconds",
                            "bytes"):
                    self.assertEqual(len(steps[key][index]), len(ranks), key)
                self.assertEqual(steps["strategy"][index] != "1x1", len(ranks) > 1)
                measured = max(steps["seconds"][index])
                errors.append(abs(steps["predicted_seconds"][index] - measured) / measured)
            # The lower median; seconds are rounded to microseconds.
            self.assertAlmostEqual(line["step_seconds_error"], statistics.median_low(errors),
                                   delta=0.05)
            busy = [sum(seconds for step, ranks in enumerate(steps["ranks"])
                        for at, seconds in zip(ranks, steps["seconds"][step]) if at == rank)
                    for rank in range(2)]
            for rank in range(2):
                self.assertAlmostEqual(1 - busy[rank] / line["makespan_seconds"],
                                       line["waiting_fractions"][rank], delta=0.02)

    def test_steps_only_when_asked_for(self):
        metrics = self.train(self.folder / "plain", "run.iterations=1")
        self.assertNotIn("steps", metrics[0])
        self.assertEqual(sorted(path.name for path in (self.folder / "plain").iterdir()),
                         ["config.yaml", "metrics.jsonl", "weights"])

    def test_summary(self):
        match = re.search(r"^prediction  (\d+) steps: seconds predicted to ([\d.]+) % \(median\), "
                          r"([\d.]+) % \(p95\), without correction ([\d.]+) %, ([\d.]+) %; "
                          r"bytes to ([\d.]+) %, ([\d.]+) %; 0 needed more",
                          self.result.stdout, re.MULTILINE)
        self.assertIsNotNone(match, self.result.stdout)
        self.assertEqual(int(match.group(1)), sum(line["micro_batches"] for line in self.metrics))
        errors = sorted(abs(predicted - max(measured)) / max(measured) for line in self.metrics
                        for predicted, measured in zip(line["steps"]["predicted_bytes"],
                                                       line["steps"]["bytes"]))
        self.assertAlmostEqual(float(match.group(6)), 100 * errors[(len(errors) - 1) // 2], delta=0.2)
        errors = sorted(abs(seconds - max(measured)) / max(measured) for line in self.metrics
                        for seconds, measured in zip(line["steps"]["uncorrected_seconds"],
                                                     line["steps"]["seconds"]))
        self.assertAlmostEqual(float(match.group(4)), 100 * errors[(len(errors) - 1) // 2], delta=0.2)
        self.assertTrue(all(line["correction"]["pace"] > 0 for line in self.metrics))
        self.assertRegex(self.result.stdout,
                         r"busy \d+ \+- \d+ %  exchange \d+ \+- \d+ %  imbalance \d+ \+- \d+ %  bound "
                         r"[+-]\d+ %")

    def test_trace(self):
        self.assertEqual(sorted(path.name for path in self.run_folder.glob("trace-*")),
                         ["trace-000002.json", "trace-000005.json"])
        for iteration in (2, 5):
            line = self.metrics[iteration - 1]
            trace = json.loads((self.run_folder / f"trace-{iteration:06}.json").read_text())
            self.assertEqual(trace["otherData"]["iteration"], iteration)
            self.check_nesting(trace)
            on_track = {"plan": set(), "reality": set()}
            for event in trace["traceEvents"]:
                if event.get("cat") in on_track:
                    on_track[event["cat"]].add((event["args"]["step"], event["pid"]))
                    self.check_step(event, line["steps"])
            expected = {(step, rank) for step, ranks in enumerate(line["steps"]["ranks"])
                        for rank in ranks}
            self.assertEqual(on_track, {"plan": expected, "reality": expected})

    def check_step(self, event, steps):
        arguments = event["args"]
        step, rank = arguments["step"], event["pid"]
        self.assertEqual(event["tid"], {"plan": 0, "reality": 1}[event["cat"]])
        for key in ("ranks", "tokens", "sequences", "recompute_layers"):
            self.assertEqual(arguments[key], steps[key][step])
        self.assertEqual(f"{arguments['ulysses']}x{arguments['ring']}", steps["strategy"][step])
        member = arguments["ranks"].index(rank)
        self.assertEqual(arguments["measured_bytes"], steps["bytes"][step][member])
        seconds = (steps["predicted_seconds"][step] if event["cat"] == "plan"
                   else steps["seconds"][step][member])
        self.assertAlmostEqual(event["dur"], 1e6 * seconds, delta=1)

    def check_nesting(self, trace):
        """In whole nanoseconds, as Perfetto counts: slices of a track are apart or one in the other;
        a step holds its computing and communication, which fill it."""
        tracks = {}
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                begin = round(event["ts"] * 1000)
                tracks.setdefault((event["pid"], event["tid"]), []).append(
                    (begin, begin + round(event["dur"] * 1000), event))
        self.assertEqual(set(tracks), {(rank, track) for rank in range(2) for track in range(2)})
        for slices in tracks.values():
            around = []
            inside = {}
            for begin, end, event in slices:  # in file order, which is that of time
                while around and around[-1][1] <= begin:
                    around.pop()
                if around:
                    self.assertLessEqual(end, around[-1][1])
                    self.assertEqual(around[-1][2]["cat"], "reality")
                    self.assertIn(event["cat"], ("computing", "communication"))
                    step = event["args"]["step"]
                    inside[step] = inside.get(step, 0) + end - begin
                around.append((begin, end, event))
            for begin, end, event in slices:
                if event["cat"] == "reality":
                    self.assertEqual(inside[event["args"]["step"]], end - begin)

    def test_event_file(self):
        """By the format's definition; that the checksums are right, TensorBoard itself says."""
        (path,) = self.run_folder.glob("events.out.tfevents.*")
        data = path.read_bytes()
        records = []
        while data:
            (length,) = struct.unpack_from("<Q", data)
            records.append(data[12: 12 + length])
            data = data[16 + length:]
        self.assertEqual(len(records), 1 + ITERATIONS)
        self.assertIn(b"brain.Event:2", records[0])
        loss = b"\x0a\x0atrain/loss\x15"
        for record, line in zip(records[1:], self.metrics):
            (value,) = struct.unpack_from("<f", record, record.index(loss) + len(loss))
            self.assertAlmostEqual(value, line["loss"], places=5)

    def test_tensorboard_reads_the_event_file(self):
        venv = os.environ.get("DCP_TENSORBOARD_VENV", REPOSITORY / "build/tensorboard-venv")
        python = Path(venv) / "bin/python"
        if not can_import(python, "tensorboard"):
            self.skipTest("TensorBoard is not installed in build/tensorboard-venv")
        result = subprocess.run([python, "-c", READ_EVENTS, self.run_folder], capture_output=True,
                                text=True, check=False, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)
        scalars = json.loads(result.stdout)
        self.assertLessEqual({"train/loss", "train/lr", "speed/tokens_per_second", "plan/bound_gap",
                              "ranks/busy_fraction_mean", "memory/peak_bytes"}, scalars.keys())
        for tag, values in scalars.items():
            key = tag.split("/")[1]
            self.assertEqual([step for step, _ in values],
                             [line["iteration"] for line in self.metrics if key in line])
            for step, value in values:
                expected = self.metrics[step - 1][key]
                self.assertAlmostEqual(value, expected, delta=1e-6 * abs(expected) + 1e-12, msg=tag)

    def test_picture(self):
        pythons = [python for python in (sys.executable, "/usr/bin/python3")
                   if can_import(python, "matplotlib")]
        if not pythons:
            self.skipTest("matplotlib is not installed")
        script = [pythons[0], "-B", REPOSITORY / "scripts/plot_ranks.py"]
        traces = [self.run_folder / f"trace-00000{number}.json" for number in (2, 5)]
        for name, start in (("ranks.svg", b"<?xml"), ("ranks.png", b"\x89PNG")):
            subprocess.run([*script, self.folder / name, *traces], check=True, timeout=100)
            self.assertTrue((self.folder / name).read_bytes().startswith(start))
        drawn = (self.folder / "ranks.svg").read_text()
        self.assertGreater(drawn.count("<path"), 20)
        for path in (self.run_folder / "metrics.jsonl", self.folder / "none.json"):
            result = subprocess.run([*script, self.folder / "x.svg", path], capture_output=True,
                                    text=True, check=False, timeout=100)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(path.name, result.stderr)


class Prometheus(MonitorTest):
    def test_asked_during_a_run(self):
        process = self.start(2, self.folder / "asked", "run.iterations=1000000",
                             "batch.micro_batch_tokens=128", "monitor.prometheus_port=0",
                             "run.validate_every=0")
        try:
            url = re.fullmatch(r"monitor     (http://127\.0\.0\.1:\d+/metrics)\n",
                               process.stdout.readline()).group(1)
            first = self.wait_for_iterations(url, 1)
            later = self.wait_for_iterations(url, first["dcp_iterations_total"] + 1)
            self.assertGreater(later["dcp_tokens_total"], first["dcp_tokens_total"])
            self.assertEqual(later['dcp_run_info{planner="dcp",ranks="2"}'], 1)
            for rank in range(2):
                self.assertAlmostEqual(sum(later[f'dcp_rank_{share}_fraction{{rank="{rank}"}}']
                                           for share in SHARES), 1)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url.replace("/metrics", "/"), timeout=5)
            self.assertEqual(refused.exception.code, 404)
            self.check_port_in_use(int(url.split(":")[2].split("/")[0]))
        finally:
            for rank in read_processes(str(self.folder / "asked")).values():
                send(rank, signal.SIGTERM)
            stdout, stderr = process.communicate()
        self.assertEqual(process.returncode, 0, stderr)
        self.assertIn("prediction  ", stdout)
        with self.assertRaises(OSError):
            urllib.request.urlopen(url, timeout=5)

    def wait_for_iterations(self, url, count):
        end = time.monotonic() + 60
        while True:
            with urllib.request.urlopen(url, timeout=5) as answer:
                self.assertEqual(answer.status, 200)
                self.assertTrue(
                    answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
                samples = check_exposition(self, answer.read().decode())
            if samples["dcp_iterations_total"] >= count:
                return samples
            self.assertLess(time.monotonic(), end, "no iteration in a minute")
            time.sleep(0.02)

    def check_port_in_use(self, port):
        folder = self.folder / "in-use"
        result = self.run_ranks(2, folder, f"monitor.prometheus_port={port}")
        said = [line for line in result.stderr.splitlines() if line.startswith("dcp: ")]
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn(f"monitor.prometheus_port is {port}", said[0])
        self.assertFalse(folder.exists())

    def test_reached_from_this_machine_alone(self):
        process = self.start(1, self.folder / "alone", "run.iterations=1000000",
                             "monitor.prometheus_port=0")
        try:
            port = int(re.search(r":(\d+)/", process.stdout.readline()).group(1))
            addresses = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()
                         if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"}
            self.assertEqual(addresses, {f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}"
                                         f":{port:04X}"})
        finally:
            process.terminate()
            process.communicate()


class Mistakes(MonitorTest):
    def test_iterations_that_will_not_be_trained(self):
        self.refuse(2, ["monitor.trace_iterations is [5, 21]", "run.iterations is 20"], "train",
                    self.config, "--set", "monitor.trace_iterations=[5, 21]")

    def test_ports_that_do_not_exist(self):
        self.refuse(2, ["monitor.prometheus_port", "from 0 to 65535"], "train", self.config, "--set",
                    "monitor.prometheus_port=70000")

    def test_a_port_for_the_administrator(self):
        if os.geteuid() == 0:
            self.skipTest("root may have every port")
        self.refuse(2, ["monitor.prometheus_port is 80"], "train", self.config, "--set",
                    "monitor.prometheus_port=80")


if __name__ == "__main__":
    unittest.main()
