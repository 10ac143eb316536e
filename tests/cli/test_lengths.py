#!/usr/bin/env python3
"""Distributions from outside: dcp data sample, dcp data synth, dcp plan --distribution."""

import struct
import unittest
from pathlib import Path

from support import END_OF_DOCUMENT, CommandLineTest, write_dataset, write_documents

COST = Path(__file__).resolve().parents[2] / "configs/costs/flexsp-gpt-7b.yaml"


def numbers(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def documents(prefix):
    """The documents of a dataset of uint16 tokens, read as another program would."""
    index = Path(f"{prefix}.idx").read_bytes()
    count, = struct.unpack_from("<Q", index, 18)
    sizes = struct.unpack_from(f"<{count}i", index, 34)
    tokens = Path(f"{prefix}.bin").read_bytes()
    found, begin = [], 0
    for size in sizes:
        found.append(struct.unpack_from(f"<{size}H", tokens, 2 * begin))
        begin += size
    return found


class Sample(CommandLineTest):
    def sample(self, *arguments):
        return numbers(self.succeed("data", "sample", *arguments).stdout)

    def test_a_longer_sample_begins_with_the_shorter_one(self):
        long = self.sample("wikipedia", "--count", 50, "--seed", 3)
        self.assertEqual(len(long), 50)
        self.assertEqual(self.sample("wikipedia", "--count", 20, "--seed", 3), long[:20])
        self.assertNotEqual(self.sample("wikipedia", "--count", 50, "--seed", 4), long)

    def test_videos_are_frames_times_tokens(self):
        for line in self.sample("video-short", "--count", 30):
            frames, tokens = map(int, line.split("x"))
            self.assertIn(frames, (15, 30, 60, 120))
            self.assertIn(tokens, (144, 405, 920, 1620, 3600))

    def test_long_ones_are_cut(self):
        whole = list(map(int, self.sample("long", "--count", 4)))
        pieces = list(map(int, self.sample("long", "--count", 40, "--max-tokens", 5000)))
        self.assertLessEqual(max(pieces), 5000)
        self.assertEqual(sum(pieces[:1 + (whole[0] - 1) // 5000]), whole[0])
        self.refuse(2, ["videos are not cut"], "data", "sample", "video-long", "--max-tokens", 999)

    def test_the_file_is_what_plan_reads_and_draws_itself(self):
        file = self.folder / "lengths.txt"
        self.succeed("data", "sample", "wikipedia:max=9000", "--count", 64, "--out", file)
        from_file = self.succeed("plan", "--lengths", file, "--cost", COST, "--ranks", 8,
                                 "--planner", "packed", "--json", self.folder / "a.json")
        drawn = self.succeed("plan", "--distribution", "wikipedia:max=9000", "--cost", COST,
                             "--ranks", 8, "--batch-sequences", 64, "--planner", "packed",
                             "--json", self.folder / "b.json")
        self.assertEqual(from_file.stdout.split("packed", 1)[1].split("plan time")[0][:40],
                         drawn.stdout.split("packed", 1)[1].split("plan time")[0][:40])
        first, second = ((self.folder / name).read_text().split('"makespan_seconds":')[1][:12]
                         for name in ("a.json", "b.json"))
        self.assertEqual(first, second)

    def test_messages(self):
        self.refuse(2, ["no distribution 'wikpedia'; there are wikipedia, "], "data", "sample",
                    "wikpedia")
        for command in (("sample", ""), ("sample", "short", "--out", ""),
                        ("lengths", self.dataset, "--out", ""), ("inspect", "")):
            self.refuse(2, ["must not be empty"], "data", *command)
        for number in ("010", "0x10", 10**23, "1e3"):
            self.refuse(2, ["--count: must be a whole number such as 10"], "data", "sample",
                        "short", "--count", number)
        for seed in (-1, 2**64, 10**23):
            for command in (("sample", "short"),
                            ("synth", "--distribution", "short", "--documents", 1, "--from",
                             self.dataset, "--out", self.folder / "none")):
                self.refuse(2, ["--seed: must be a whole number from 0 to 18446744073709551615"],
                            "data", *command, "--seed", seed)
        self.refuse(2, ["--count 0: must be at least 1"], "data", "sample", "short", "--count", 0)
        for command in (("sample", "short"), ("lengths", self.dataset)):
            self.refuse(2, ["--out", "there is no folder", "make it first"], "data", *command,
                        "--out", self.folder / "nowhere/lengths")
        self.refuse(2, ["--distribution needs a batch size"], "plan", "--distribution", "short",
                    "--cost", COST, "--ranks", 8)
        bad = self.folder / "bad.txt"
        bad.write_text("12\n15x\n", encoding="utf-8")
        self.refuse(2, ["bad.txt:2: '15x' is no length"], "plan", "--lengths", bad, "--cost", COST,
                    "--ranks", 8)
        bad.write_text("12\n15x4\n", encoding="utf-8")
        self.refuse(2, ["bad.txt:2: '15x4' beside '12'", "do not mix"], "plan", "--lengths", bad,
                    "--cost", COST, "--ranks", 8)


class Synth(CommandLineTest):
    distribution = "short:min=20,max=400"

    def synth(self, *arguments):
        return self.succeed("data", "synth", "--distribution", self.distribution, *arguments).stdout

    def check(self, prefix, count, text):
        """Lengths are those of the sample; the text goes on from document to document."""
        wanted = numbers(self.succeed("data", "sample", self.distribution, "--count", count).stdout)
        found = documents(prefix)
        self.assertEqual([len(document) - 1 for document in found], list(map(int, wanted)))
        self.assertEqual({document[-1] for document in found}, {END_OF_DOCUMENT})
        joined = [token for document in found for token in document[:-1]]
        endless = text * (1 + len(joined) // len(text))
        self.assertEqual(joined, endless[:len(joined)])
        lengths = numbers(self.succeed("data", "lengths", prefix).stdout)
        self.assertEqual(lengths, wanted)

    def test_from_a_dataset(self):
        out = self.folder / "from-dataset"
        printed = self.synth("--documents", 200, "--from", self.dataset, "--out", out)
        text = [token for document in documents(self.dataset) for token in document[:-1]]
        self.assertIn(f"from a text of {len(text):,} tokens, gone through", printed)
        self.check(out, 200, text)

    def test_from_files(self):
        folder = write_documents(self.folder / "texts", [3000, 500, 0, 70000])
        out = self.folder / "from-files"
        self.synth("--documents", 100, "--from", folder, "--out", out)
        text = [byte for file in sorted(folder.iterdir()) for byte in file.read_bytes()]
        self.check(out, 100, text)

    def test_a_text_without_a_common_end_keeps_all_its_tokens(self):
        source = self.folder / "no-end"
        write_dataset(source, [[1, 2, 3], [4, 5], [6, 7, 8, 9]])
        out = self.folder / "cut"
        self.succeed("data", "synth", "--distribution", "zipf:min=4,max=4", "--documents", 4,
                     "--from", source, "--out", out)
        self.assertEqual(documents(out), [(1, 2, 3, 4, 5), (6, 7, 8, 9, 1), (2, 3, 4, 5, 6),
                                          (7, 8, 9, 1, 2)])

    def test_training_reads_it(self):
        out = self.folder / "to-train"
        self.synth("--documents", 60, "--from", self.dataset, "--out", out)
        lines = self.train(self.folder / "trained", "run.iterations=3", f"data.train=[{out}]")
        self.assertEqual(len(lines), 3)

    def test_messages(self):
        out = self.folder / "none"
        common = ("data", "synth", "--documents", 3, "--out", out)
        self.refuse(2, ["videos cannot be made of text"], *common, "--distribution", "video-short",
                    "--from", self.dataset)
        empty = write_documents(self.folder / "empty", [0, 0])
        self.refuse(2, ["there is no text in it"], *common, "--distribution", "short", "--from",
                    empty)
        self.refuse(2, ["is a dataset beside other inputs"], *common, "--distribution", "short",
                    "--from", self.dataset, empty)
        self.refuse(2, ["text.bin is the input"], "data", "synth", "--documents", 3, "--out",
                    self.dataset, "--distribution", "short", "--from", self.dataset)
        wide = self.folder / "wide"
        Path(f"{wide}.bin").write_bytes(struct.pack("<256i", 20240801, 7, 2, *([0] * 253))
                                        + struct.pack("<2I", 70000, 1))
        self.refuse(2, ["has token 70000"], *common, "--distribution", "zipf:min=1,max=1", "--from",
                    f"{wide}.bin")
        self.assertFalse(Path(f"{out}.bin").exists())
        self.assertFalse(Path(f"{out}.bin.partial").exists())


if __name__ == "__main__":
    unittest.main()
