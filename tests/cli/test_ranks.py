#!/usr/bin/env python3
"""`dcp train` under mpirun, from outside: the same training on any number of ranks, and an end in
time, with one clear line, whatever goes wrong.

DCP_TEST_KILLS is how many runs lose a random rank at a random moment (5)."""

import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
import unittest
from unittest import mock
from pathlib import Path

from support import DCP, CommandLineTest, dcp, read_json_lines, write_tiny_dataset

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "PASSIVE"}
LONGEST_RUN = 100  # seconds
ALL_GONE = 10
FOR_EVER = "run.iterations=1000000"
METRICS = {"iteration", "loss", "grad_norm", "lr", "tokens", "sequences", "seconds", "micro_batches",
           "tokens_per_second", "peak_bytes", "planner", "makespan_seconds", "imbalance_ratio",
           "busy_fraction_mean", "busy_fraction_variance", "plan_seconds", "plan_exposed_seconds",
           "steps_by_degree"}


def mpirun(ranks, program, *arguments, options=("--oversubscribe", "--bind-to", "none")):
    return ["timeout", "-k", "5", str(LONGEST_RUN), os.environ.get("MPIRUN", "mpirun"), *options,
            "-np", str(ranks), str(program), *map(str, arguments)]


def settings(*values):
    return [part for value in values for part in ("--set", value)]


