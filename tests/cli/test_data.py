#!/usr/bin/env python3
"""`dcp data import`, `inspect` and `lengths` from outside."""

import gzip
import shutil
import subprocess
import time
import unittest

from support import DCP, CommandLineTest, sentences, write_documents


class Import(CommandLineTest):
    def test_files_folders_and_gz_in_sorted_order(self):
        source = write_documents(self.folder / "documents", [10, 500])
        (source / "nested").mkdir()
        (source / "0000a.gz").write_bytes(gzip.compress(sentences(77, 5).encode()))
        (source / "nested/deep.txt").write_text(sentences(33, 6))
        single = self.folder / "single.txt"
        single.write_text(sentences(41, 7))
        prefix = self.folder / "imported"
        self.succeed("data", "import", "--out", prefix, source, single)
        lengths = self.succeed("data", "lengths", prefix).stdout
        # A document of n bytes and its end mark has n pairs.
        found = [int(line) for line in lengths.splitlines() if not line.startswith("#")]
        self.assertEqual(sorted(found), [10, 33, 41, 77, 500])
        self.assertEqual(found[:3], [10, 77, 500])

    def test_same_input_same_bytes(self):
        source = write_documents(self.folder / "same", [5, 1, 900])
        for name in ("same-1", "same-2"):
            self.succeed("data", "import", "--out", self.folder / name, source)
        for suffix in (".bin", ".idx"):
            self.assertEqual((self.folder / f"same-1{suffix}").read_bytes(),
                             (self.folder / f"same-2{suffix}").read_bytes())

    def test_bytes_arrive_unchanged(self):
        source = self.folder / "binary"
        source.write_bytes(bytes(range(256)) * 3)
        self.succeed("data", "import", "--out", self.folder / "binary-set", source)
        stored = (self.folder / "binary-set.bin").read_bytes()
        tokens = [int.from_bytes(stored[i: i + 2], "little") for i in range(0, len(stored), 2)]
        self.assertEqual(tokens, [*range(256)] * 3 + [256])

    def test_inspect_shows_counts_and_lengths(self):
        output = self.succeed("data", "inspect", self.dataset).stdout
        for fragment in (str(len(self.document_bytes)), "document", "tokens"):
            self.assertIn(fragment, output)

    def test_terminated_import_leaves_nothing(self):
        source = self.folder / "much"
        source.mkdir()
        for number in range(8):
            (source / f"{number}.txt").write_bytes(sentences(1000, number).encode() * 20000)
        prefix = self.folder / "ended"
        with subprocess.Popen([DCP, "data", "import", "--out", str(prefix), str(source)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 20
            while not list(self.folder.glob("ended*")) and process.poll() is None:
                self.assertLess(time.monotonic(), deadline, "no file appeared")
            process.terminate()
            errors = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("SIGTERM", errors)
        self.assertEqual(list(self.folder.glob("ended*")), [])

    def test_index_that_covers_less_is_warned_of(self):
        for ending in ("bin", "idx"):
            shutil.copy(f"{self.dataset}.{ending}", self.folder / f"longer.{ending}")
        with open(self.folder / "longer.bin", "ab") as file:
            file.write(bytes(6))
        for command in ("inspect", "lengths"):
            errors = self.succeed("data", command, self.folder / "longer").stderr
            self.assertIn("does not cover the last 6", errors)

    def test_killed_import_leaves_no_dataset(self):
        source = self.folder / "large"
        source.mkdir()
        for number in range(8):
            (source / f"{number}.txt").write_bytes(sentences(1000, number).encode() * 20000)
        prefix = self.folder / "killed"
        with subprocess.Popen([DCP, "data", "import", "--out", str(prefix), str(source)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 20
            while not list(self.folder.glob("*killed*")) and process.poll() is None:
                self.assertLess(time.monotonic(), deadline, "no file appeared")
            process.kill()
        self.assertFalse(prefix.with_suffix(".idx").exists(), "the import was not interrupted")
        self.refuse(2, ["killed"], "data", "inspect", prefix)
        self.succeed("data", "import", "--out", prefix, source)
        self.succeed("data", "inspect", prefix)


if __name__ == "__main__":
    unittest.main()
