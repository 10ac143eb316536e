#!/usr/bin/env python3
"""Every model in configs/ is accepted (`dcp train --print-config`), and says its own parameter count correctly; what
plans with them, and with the clusters, is tests/cli/test_cost.py."""

import os
import re
import subprocess
import unittest
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def model_section(text):
    """`key: value` lines below `model:`; enough for the plain files in configs/."""
    section = re.search(r"^model:\n((?:  .*\n)+)", text, re.MULTILINE).group(1)
    return dict(re.findall(r"^  (\w+): *([^#\s]+)", section, re.MULTILINE))


def parameter_count(m):
    if m["kind"] == "transformer-2d":
        return parameter_count_2d(m)
    h, d, f, layers, vocab = (int(m[key]) for key in ("hidden", "head_dim", "ffn", "layers", "vocab"))
    q_width, kv_width = int(m["heads"]) * d, int(m["kv_heads"]) * d
    norm = 2 * h if m["norm"] == "layernorm" else h
    products = 3 if m["activation"] == "swiglu" else 2
    layer = 2 * h * q_width + 2 * h * kv_width + products * h * f + 2 * norm
    embeddings = vocab * h * (1 if m["tie_embeddings"] == "true" else 2)
    return layers * layer + embeddings + norm


def parameter_count_2d(m):
    """Of STDiT3: 16 h^2 + 19 h + 2 h / heads a block, where the feed-forward block is 4 h wide."""
    h, heads, pairs, text = (int(m[key]) for key in ("hidden", "heads", "layers", "text_width"))
    assert int(m["ffn"]) == 4 * h
    block = 16 * h * h + 19 * h + 2 * (h // heads)
    return 2 * pairs * block + 9 * h * h + (text + 575) * h + 32


class Configs(unittest.TestCase):
    def test_there_are_some(self):
        self.assertGreaterEqual(len(list(CONFIGS.glob("*.yaml"))), 8)

    def test_parameter_counts(self):
        for path in sorted(CONFIGS.glob("*.yaml")):
            with self.subTest(path.name):
                text = path.read_text(encoding="utf-8")
                said = re.search(r"^# Parameters: ([\d,]+)$", text, re.MULTILINE)
                self.assertIsNotNone(said, "no line '# Parameters: N'")
                self.assertEqual(int(said.group(1).replace(",", "")),
                                 parameter_count(model_section(text)))

    def test_accepted(self):
        for path in sorted(CONFIGS.glob("*.yaml")):
            with self.subTest(path.name):
                result = subprocess.run([os.environ["DCP"], "train", path, "--print-config"],
                                        capture_output=True, text=True, timeout=20, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"hidden: {model_section(path.read_text())['hidden']}",
                              result.stdout)


if __name__ == "__main__":
    unittest.main()
