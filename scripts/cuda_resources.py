#!/usr/bin/env python3
"""Registers, static shared memory, stack and spills of every CUDA kernel, as the compiler reports them.

    cuda_resources.py [--arch 80,90] [FILE.cu...]     default: all of kernels/cuda, sm_80 and sm_90
    cuda_resources.py --doc FILE [--write]            compares the table in FILE, or writes it

Prints one line a kernel and architecture; exit status 1 when a kernel spills registers or uses a stack or
when FILE has another table, 2 when there is no nvcc. The table adds what cuda_kernel_facts.py knows; where
another nvcc is than the one that the table names, only the kernels are compared, as registers may differ.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cuda_kernel_facts import FACTS

ROOT = Path(__file__).resolve().parent.parent
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
BEGIN, END = "<!-- made by scripts/cuda_resources.py: begin -->", "<!-- end -->"
SHARED_BYTES = {"80": 164 << 10, "90": 228 << 10}  # of a multiprocessor; a block takes 1 KiB more than it asks for


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


def occupancy(arch, threads, registers, shared):
    """Warps that are resident at a time, in percent of the 64 that a multiprocessor has room for: 64 Ki registers, given
    to four warps at a time in units of 256 a warp; 32 blocks."""
    warps = threads // 32
    by_registers = (65536 // (-(-registers // 8) * 8 * 32)) // 4 * 4 // warps
    by_shared = SHARED_BYTES[arch] // (shared + 1024)
    blocks = min(by_registers, by_shared, 64 // warps, 32)
    return round(100 * blocks * warps / 64)


def table(found, version):
    """The lines between the marks; found: {(kernel, arch): registers}."""
    lines = [BEGIN, "", f"Registers as nvcc {version} gives them.", "",
             "| kernel | threads a block | registers sm_80 / sm_90 | shared bytes | occupancy sm_80 / sm_90 "
             "| bytes moved or operations done | fewest | more because |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for fact in FACTS:
        registers = [found[fact.kernel, arch] for arch in ("80", "90")]
        percent = [occupancy(arch, fact.threads, used, fact.shared) for arch, used in zip(("80", "90"), registers)]
        lines.append(f"| {fact.label} | {fact.threads} | {registers[0]} / {registers[1]} | {fact.shared} "
                     f"| {percent[0]} % / {percent[1]} % | {fact.moved} | {fact.fewest} | {fact.because} |")
    return "\n".join([*lines, "", END])


def compare(document, found, version, writes):
    """What is wrong with the table of the document, as lines; writes it first when asked to."""
    compiled = {kernel for kernel, _ in found}
    described = {fact.kernel for fact in FACTS}
    wrong = [f"{kernel} is not in cuda_kernel_facts.py" for kernel in sorted(compiled - described)]
    wrong += [f"{kernel} of cuda_kernel_facts.py does not exist" for kernel in sorted(described - compiled)]
    if wrong:
        return wrong
    text = document.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN), text.index(END) + len(END)
    made = table(found, version)
    if writes:
        document.write_text(text[:begin] + made + text[end:], encoding="utf-8")
    elif f"as nvcc {version} gives" not in text:
        print(f"{document} is of another nvcc than {version}: registers are not compared")
    elif text[begin:end] != made:
        return [f"{document} is out of date: scripts/cuda_resources.py --doc {document} --write"]
    return []


def nvcc_version(nvcc):
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([\d.]+)", said).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="80,90")
    parser.add_argument("--doc", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("sources", nargs="*", type=Path)
    options = parser.parse_args()
    if options.doc and (options.sources or options.arch != "80,90"):
        parser.error("--doc needs all sources and architectures")
    nvcc = find_nvcc()
    if not nvcc:
        print("there is no nvcc here", file=sys.stderr)
        return 2
    failures = 0
    found = {}
    print("| kernel | sm | registers | static shared bytes | stack | spilled bytes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for source in options.sources or sorted((ROOT / "kernels/cuda").glob("*.cu")):
        for arch in options.arch.split(","):
            for name, registers, shared, stack, spilled in report(nvcc, source, arch):
                print(f"| {name} | {arch} | {registers} | {shared} | {stack} | {spilled} |", flush=True)
                failures += stack > 0 or spilled > 0
                found[name, arch] = registers
    if failures:
        print(f"{failures} kernels spill registers or use a stack", file=sys.stderr)
    wrong = compare(options.doc, found, nvcc_version(nvcc), options.write) if options.doc else []
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if failures or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
