#!/usr/bin/env python3
"""Bad use and bad input of every kind: exit code, one message, and what it must name.

Exit codes: 2 for what the user can correct (command line, configuration, data, weights), 3 for a run
that was given good input and could not go on.
"""

import resource
import shutil
import signal
import struct
import subprocess
import unittest
from pathlib import Path

from support import DCP, CommandLineTest, read_safetensors_header, sentences, write_dataset

LFS_POINTER = (b"version https://git-lfs.github.com/spec/v1\n"
               b"oid sha256:" + b"0" * 64 + b"\nsize 12345\n")


class CommandLine(CommandLineTest):
    def test_table(self):
        for arguments, fragments in [
            ((), ["train"]),
            (("trian", self.config), ["trian"]),
            (("train",), ["CONFIG"]),
            (("train", "missing.yaml"), ["missing.yaml", "no such"]),
            (("train", self.folder), [str(self.folder), "folder"]),
            (("train", self.config, "--unknown"), ["--unknown"]),
            (("train", self.config, "--set", "lr"), ["--set", "lr", "key=value"]),
            (("train", ""), ["CONFIG: must not be empty"]),
            (("train", self.config, "--set", ""), ["--set: must not be empty"]),
            (("eval", "--dataset", self.dataset), ["--weights"]),
            (("eval", "--weights", self.folder / "none", "--dataset", self.dataset), ["none"]),
            (("export", "--run", self.folder / "none", "--out", self.folder / "x"), ["none"]),
            (("data",), ["import"]),
            (("data", "import", "--out", self.folder / "x"), ["PATH"]),
            (("data", "import", "--out", self.folder / "x", self.folder / "none"), ["none"]),
            (("data", "inspect", self.folder / "none"), ["none", "no such dataset"]),
            (("data", "lengths", self.folder / "none"), ["none", "no such dataset"]),
        ]:
            with self.subTest(arguments=arguments):
                self.refuse(2, fragments, *arguments)

    def test_help_and_version(self):
        self.assertRegex(self.succeed("--version").stdout, r"\d+\.\d+\.\d+")
        for command in ([], ["train"], ["profile"], ["eval"], ["export"], ["plan"], ["simulate"],
                        ["data"], ["data", "import"], ["data", "inspect"], ["data", "lengths"],
                        ["data", "sample"], ["data", "synth"]):
            with self.subTest(command):
                said = self.succeed(*command, "--help").stdout
                self.assertGreater(len(said), 100)
                codes = said[said.rindex("Exit status:"):]
                for code in ("0 ", "2 ", "3 "):
                    self.assertIn(" " + code, codes)

    def test_import_of_an_empty_folder(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.refuse(2, ["empty"], "data", "import", "--out", self.folder / "x", empty)
        self.assertFalse((self.folder / "x.idx").exists())


class Configuration(CommandLineTest):
    def test_settings(self):
        for setting, fragments in [
            ("model.hiden=4", ["model.hiden", "model.hidden"]),
            ("model.hidden=0", ["model.hidden", "0"]),
            ("model.hidden=wide", ["model.hidden", "wide"]),
            ("model.hidden=1_000", ["model.hidden", "1_000"]),
            ("model.kv_heads=3", ["model.kv_heads", "3"]),
            ("model.kind=transformer-2d", ["model.kind", "transformer-2d"]),
            ("model.norm=batchnorm", ["model.norm", "batchnorm", "rmsnorm"]),
            ("optimizer.lr=-1", ["optimizer.lr", "-1"]),
            ("optimizer.betas=[0.9]", ["optimizer.betas"]),
            ("schedule.kind=step", ["schedule.kind", "cosine"]),
            ("run.device=cuda", ["cuda"]),
            ("run.threads=0", ["run.threads"]),
            ("data.max_tokens=0", ["data.max_tokens"]),
            ("data.validation_documents=1000", ["data.validation_documents"]),
            ("data.train=[nowhere]", ["nowhere"]),
            ("model.vocab=100", ["vocab"]),
            ("model.init_from=nowhere", ["nowhere"]),
        ]:
            with self.subTest(setting):
                self.refuse(2, fragments, "train", self.config, "--set", setting)

    def test_keys_that_exclude_each_other(self):
        self.refuse(2, ["batch.sequences", "batch.tokens"], "train", self.config,
                    "--set", "batch.sequences=4", "--set", "batch.tokens=512")

    def test_files(self):
        good = self.config.read_text()
        for name, text, fragments in [
            ("unknown", good + "modle: {hidden: 4}\n", ["modle", "model", ":17"]),
            ("two-measures", good.replace("batch:\n", "batch:\n  sequences: 4\n"),
             ["batch.sequences", "batch.tokens"]),
            ("repeated", good + "batch: {tokens: 5}\n", ["batch", ":17"]),
            ("tab", "model:\n\thidden: 4\n", [":2"]),
            ("list", "- model\n", ["list"]),
            ("empty", "", ["data.train"]),
            ("twice", good.replace("  hidden: 32", "  hidden: 32\n  hidden: 64"),
             ["model.hidden", ":3"]),
        ]:
            with self.subTest(name):
                file = self.folder / f"{name}.yaml"
                file.write_text(text)
                self.refuse(2, [f"{name}.yaml", *fragments], "train", file)


class Datasets(CommandLineTest):
    def damaged(self, name, index=None, tokens=None):
        """A copy of the good dataset with its .idx or .bin changed by a function on the bytes."""
        prefix = self.folder / name
        for suffix, change in ((".idx", index), (".bin", tokens)):
            data = Path(f"{self.dataset}{suffix}").read_bytes()
            Path(f"{prefix}{suffix}").write_bytes(change(data) if change else data)
        return prefix

    def test_table(self):
        count = len(self.document_bytes)
        lengths_at, offsets_at, documents_at = 34, 34 + 4 * count, 34 + 12 * count

        def put(position, layout, value):
            return lambda data: (data[:position] + struct.pack(layout, value)
                                 + data[position + struct.calcsize(layout):])

        for name, index, tokens, fragments in [
            ("cut-index", lambda data: data[:-5], None, [".idx"]),
            ("short-index", lambda data: data[:20], None, [".idx"]),
            ("empty-index", lambda data: b"", None, [".idx", "empty"]),
            ("magic", put(0, "<Q", 0), None, [".idx"]),
            ("version", put(9, "<Q", 7), None, [".idx", "7"]),
            ("type-code", put(17, "<B", 99), None, [".idx", "99"]),
            ("count", put(18, "<Q", 2**60), None, [".idx"]),
            ("negative-length", put(lengths_at, "<i", -4), None, [".idx", "-4"]),
            ("pointer", put(offsets_at + 8, "<q", 2**40), None, [".bin"]),
            ("first-document", put(documents_at, "<q", 1), None, [".idx"]),
            ("last-document", put(documents_at + 8 * count, "<q", 3), None, [".idx"]),
            ("index-lfs", lambda data: LFS_POINTER, None, [".idx", "git-lfs", "git lfs pull"]),
            ("cut-tokens", None, lambda data: data[:-2], [".bin", "truncated"]),
            ("empty-tokens", None, lambda data: b"", [".bin"]),
            ("tokens-lfs", None, lambda data: LFS_POINTER, [".bin", "git lfs pull"]),
        ]:
            prefix = self.damaged(name, index, tokens)
            for command in (("data", "inspect", prefix),
                            ("train", self.config, "--set", f"data.train=[{prefix}]")):
                with self.subTest(name, command=command[0]):
                    self.refuse(2, [name, *fragments], *command)

    def test_token_outside_the_vocabulary(self):
        prefix = self.folder / "large-ids"
        write_dataset(prefix, [[1, 2, 3], [4, 900, 5]])
        self.refuse(2, ["large-ids", "900", "257", "model.vocab"], "train", self.config,
                    "--set", f"data.train=[{prefix}]")

    def test_one_half_is_missing(self):
        prefix = self.damaged("half")
        Path(f"{prefix}.bin").unlink()
        self.refuse(2, ["half.bin", "half.idx"], "data", "inspect", prefix)

    def test_nothing_to_predict(self):
        prefix = self.folder / "ones"
        write_dataset(prefix, [[1], [2]])
        self.refuse(2, ["ones"], "train", self.config, "--set", f"data.train=[{prefix}]")

    def test_llmc_shards(self):
        for name, header, num_tokens, fragments in [
            ("old-version", (20240520, 3, 4), 4, ["version", "3"]),
            ("cut-shard", (20240520, 1, 40), 4, ["truncated"]),
        ]:
            shard = self.folder / f"{name}.bin"
            shard.write_bytes(struct.pack("<3i", *header) + bytes(4 * 253)
                              + struct.pack(f"<{num_tokens}H", *range(num_tokens)))
            with self.subTest(name):
                self.refuse(2, [name, *fragments], "data", "inspect", shard)


class Weights(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.start = cls.folder / "start"

    def setUp(self):
        if not self.start.exists():
            self.train(self.start, "run.iterations=0")

    def copy_of_weights(self, name):
        return Path(shutil.copytree(self.start / "weights", self.folder / name))

    def test_shapes_that_do_not_fit(self):
        self.refuse(2, ["model.embed_tokens.weight"], "train", self.config, "--set",
                    f"model.init_from={self.start}/weights", "--set", "model.vocab=300")

    def test_cut_file(self):
        weights = self.copy_of_weights("cut")
        file = weights / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-10])
        self.refuse(2, ["model.safetensors"], "eval", "--weights", weights, "--dataset",
                    self.dataset)

    def test_lfs_pointer(self):
        weights = self.copy_of_weights("lfs")
        (weights / "model.safetensors").write_bytes(LFS_POINTER)
        self.refuse(2, ["model.safetensors", "git lfs pull"], "eval", "--weights", weights,
                    "--dataset", self.dataset)

    def test_features_we_lack_are_named(self):
        for key, line in [("rope_scaling", '"rope_scaling": {"rope_type": "llama3"},'),
                          ("attention_bias", '"attention_bias": true,'),
                          ("sliding_window", '"sliding_window": 4096,')]:
            with self.subTest(key):
                weights = self.copy_of_weights(key)
                file = weights / "config.json"
                text = file.read_text().replace('"attention_bias": false,', "")
                file.write_text(text.replace("{", "{" + line, 1))
                self.refuse(2, [key], "eval", "--weights", weights, "--dataset", self.dataset)