def read_processes(mark):
    """Rank to process id of all `dcp` that have this text in their command line, after a launcher."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() not in (folder / "cmdline").read_bytes():
                continue
            if not os.readlink(folder / "exe").split(" ")[0].endswith("/" + Path(DCP).name):
                continue
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        ranks = [int(entry.split(b"=")[1]) for entry in environment
                 if entry.startswith(b"OMPI_COMM_WORLD_RANK=")]
        if ranks:
            found[ranks[0]] = int(folder.name)
    return found


def comes_true(condition):
    """Whether it does before everything has to be gone."""
    deadline = time.monotonic() + ALL_GONE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def send(process, signal_number):
    try:
        os.kill(process, signal_number)
    except ProcessLookupError:
        pass


class RanksTest(CommandLineTest):
    def run_ranks(self, ranks, folder, *values, program=DCP, **options):
        command = mpirun(ranks, program, "train", self.config,
                         *settings(f"run.folder={folder}", *values), **options)
        return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, cwd=self.folder)

    def train_ranks(self, ranks, folder, *values):
        result = self.run_ranks(ranks, folder, *values)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def assert_one_line(self, exit_code, fragments, result):
        """Of ours: mpirun adds several of its own. Nobody is left when it has ended."""
        said = [line for line in result.stderr.splitlines() if line.startswith("dcp: ")]
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        self.assertEqual(len(said), 1, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, said[0])
        self.assertNotIn("terminate called", result.stderr)

    def script(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path


class SameTraining(RanksTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        result = dcp("train", cls.config, *settings(
            f"run.folder={cls.folder / 'one'}", "run.log_samples=true", "run.iterations=12"))
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.samples = (cls.folder / "one/samples.jsonl").read_text()
        cls.losses = [line["loss"] for line in read_json_lines(cls.folder / "one/metrics.jsonl")]

    def test_an_epoch_visits_every_sequence_once(self):
        drawn = [i for line in read_json_lines(self.folder / "one/samples.jsonl")
                 for i in line["sequences"]]
        count = sum(-(-n // 256) for n in self.document_bytes)  # pieces of at most 256 pairs
        self.assertGreaterEqual(len(drawn), 2 * count)
        for start in range(0, len(drawn) - count + 1, count):
            self.assertEqual(sorted(drawn[start: start + count]), list(range(count)))

    def check_planner(self, planner):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                folder = self.folder / f"{planner}-{ranks}"
                tokens = "auto" if ranks == 1 else 128  # a sequence of 256 needs two ranks
                self.train_ranks(ranks, folder, f"planner.name={planner}", "run.log_samples=true",
                                 "run.iterations=12", f"batch.micro_batch_tokens={tokens}")
                self.assertEqual((folder / "samples.jsonl").read_text(), self.samples)
                metrics = read_json_lines(folder / "metrics.jsonl")
                self.assertEqual(len(metrics), len(self.losses))
                for line, loss in zip(metrics, self.losses):
                    self.assertLessEqual(METRICS, line.keys())
                    self.assertAlmostEqual(line["loss"], loss, delta=1e-4 * loss)
                    self.assertEqual(line["planner"], planner)
                    self.assertEqual(sum(line["steps_by_degree"].values()), line["micro_batches"])
                    self.assertTrue(0 <= line["imbalance_ratio"] < 1, line)
                if ranks > 1:
                    for line in metrics:
                        self.assertGreaterEqual(line["predicted_peak_bytes"], line["peak_bytes"])
                        self.assertGreaterEqual(line["predicted_makespan_seconds"],
                                                0.999 * line["lower_bound_seconds"])
                        self.assertGreater(line["lower_bound_seconds"], 0)
                    self.assertTrue(any("1" != degree for line in metrics
                                        for degree in line["steps_by_degree"]))

    def test_bucket(self):
        self.check_planner("bucket")

    def test_packed(self):
        self.check_planner("packed")

    def test_dcp(self):
        self.check_planner("dcp")

    def test_random(self):
        self.check_planner("random")

    def test_nodes_that_are_not_there(self):
        ENVIRONMENT["DCP_FAKE_RANKS_PER_NODE"] = "2"
        self.addCleanup(ENVIRONMENT.pop, "DCP_FAKE_RANKS_PER_NODE")
        result = self.train_ranks(4, self.folder / "nodes", "run.iterations=3")
        self.assertIn("4 ranks on 2 nodes: 0-1 | 2-3", result.stdout)
        for line, loss in zip(read_json_lines(self.folder / "nodes/metrics.jsonl"), self.losses):
            self.assertAlmostEqual(line["loss"], loss, delta=1e-4 * loss)


class Start(RanksTest):
    def test_threads_are_the_processors_divided_by_the_ranks(self):
        allowed = len(os.sched_getaffinity(0))
        for options in ((), ("--bind-to", "none")):
            with self.subTest(options=options):
                if allowed < 2:
                    self.skipTest("one processor")
                result = self.run_ranks(2, self.folder / "threads", "run.iterations=1",
                                        "run.threads=auto", options=options)
                self.assertEqual(result.returncode, 0, result.stderr)
                expected = allowed // 2 if options else 1  # mpirun binds each of two to a core
                if options or allowed == 2:
                    self.assertIn(f"{expected} thread{'s' if expected > 1 else ''} a rank",
                                  result.stdout)

    def test_a_mistake_is_said_once(self):
        for value, fragment in (("model.hiden=3", "model.hiden"),
                                ("data.train=[/no/such/data]", "/no/such/data"),
                                ("model.heads=5", "heads")):
            with self.subTest(value=value):
                result = self.run_ranks(3, self.folder / "mistake", value)
                self.assert_one_line(2, [fragment], result)
        command = mpirun(3, DCP, "train", self.config, "--no-such-option")
        result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False,
                                stdin=subprocess.DEVNULL)
        self.assert_one_line(2, ["--no-such-option"], result)
        self.assertFalse((self.folder / "mistake").exists())

    def test_a_mistake_of_one_rank(self):
        one = self.script("one-wrong", 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then\n'
                          f'    exec {DCP} "$@" --set model.hiden=3\nfi\nexec {DCP} "$@"')
        self.assert_one_line(2, ["model.hiden"], self.run_ranks(3, self.folder / "x", program=one))

    def test_ranks_that_differ(self):
        other = self.folder / "other"
        other.mkdir()
        write_tiny_dataset(other / "text", (300, 500, 80))
        same_lengths = self.folder / "same-lengths"
        same_lengths.mkdir()
        shutil.copy2(f"{self.dataset}.idx", same_lengths / "text.idx")
        tokens = Path(f"{self.dataset}.bin").read_bytes()
        (same_lengths / "text.bin").write_bytes(tokens.replace(b"e\0", b"i\0"))
        program = self.folder / "dcp"
        shutil.copy2(shutil.which(DCP), program)
        with program.open("ab") as file:
            file.write(b"another build")
        for what, command in (("the configuration", f'exec {DCP} "$@" --set optimizer.lr=1e-4'),
                              ("the data sets", f'cd {other}; exec {DCP} "$@"'),
                              ("the data sets", f'cd {same_lengths}; exec {DCP} "$@"'),
                              ("the program", f'exec {program} "$@"')):
            with self.subTest(what=what, command=command):
                wrapper = self.script("differ", f'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then\n'
                                      f'    {command}\nfi\nexec {DCP} "$@"')
                result = self.run_ranks(3, self.folder / "differ-run", "data.train=[text]",
                                        program=wrapper)
                self.assert_one_line(2, [f"{what} is not the same", "world rank 2 differs"], result)

    def test_processes_that_do_not_see_each_other(self):
        for variable, remedy in (("OMPI_COMM_WORLD_SIZE", "mpirun"),
                                 ("SLURM_STEP_NUM_TASKS", "srun --mpi=pmix"),
                                 ("PMI_SIZE", "mpirun")):
            with self.subTest(variable=variable):
                result = dcp("train", self.config, "--set", f"run.folder={self.folder / 'alone'}",
                             env={**ENVIRONMENT, variable: "2"})
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("2 processes, but each sees a world of one rank", result.stderr)
                self.assertIn(remedy, result.stderr)
        self.assertFalse((self.folder / "alone").exists())


class Failures(RanksTest):
    def test_full_disk(self):
        disk = self.folder / "disk"
        for iterations, size in ((100000, "48k"), (2, "48k")):  # fills with lines; with weights
            with self.subTest(iterations=iterations):
                disk.mkdir(exist_ok=True)
                mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
                if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
                    self.skipTest("this system does not let the test mount a small file system")
                try:
                    result = self.run_ranks(3, disk / "run", f"run.iterations={iterations}")
                    self.assert_one_line(3, ["No space left", str(disk)], result)
                    # mpirun can end a moment before its ranks have.
                    self.assertTrue(comes_true(lambda: not read_processes(str(disk))),
                                    read_processes(str(disk)))
                    self.assertFalse((disk / "run/weights").exists())
                finally:  # refused as long as a process has a file open there
                    umount = ["umount", str(disk)]
                    self.assertTrue(comes_true(lambda: subprocess.run(
                        umount, capture_output=True, check=False).returncode == 0), "still in use")

    def test_weights_that_are_not_numbers(self):
        start = self.folder / "start"
        self.train(start, "run.iterations=0")
        file = start / "weights/model.safetensors"
        data = bytearray(file.read_bytes())
        (header,) = struct.unpack_from("<Q", data)
        struct.pack_into("<f", data, 8 + header + 4000, float("nan"))
        file.write_bytes(data)
        result = self.run_ranks(3, self.folder / "nan", f"model.init_from={start}/weights")
        self.assert_one_line(3, ["iteration 1", "first bad tensor"], result)


class Signals(RanksTest):
    def start(self, ranks, folder, *values):
        command = mpirun(ranks, DCP, "train", self.config,
                         *settings(f"run.folder={folder}", FOR_EVER, *values))
        return subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait_for(self, process, what, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"no {what} within 60 s")
            self.assertIsNone(process.poll(), "ended by itself")
            time.sleep(0.01)

    def wait_for_lines(self, process, metrics, count):
        self.wait_for(process, "iterations",
                      lambda: metrics.exists() and metrics.read_text().count("\n") >= count)

    def check_stopped(self, folder, output, name):
        self.assertIn(f"stopped by {name}", output)
        self.check_files(folder)

    def check_files(self, folder):
        self.check_lines(folder)
        self.succeed("eval", "--weights", folder / "weights", "--dataset", self.dataset)

    def check_lines(self, folder):
        lines = read_json_lines(folder / "metrics.jsonl")
        self.assertEqual([line["iteration"] for line in lines], list(range(1, len(lines) + 1)))

    def test_a_signal_to_one_rank_stops_all(self):
        for rank, number in ((0, signal.SIGINT), (0, signal.SIGTERM), (2, signal.SIGTERM),
                             (1, signal.SIGINT)):
            with self.subTest(rank=rank, signal=number.name):
                folder = self.folder / f"one-{rank}-{number.name}"
                with self.start(3, folder) as process:
                    self.wait_for_lines(process, folder / "metrics.jsonl", 3)
                    send(read_processes(str(folder))[rank], number)
                    output, _ = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 0, output)
                self.check_stopped(folder, output, number.name)

    def test_a_signal_to_mpirun_stops_all(self):
        # mpirun sends its ranks SIGTERM for both, ends with a code of its own, and kills them after
        # a second unless it is told to be patient.
        patience = {"OMPI_MCA_odls_base_sigkill_timeout": "20"}
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                folder = self.folder / f"mpirun-{number.name}"
                with mock.patch.dict(ENVIRONMENT, patience), self.start(3, folder) as process:
                    self.wait_for_lines(process, folder / "metrics.jsonl", 3)
                    process.send_signal(number)  # `timeout` passes it on
                    process.communicate(timeout=30)
                # Once it ends, mpirun neither passes on all that its ranks say nor surely waits for
                # the end of their writing: what is there must be whole.
                self.check_lines(folder)
                if (folder / "weights").exists():
                    self.check_files(folder)

    def kill_one(self, index, generator):
        ranks = generator.choice((2, 3, 4))
        folder = self.folder / f"killed-{index}"
        mark = str(folder)
        with self.start(ranks, folder, f"planner.name={generator.choice(('dcp', 'random'))}") as process:
            self.wait_for(process, "ranks", lambda: len(read_processes(mark)) == ranks)
            processes = read_processes(mark)
            if index % 3 == 2:  # while weights are being written
                self.wait_for_lines(process, folder / "metrics.jsonl", 1)
                for each in processes.values():
                    send(each, signal.SIGTERM)
                time.sleep(generator.uniform(0, 0.3))
            else:  # from before MPI has started to well into training
                time.sleep(generator.uniform(0, 3))
            rank = generator.randrange(ranks)
            has_killed = rank in read_processes(mark)
            # mpirun ends only when what its ranks said has been read.
            said = []
            reader = threading.Thread(target=lambda: said.append(process.stdout.read()))
            reader.start()
            start = time.monotonic()
            send(processes[rank], signal.SIGKILL)
            while read_processes(mark) or process.poll() is None:
                if time.monotonic() - start > ALL_GONE:
                    self.assertEqual(read_processes(mark), {}, f"rank {rank} of {ranks}")
                    # Where a rank dies while it introduces itself, mpirun can wait for ever for a
                    # lock of its own (PMIx 4.2 in pmix_rte_finalize), with all ranks gone.
                    self.assertFalse((folder / "metrics.jsonl").exists(), "mpirun hangs")
                    self.num_hanging += 1
                    process.terminate()  # `timeout`, which passes it on and kills
                    process.wait(2 * ALL_GONE)
                    start = time.monotonic()
                time.sleep(0.01)
            seconds = time.monotonic() - start
            reader.join()
            output = said[0]
        if has_killed and "weights     " not in output:
            self.assertNotEqual(process.returncode, 0, output)
        self.assertLess(seconds, ALL_GONE, f"rank {rank} of {ranks}")
        metrics = folder / "metrics.jsonl"
        if metrics.exists():
            text = metrics.read_text()
            whole = text[: text.rfind("\n") + 1]  # the last line may be cut
            metrics.write_text(whole)
            lines = read_json_lines(metrics)
            self.assertEqual([line["iteration"] for line in lines], list(range(1, len(lines) + 1)))
        if (folder / "weights").exists():
            self.succeed("eval", "--weights", folder / "weights", "--dataset", self.dataset)
        if (folder / "config.yaml").exists():
            self.succeed("train", folder / "config.yaml", "--print-config")
        self.num_weights += (folder / "weights").exists()
        return seconds

    def test_a_killed_rank_ends_all(self):
        kills = int(os.environ.get("DCP_TEST_KILLS", "5"))
        seed = random.SystemRandom().randrange(1 << 32)
        generator = random.Random(seed)
        self.num_weights = self.num_hanging = 0
        slowest = 0
        for index in range(kills):
            with self.subTest(seed=seed, index=index):
                slowest = max(slowest, self.kill_one(index, generator))
        print(f"{kills} runs lost a rank: the slowest end took {slowest:.2f} s; "
              f"{self.num_weights} had written weights, all whole; mpirun itself had to be ended "
              f"{self.num_hanging} times")


if __name__ == "__main__":
    unittest.main()
