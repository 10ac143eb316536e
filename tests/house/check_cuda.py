#!/usr/bin/env python3
"""Reads the CUDA sources and reports what may not be there: work on the default stream, runtime calls and launches whose
error nobody looks at, static shared memory (the emulator neither poisons nor bounds it).

    check_cuda.py ROOT      prints one line a finding; exit status 1 when there is any
"""

import re
import sys
from pathlib import Path

FOLDERS = ["kernels/cuda", "core/base/cuda", "comm/nccl"]
SUFFIXES = {".cu", ".cuh", ".cpp", ".hpp"}
COMPAT = "kernels/cuda/compat.cuh"  # where the macros are defined

# Calls without a stream, or that use the default one.
FORBIDDEN = ["cudaMemcpy", "cudaMemset", "cudaMemcpy2D", "cudaMemcpyToSymbol", "cudaMemcpyFromSymbol",
             "cudaDeviceSynchronize", "cudaStreamCreate", "cudaStreamLegacy", "cudaStreamPerThread",
             "cudaStreamDefault"]
# Position of the stream among the arguments.
STREAM_ARGUMENT = {"DCP_LAUNCH": 4, "cudaMemcpyAsync": 4, "cudaMemcpy2DAsync": 7, "cudaMemsetAsync": 3, "cudaEventRecord": 1,
                   "cudaStreamWaitEvent": 0, "cudaStreamSynchronize": 0, "cudaMallocAsync": 2,
                   "cudaFreeAsync": 1}
DEFAULT_STREAMS = {"", "0", "nullptr", "NULL", "{}", "cudaStream_t{}"}


def without_comments(text):
    """Comments and string contents as blanks, so that lines and columns stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def arguments(text, opening):
    """The arguments of a call, given the place of its opening parenthesis."""
    depth, start, found = 0, opening + 1, []
    for place in range(opening, len(text)):
        char = text[place]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                found.append(text[start:place].strip())
                return found
        elif char == "," and depth == 1:
            found.append(text[start:place].strip())
            start = place + 1
    return found


def is_checked_launch(text, place):
    """check_launch() follows before the function ends and before anything else is launched but an alternative."""
    following = text[place:].split("\n}", 1)[0]
    return "check_launch(" in following


def check_file(name, source):
    text = without_comments(source)
    findings = []

    def report(place, problem):
        findings.append(f"{name}:{text.count(chr(10), 0, place) + 1}: {problem}")

    for word in FORBIDDEN:
        for match in re.finditer(rf"\b{word}\b", text):
            report(match.start(), f"{word} works on the default stream or waits for the whole device")
    if name != COMPAT:
        for match in re.finditer(r"<<<", text):
            report(match.start(), "a launch without DCP_LAUNCH")
        for match in re.finditer(r"__shared__", text):
            report(match.start(), "static shared memory: use DCP_SHARED")
    for call, position in STREAM_ARGUMENT.items():
        for match in re.finditer(rf"\b{call}\(", text):
            if text[:match.start()].rstrip().endswith("define"):
                continue
            given = arguments(text, match.end() - 1)
            if len(given) <= position or given[position] in DEFAULT_STREAMS:
                report(match.start(), f"{call} without a stream of its own")
            if call == "DCP_LAUNCH" and not is_checked_launch(text, match.end()):
                report(match.start(), "a launch without check_launch() after it")
    for match in re.finditer(r"[;{}]\s*(cuda[A-Z]\w*)\(", text):
        report(match.start(1), f"the result of {match.group(1)} is ignored: check() it")
    return findings


def check(root):
    findings = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                name = path.relative_to(root).as_posix()
                findings += check_file(name, path.read_text(encoding="utf-8"))
    return findings


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = check(Path(sys.argv[1]))
    print("\n".join(problems) if problems else "every stream is explicit, every call is checked")
    sys.exit(1 if problems else 0)