def limit_file_size(num_bytes):
    """What a full disk looks like to one process: writing beyond the limit fails."""
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
    return apply


class FailedRuns(CommandLineTest):
    def test_memory_budget(self):
        self.refuse(2, ["memory.budget", "too small for the model"], "train", self.config, "--set", "memory.budget=100KiB")

    def test_not_finite(self):
        folder = self.folder / "exploded"
        self.refuse(3, ["iteration", "nan", "bad tensor", "sequences"], "train", self.config,
                    "--set", "optimizer.lr=1e30", "--set", "optimizer.clip=0",
                    "--set", "schedule.warmup=0", "--set", f"run.folder={folder}")
        self.assertTrue((folder / "weights/model.safetensors").exists())

    def test_standard_output_full(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([DCP, "data", "inspect", str(self.dataset)], stdout=full,
                                    stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 3, result.stderr)

    def test_evaluation_not_finite(self):
        self.train(self.folder / "spoilt", "run.iterations=0")
        weights = self.folder / "spoilt/weights"
        data = bytearray((weights / "model.safetensors").read_bytes())
        header = read_safetensors_header(weights / "model.safetensors")
        name = "model.layers.1.mlp.up_proj.weight"
        (header_bytes,) = struct.unpack_from("<Q", data)
        struct.pack_into("<f", data, 8 + header_bytes + header[name]["data_offsets"][0],
                         float("nan"))
        (weights / "model.safetensors").write_bytes(data)
        losses = self.folder / "not-finite.jsonl"
        self.refuse(3, ["sequence 0 is not finite", name], "eval", "--weights", weights,
                    "--dataset", self.dataset, "--per-sequence", losses)
        self.assertFalse(losses.exists())

    def test_evaluation_of_what_is_not_there(self):
        self.train(self.folder / "there", "run.iterations=0")
        self.refuse(2, ["no such weights folder"], "eval", "--weights", self.folder / "nowhere",
                    "--dataset", self.dataset)
        self.refuse(2, ["there is no folder"], "eval", "--weights", self.folder / "there/weights",
                    "--dataset", self.dataset, "--per-sequence", self.folder / "nowhere/losses")

    def test_disk_full_while_writing_weights(self):
        self.refuse(3, ["model.safetensors"], "train", self.config, "--set", "run.iterations=1",
                    "--set", f"run.folder={self.folder / 'full'}",
                    preexec_fn=limit_file_size(16384))
        self.assertFalse((self.folder / "full/weights/model.safetensors").exists())

    def test_disk_full_while_importing(self):
        source = self.folder / "source.txt"
        source.write_text(sentences(100000, 1))
        prefix = self.folder / "overfull"
        self.refuse(3, ["overfull"], "data", "import", "--out", prefix, source,
                    preexec_fn=limit_file_size(65536))
        self.assertEqual([path.name for path in self.folder.glob("overfull*")], [])

    def test_disk_full_while_evaluating(self):
        self.train(self.folder / "evaluated", "run.iterations=0")
        losses = self.folder / "losses.jsonl"
        self.refuse(3, ["losses.jsonl"], "eval", "--weights", self.folder / "evaluated/weights",
                    "--dataset", self.dataset, "--per-sequence", losses,
                    preexec_fn=limit_file_size(100))
        self.assertFalse(losses.exists())

    def test_folder_that_cannot_be_written(self):
        blocked = self.folder / "file"
        blocked.write_text("not a folder")
        self.refuse(2, ["file", "run.folder"], "train", self.config, "--set", f"run.folder={blocked}/run")


if __name__ == "__main__":
    unittest.main()
