#!/usr/bin/env bash
# Real runs on this machine (docs/measured.md). Options are passed on; --help lists them.
#   scripts/bench_loop.sh [--distributions short --ranks 2 --rounds 5 ...]
#       all planners side by side, beside what the simulator predicts for this machine, and how far
#       predictions were from what was measured (bench/loop.py)
#   scripts/bench_loop.sh disturbed [--parts neighbour,switch ...]
#       a process that takes a processor away, and lengths that change: what correction does about it
#       (bench/disturbed.py), with figures in build/bench-loop
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

part=loop
if [[ "${1:-}" == disturbed ]]; then
    part=disturbed
    shift
fi
if [[ " $* " == *" --help "* ]]; then
    exec python3 -B "scripts/bench/$part.py" --help
fi
step "build dcp"
need_packages "building dcp" "${build_packages[@]}" "${test_packages[@]}"
build cpu dcp
step "text"
import_documents build/cpu/dcp
step "runs"
python3 -B "scripts/bench/$part.py" "$@"
if [[ $part == disturbed ]]; then
    /usr/bin/python3 -B scripts/bench/plot_disturbed.py build/bench-loop
fi
