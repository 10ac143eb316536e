#!/usr/bin/env python3
"""Registers, static shared memory, stack and spills of every CUDA kernel, as the compiler reports them.

    cuda_resources.py [--arch 80,90] [FILE.cu...]     default: all of kernels/cuda, sm_80 and sm_90

Prints one line a kernel and architecture; exit status 1 when a kernel spills registers or uses a stack,
2 when there is no nvcc. Dynamic shared memory is chosen at the launch and not part of the report.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def find_nvcc():
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def short_name(mangled):
    """attention_dq_kernel<bf16, 64> from the compiler's symbol."""
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout
    name = re.sub(r"\(anonymous namespace\)::|dcp::kernels::cuda::|\bvoid |__nv_", "", name)
    name = re.sub(r"\((?:int|bool)\)", "", name)
    return re.sub(r"\(.*", "", name.strip()).replace("bfloat16", "bf16")


def report(nvcc, source, arch):
    """The kernels of one source: (name, registers, static shared bytes, stack bytes, spilled bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [nvcc, "-std=c++20", "-O3", f"-arch=sm_{arch}", "-cubin", "-Xptxas", "-v", f"-I{ROOT}",
             "-o", f"{folder}/kernel.cubin", str(source)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr)
    kernels = []
    name, stack, spilled = "", 0, 0
    for line in result.stderr.splitlines():
        if entry := ENTRY.search(line):
            name = short_name(entry.group(1))
        elif frame := FRAME.search(line):
            stack, spilled = int(frame.group(1)), int(frame.group(2)) + int(frame.group(3))
        elif (used := USED.search(line)) and name:
            shared = SHARED.search(line)
            kernels.append((name, int(used.group(1)), int(shared.group(1)) if shared else 0, stack,
                            spilled))
            name = ""
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="80,90")
    parser.add_argument("sources", nargs="*", type=Path)
    options = parser.parse_args()
    nvcc = find_nvcc()
    if not nvcc:
        print("there is no nvcc here", file=sys.stderr)
        return 2
    failures = 0
    print("| kernel | sm | registers | static shared bytes | stack | spilled bytes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for source in options.sources or sorted((ROOT / "kernels/cuda").glob("*.cu")):
        for arch in options.arch.split(","):
            for name, registers, shared, stack, spilled in report(nvcc, source, arch):
                print(f"| {name} | {arch} | {registers} | {shared} | {stack} | {spilled} |", flush=True)
                failures += stack > 0 or spilled > 0
    if failures:
        print(f"{failures} kernels spill registers or use a stack", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
