#!/usr/bin/env bash
# The paper's benchmarks, simulated: scripts/paper/run.sh [--quick] [--out FOLDER]
# Writes CSV files, plots and the report paper.md to FOLDER (build/paper). --quick: a few batches of everything, under a minute.
# DCP=PATH takes an executable that is there; otherwise build/cpu/dcp is built.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
cd "$repository"

if [[ -z "${DCP:-}" ]]; then
    need_packages "building dcp" "${build_packages[@]}"
    build cpu dcp
    DCP="$repository/build/cpu/dcp"
fi
need_packages "plots" "${plot_packages[@]}"
export DCP
for python in python3 /usr/bin/python3; do  # the first may be one that knows nothing of Debian's packages
    if "$python" -c 'import matplotlib' 2>/dev/null; then
        exec "$python" -B scripts/paper/paper.py "$@"
    fi
done
fail "python3 has no matplotlib; Debian has it in python3-matplotlib"
