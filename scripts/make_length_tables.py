#!/usr/bin/env python3
"""Makes core/lengths/tables.cpp from files of sequence lengths (one integer a line).

    make_length_tables.py NAME=FILE ... > core/lengths/tables.cpp

A table keeps the quantiles of a file at 1/128, 2/128, ... and, for the longest sixteenth, at shares that
halve what is left in eight steps until one sequence is left: the few longest sequences hold most of the
squared tokens, so they decide what a plan costs. Between two kept quantiles lengths are taken as
equally likely. The files themselves are not part of the repository.
"""

import sys

BODY = 128       # equal shares
TAIL = 1 / 16    # of the sequences: the longest
TAIL_STEPS = 8   # quantiles for each halving of the rest


def shares(count):
    """Rising shares of the sequences, as parts of 2^32."""
    found = [round(i / BODY * 2**32) for i in range(round(BODY * (1 - TAIL)) + 1)]
    rest = TAIL
    step = 0
    while rest > 1 / count:
        step += 1
        rest = TAIL * 2 ** (-step / TAIL_STEPS)
        found.append(round((1 - max(rest, 1 / count)) * 2**32))
    return sorted(set(found))


def table(path):
    with open(path, encoding="utf-8") as file:
        lengths = sorted(int(line) for line in file if line.strip())
    last = len(lengths) - 1
    knots = []
    for share in shares(len(lengths)):
        knots.append((share, lengths[min(last, share * len(lengths) >> 32)]))
    knots.append((2**32 - 1, lengths[-1]))
    return knots, len(lengths)


def main(arguments):
    print("// Made by scripts/make_length_tables.py; do not edit.\n"
          '#include "core/lengths/tables.hpp"\n\n#include <array>\n\nnamespace dcp::lengths {\n\n'
          "namespace {\n\n// clang-format off")
    names = []
    for argument in arguments:
        name, path = argument.split("=", 1)
        identifier = "k" + "".join(part.capitalize() for part in name.split("-")) + "Knots"
        names.append((name, identifier))
        knots, count = table(path)
        print(f"\n// {name}: {count:,} sequences".replace(",", " "))
        print(f"constexpr std::array<Knot, {len(knots)}> {identifier}{{{{")
        for begin in range(0, len(knots), 4):
            print("    " + " ".join(f"{{{share}u, {tokens}}}," for share, tokens in knots[begin:begin + 4]))
        print("}};")
    print("// clang-format on\n\n}  // namespace\n")
    print("std::span<const Knot> quantile_knots(std::string_view name) {")
    for name, identifier in names:
        print(f'    if (name == "{name}") {{\n        return {identifier};\n    }}')
    print("    return {};\n}\n\n}  // namespace dcp::lengths")


if __name__ == "__main__":
    main(sys.argv[1:])
