"""What the command-line tests share: running `dcp`, documents to train on, a tiny configuration."""

import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

DCP = os.environ.get("DCP", "dcp")
END_OF_DOCUMENT = 256

TINY_CONFIG = """\
model:
  hidden: 32
  layers: 2
  heads: 4
  kv_heads: 2
  ffn: 80
  vocab: 257
data:
  train: [{dataset}]
  max_tokens: 256
batch:
  tokens: 1024
optimizer: {{lr: 5e-3}}
schedule: {{kind: constant, warmup: 2}}
profile: off
run: {{iterations: 20, dtype: fp32, threads: 1, device: cpu, folder: {folder}, validate_every: 0}}
"""


def dcp(*arguments, **options):
    """Runs the executable; never waits for input, never longer than a minute."""
    settings = {"capture_output": True, "text": True, "timeout": 60, "check": False,
                "stdin": subprocess.DEVNULL, **options}
    return subprocess.run([DCP, *map(str, arguments)], **settings)


def sentences(num_bytes, seed):
    """Text with something to learn in it: the words of a small vocabulary, some far more frequent."""
    generator = random.Random(seed)
    words = ["the", "of", "a", "sequence", "token", "plan", "rank", "group", "is", "runs", "long"]
    text = ""
    while len(text) < num_bytes:
        text += generator.choice(words[: generator.randint(1, len(words))]) + " "
    return text[:num_bytes]


def write_documents(folder, lengths, seed=1):
    """One file a document; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, num_bytes in enumerate(lengths):
        (folder / f"{number:04d}.txt").write_text(sentences(num_bytes, seed + number))
    return folder


def write_dataset(prefix, documents):
    """A Megatron-style dataset of uint16 tokens, as small programs elsewhere write it."""
    sizes = [len(document) for document in documents]
    offsets = [2 * sum(sizes[:i]) for i in range(len(sizes))]
    count = len(sizes)
    Path(f"{prefix}.bin").write_bytes(b"".join(struct.pack(f"<{len(d)}H", *d) for d in documents))
    Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count + 1)
        + struct.pack(f"<{count}i", *sizes) + struct.pack(f"<{count}q", *offsets)
        + struct.pack(f"<{count + 1}q", *range(count + 1)))


def write_tiny_dataset(prefix, document_bytes):
    write_dataset(prefix, [[*sentences(n, n).encode(), END_OF_DOCUMENT] for n in document_bytes])
    return prefix


def read_json_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def read_safetensors_header(path):
    data = Path(path).read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", data)
    return json.loads(data[8: 8 + header_bytes])


class CommandLineTest(unittest.TestCase):
    """Each class has a folder of its own with a small dataset and a configuration for it."""

    document_bytes = [20, 90, 150, 240, 400, 700, 1200, 60, 31, 33, 257, 900]

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="dcp-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.dataset = write_tiny_dataset(cls.folder / "text", cls.document_bytes)
        cls.config = cls.folder / "tiny.yaml"
        cls.config.write_text(TINY_CONFIG.format(dataset=cls.dataset, folder=cls.folder / "run"))

    def succeed(self, *arguments, **options):
        result = dcp(*arguments, **options)
        self.assertEqual(result.returncode, 0, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result

    def refuse(self, exit_code, fragments, *arguments, **options):
        """The message is on stderr, is short, and names what a person needs."""
        result = dcp(*arguments, **options)
        self.assertEqual(result.returncode, exit_code,
                         f"{arguments}\n{result.stdout}\n{result.stderr}")
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)
        self.assertLessEqual(len(result.stderr.splitlines()), 3, result.stderr)
        self.assertNotIn("terminate called", result.stderr)
        return result

    def train(self, folder, *settings, config=None):
        """Trains into the given folder and returns the lines of its metrics."""
        options = [part for setting in (f"run.folder={folder}", *settings)
                   for part in ("--set", setting)]
        self.succeed("train", config or self.config, *options)
        return read_json_lines(Path(folder) / "metrics.jsonl")
