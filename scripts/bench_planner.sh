#!/usr/bin/env bash
# Measures the planner on batches of real lengths: how far its plans are from the bound, what
# planning takes, and how other planners do. Options are passed on to bench_plan: --lengths FILE,...
# is needed (one length a line; `dcp data lengths` writes such files), --tables gaps,blame,rivals,growth
# --batches 10 --cases '64 x 512' ...; --help lists them. With --csv FILE every measurement is written,
# and plotted beside it as FILE.png.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

need_packages "building the benchmark" "${build_packages[@]}" "${test_packages[@]}"
build cpu bench_plan >/dev/null
"$repository/build/cpu/tests/bench/bench_plan" \
    --cost "$repository/configs/costs/flexsp-gpt-7b.yaml" "$@"

csv=""
while (($#)); do
    case "$1" in
        --csv) csv="${2:-}" ;;
        --csv=*) csv="${1#--csv=}" ;;
    esac
    shift
done
if [[ -n "$csv" ]]; then
    need_packages "the plot" "${plot_packages[@]}"
    /usr/bin/python3 -B "$repository/scripts/bench/plot_planner.py" "$csv" "$csv.png"
fi
