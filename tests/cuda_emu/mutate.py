#!/usr/bin/env python3
"""Shows that the checks of the CUDA kernels notice mistakes: breaks one thing at a time and runs them.

    mutate.py BUILD [--sample N] [--only TEXT] [--list]
    mutate.py --doc FILE [--write]      compares the table of mutations in FILE with the list, or writes it

BUILD is a build folder in which the emulated tests and test_race_kernels are built. Every mutation of mutations.py
is compiled as the build compiles its kernels, linked in place of the right object, and run. Prints one line a mutation;
exit status 1 when one is not caught by the check that it names. --sample N takes N of them, evenly spread.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from mutations import MUTATIONS, TESTS_OF

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels/cuda"
PLAIN, RACE = "dcp_cuda_emulated", "dcp_cuda_racecheck"
RACE_TEST = "test_race_kernels"
SECONDS = 300  # of one run: a mutant may never end
BEGIN, END = "<!-- made by tests/cuda_emu/mutate.py: begin -->", "<!-- end -->"
CAUGHT_BY = {"values": "wrong values, or an error of the emulator", "conflicts": "count of bank conflicts",
             "race": "thread sanitizer"}
ARGUMENTS = ["--abort", "~[cpu-only]~[planted]"]  # what CTest runs; the first failure is enough


class Build:
    def __init__(self, folder):
        self.folder = folder.resolve()
        self.work = self.folder / "mutants"
        entries = json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8"))
        self.compile = {}
        for entry in entries:
            for library in (PLAIN, RACE):
                if f"/{library}.dir/" in entry["command"] and entry["file"].endswith(".cu"):
                    self.compile[library, Path(entry["file"]).name] = entry["command"]
        self.link = {}
        for test in {test for tests in TESTS_OF.values() for test in tests} | {RACE_TEST}:
            commands = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", test],
                                      capture_output=True, text=True, check=True).stdout.splitlines()
            self.link[test] = next(line for line in commands if re.search(rf"-o \S*{test}(\s|$)", line))

    def object_of(self, library, source, overlay):
        """Compiles a kernel source with the mutated file in front of the others."""
        target = self.work / f"{library}-{source}.o"
        command = shlex.split(self.compile[library, source])
        mutated = overlay / "kernels/cuda" / source
        original = str(KERNELS / source)
        command = [str(mutated) if part == original and mutated.exists() else part for part in command]
        command[command.index("-o") + 1] = str(target)
        for option in ("-MT", "-MF"):
            if option in command:
                place = command.index(option)
                del command[place:place + 2]
        command = [part for part in command if part != "-MD"]
        command.insert(command.index(f"-I{ROOT}"), f"-I{overlay}")
        command.append("-w")  # what a mutation leaves unused is no error
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"a mutant of {source} does not compile:\n{result.stderr[-3000:]}")
        return target

    def program_of(self, library, test, objects):
        archive = self.work / f"lib{library}.a"
        original = self.folder / f"tests/cuda_emu/lib{library}.a"
        subprocess.run(["cp", original, archive], check=True)
        for source, compiled in objects.items():
            renamed = self.work / f"{source}.o"
            compiled.replace(renamed)
            subprocess.run(["ar", "r", archive, renamed], check=True, capture_output=True)
            objects[source] = renamed
        program = self.work / test
        command = self.link[test].replace(str(original.relative_to(self.folder)), str(archive))
        command = re.sub(rf"-o \S*{test}(?=\s|$)", f"-o {program}", command)
        subprocess.run(command, shell=True, cwd=self.folder, check=True, capture_output=True)
        return program


def run(program):
    """(caught, what was said) of one test program."""
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:exitcode=66"}
    try:
        result = subprocess.run([program, *ARGUMENTS], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return True, "did not end"
    said = result.stdout + result.stderr
    if "data race" in said:
        return True, "data race"
    reason = re.search(r"cuda_emu: [^(\n]*", said)
    if not reason and "bank_conflicts" in said and "relative_error" not in said:
        return result.returncode != 0, "bank conflicts"
    return result.returncode != 0, reason.group().strip() if reason else "wrong values"


def try_mutation(build, mutation):
    name, file, old, new, sources, expected = mutation
    overlay = build.work / "overlay"
    subprocess.run(["rm", "-rf", overlay], check=True)
    (overlay / "kernels/cuda").mkdir(parents=True)
    text = (KERNELS / file).read_text(encoding="utf-8")
    if text.count(old) == 0:
        sys.exit(f"{name}: {file} has no longer what this mutation changes")
    (overlay / "kernels/cuda" / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    found = "nothing"
    for library in (PLAIN, RACE):
        objects = {source: build.object_of(library, source, overlay) for source in sources}
        tests = {test: None for source in sources for test in TESTS_OF[source]} if library == PLAIN else [RACE_TEST]
        for test in tests:
            caught, reason = run(build.program_of(library, test, objects))
            if caught:
                kind = "race" if library == RACE else "conflicts" if reason == "bank conflicts" else "values"
                return kind == expected, f"{kind}: {reason}"
    return expected == "nothing", found


def table():
    """What is broken and what catches it, from the list that a run is held against."""
    lines = [BEGIN, "", "| part | broken | caught by | in |", "| --- | --- | --- | --- |"]
    for name, _, _, _, sources, expected in MUTATIONS:
        part, broken = name.split(": ", 1)
        tests = [RACE_TEST] if expected == "race" else sorted({test for source in sources for test in TESTS_OF[source]})
        lines.append(f"| {part} | {broken} | {CAUGHT_BY[expected]} | {', '.join(tests)} |")
    return "\n".join([*lines, "", END])


def compare(document, writes):
    """0 when the document has the table; writes it first when asked to."""
    text = document.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN), text.index(END) + len(END)
    if writes:
        document.write_text(text[:begin] + table() + text[end:], encoding="utf-8")
    elif text[begin:end] != table():
        print(f"{document} is out of date: mutate.py --doc {document} --write", file=sys.stderr)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, nargs="?")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--doc", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.doc:
        return compare(options.doc, options.write)
    if not options.build and not options.list:
        parser.error("BUILD is missing")
    chosen = [mutation for mutation in MUTATIONS if options.only in mutation[0]]
    if options.sample:
        step = max(1, len(chosen) // options.sample)
        chosen = chosen[step // 2::step][:options.sample]
    if options.list:
        print("\n".join(mutation[0] for mutation in chosen))
        return 0
    build = Build(options.build)
    build.work.mkdir(exist_ok=True)
    used = {test for mutation in chosen for source in mutation[4] for test in TESTS_OF[source]}
    for test in sorted(used) + [RACE_TEST]:
        caught, reason = run(build.folder / "tests" / test)
        if caught:
            sys.exit(f"{test} fails without any mutation ({reason}): build and fix it first")
    failures = 0
    for mutation in chosen:
        as_expected, found = try_mutation(build, mutation)
        failures += not as_expected
        print(f"{'ok  ' if as_expected else 'FAIL'} {mutation[0]:64s} {found}", flush=True)
    print(f"{len(chosen)} mutations, {failures} not caught by the check that should")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
