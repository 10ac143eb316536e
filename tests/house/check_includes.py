#!/usr/bin/env python3
"""Reads every #include of the repository and reports those that the layers of the design forbid.

A folder may include itself and the folders listed for it here; nothing else of ours. Headers of a
library that not everybody may use (LIBRARIES) are allowed only in the folders listed for it. Files
have a length limit, and none may name a place on one particular machine.

    check_includes.py ROOT      prints one line a finding; exit status 1 when there is any
"""

import re
import sys
from pathlib import Path

BASE = ["core/base"]
LAYERS = {
    "core/base": [],
    "core/config": BASE,
    "core/plan": BASE,
    "core/plan/lp": ["core/plan", *BASE],
    "core/data": BASE,
    "core/lengths": BASE,
    "comm": BASE,
    "comm/local": ["comm", *BASE],
    "comm/mpi": ["comm", *BASE],
    "comm/nccl": ["comm", *BASE],
    "kernels": ["kernels/cpu", "kernels/cuda", *BASE],
    "kernels/cpu": ["kernels", *BASE],
    "kernels/cuda": ["kernels", *BASE],
    "core/model": ["core/config", "kernels", "comm", *BASE],
    "core/profile": ["core/config", "core/model", "core/plan", "kernels", "comm", *BASE],
    "core/sim": ["core/config", "core/lengths", "core/plan", "core/profile", *BASE],
    "core/train": ["core/config", "core/model", "core/data", "core/plan", "core/profile", "kernels",
                   "comm", "comm/local", *BASE],
    "apps/dcp": ["core/train", "core/sim", "core/profile", "core/model", "core/data", "core/lengths",
                 "core/plan", "core/plan/lp", "core/config", "kernels", "comm", "comm/local",
                 "comm/mpi", *BASE],
}

# Header pattern -> folders that may include it.
LIBRARIES = {
    r"mpi\.h": ["comm/mpi"],
    r"nccl.*\.h": ["comm/nccl"],
    r"(cuda|cublas|cudnn|curand|nvtx|cub/|thrust/).*": ["kernels/cuda", "comm/nccl",
                                                        "core/base/cuda"],
    r"(omp\.h|oneapi/dnnl/.*|dnnl.*|libxsmm.*)": ["kernels/cpu"],
    r"hwy/.*": ["kernels/cpu", "tests"],
    r"CLI/.*": ["apps/dcp", "tests/bench"],
    r"yaml-cpp/.*": ["core/config"],
    r"(Clp|Coin|Cbc|Osi).*": ["core/plan/lp", "tests/bench"],
    r"zlib\.h": ["core/data", "tests"],
    r"catch2/.*": ["tests"],
}

MAX_LINES = 600
MAX_LINES_TESTS = 800
SOURCE_SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}
TOP_FOLDERS = ("apps", "core", "kernels", "comm", "tests")
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh", ".txt", ".json", ".yaml", ".md", ".supp", ""}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
MACHINE_PATH = re.compile(r"(?<![\w.])/(home/\w|root/|work/|workspace/|Users/\w|mnt/)")


def folder_of(path, known):
    """The longest known folder that holds the path; None when there is none."""
    parts = Path(path).parts
    for length in range(len(parts), 0, -1):
        folder = "/".join(parts[:length])
        if folder in known:
            return folder
    return None


def check_own_include(source, included):
    if source.parts[0] == "tests":
        return None
    owner = folder_of(source.parent, LAYERS)
    target = folder_of(Path(included).parent, LAYERS)
    if target is None:
        return f'"{included}" is in no layer (give the path from the repository root)'
    if target != owner and target not in LAYERS[owner]:
        return f'{owner} must not include {target} ("{included}")'
    return None


def library_folders(included):
    """The folders that may include this library header; None when it is nothing restricted."""
    for pattern, folders in LIBRARIES.items():
        if re.fullmatch(pattern, included):
            return folders
    return None


def check_source(root, source):
    findings = []
    lines = (root / source).read_text(encoding="utf-8").splitlines()
    limit = MAX_LINES_TESTS if source.parts[0] == "tests" else MAX_LINES
    if len(lines) > limit:
        findings.append(f"{source}: {len(lines)} lines; the limit is {limit}: split it")
    if source.parts[0] != "tests" and folder_of(source.parent, LAYERS) is None:
        findings.append(f"{source}: the folder is no layer of the design")
        return findings
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, included = match.groups()
        problem = None
        folders = library_folders(included)
        if folders is not None:
            if not any(source.is_relative_to(folder) for folder in folders):
                problem = f"{included} belongs only under {', '.join(folders)}"
        elif kind == '"':
            problem = check_own_include(source, included)
        elif included.startswith(tuple(top + "/" for top in TOP_FOLDERS)):
            problem = f'<{included}> is ours: write "{included}"'
        if problem:
            findings.append(f"{source}:{number}: {problem}")
    return findings


def check_paths(root, file):
    text = (root / file).read_text(encoding="utf-8", errors="replace")
    return [f"{file}:{number}: names a place on one machine: {line.strip()}"
            for number, line in enumerate(text.splitlines(), 1) if MACHINE_PATH.search(line)]


def our_files(root):
    skipped = {".git", "build", "runs", "data", ".venv", "__pycache__"}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not skipped.intersection(relative.parts[:1]) \
                and "__pycache__" not in relative.parts:
            yield relative


def check(root):
    findings = []
    for file in our_files(root):
        if file.suffix in SOURCE_SUFFIXES and file.parts[0] in TOP_FOLDERS:
            findings += check_source(root, file)
        if file.suffix in TEXT_SUFFIXES and file.parts[:2] != ("tests", "house"):
            findings += check_paths(root, file)
    return findings


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = check(Path(sys.argv[1]))
    print("\n".join(problems) if problems else "every include is allowed")
    sys.exit(1 if problems else 0)
