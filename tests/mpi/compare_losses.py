#!/usr/bin/env python3
"""Two metrics.jsonl of the same training agree: as many iterations, losses to 1e-4."""

import json
import sys
from pathlib import Path

one, other = ([json.loads(line)["loss"] for line in Path(path).read_text().splitlines()]
              for path in sys.argv[1:3])
worst = max(abs(a - b) / a for a, b in zip(one, other)) if one else 0
print(f"{len(one)} and {len(other)} iterations, largest relative difference of the loss {worst:.1e}")
sys.exit(0 if one and len(one) == len(other) and worst < 1e-4 else 1)
