#!/usr/bin/env python3
"""make_config.py FOLDER: the tiny configuration and data of the command-line tests, for scripts."""

import sys
from pathlib import Path

from support import TINY_CONFIG, CommandLineTest, write_tiny_dataset

folder = Path(sys.argv[1])
dataset = write_tiny_dataset(folder / "text", CommandLineTest.document_bytes)
(folder / "tiny.yaml").write_text(TINY_CONFIG.format(dataset=dataset, folder=folder / "run"))
