#!/usr/bin/env bash
# Measures the planner on batches of real lengths: how far its plans are from the bound, and what
# planning takes. Options are passed on: --lengths FILE,... is needed (one length a line; `dcp data
# lengths` writes such files), --batches 10, --cases '64 x 512', --csv FILE, ...; --help lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

need_packages "building the benchmark" "${build_packages[@]}" "${test_packages[@]}"
build cpu bench_plan >/dev/null
exec "$repository/build/cpu/tests/bench/bench_plan" \
    --cost "$repository/configs/costs/flexsp-gpt-7b.yaml" "$@"
