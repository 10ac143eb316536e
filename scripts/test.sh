#!/usr/bin/env bash
# Builds and runs the tests. Without arguments: unit and house tests, a few minutes on two cores.
# With --all, what continuous integration runs: formatting, clang-tidy, the unit tests under the
# address and undefined-behaviour sanitizers, the command-line, launch and long tests, a sample of the
# mutations of CUDA kernels; where the CUDA toolkit is, also the CUDA build and the registers of its
# kernels. The last summary is that of the main test run.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

all=no
case "${1:-}" in
    "") ;;
    --all) all=yes ;;
    *) fail "unknown argument '$1' (known: --all)" ;;
esac

jobs="$(nproc)"
failed=()

# stage NAME COMMAND...: goes on after a failure, so that one run shows everything that is wrong.
stage() {
    local name="$1" start=$SECONDS
    shift
    step "$name"
    if "$@"; then
        echo "$name: passed in $((SECONDS - start)) s"
    else
        echo "$name: FAILED after $((SECONDS - start)) s"
        failed+=("$name")
    fi
}

our_sources() {
    git ls-files --cached --others --exclude-standard -- "$@" | sort
}

check_format() {
    our_sources '*.cpp' '*.hpp' '*.cu' '*.cuh' 'tests/cuda_emu/include/*.h' | xargs --no-run-if-empty clang-format-14 --dry-run --Werror
}

# Tests are left out: Catch2's macros are not ours to lint, and they would double the time. Clang has
# no omp.h without its own OpenMP runtime, which the build does not need: it reads that of g++, after
# all folders of its own and without GCC's form of an attribute. clang-tidy's messages are shown only
# where it fails, for it counts suppressed warnings there.
tidy_one() {
    local messages omp_h
    omp_h="$(g++ -print-file-name=include/omp.h)"
    messages="$(clang-tidy-19 -p build/cpu --quiet "--extra-arg=-idirafter${omp_h%/*}" \
        '--extra-arg=-D__malloc__(...)=' "$1" 2>&1)" || {
        printf '%s\n' "$messages"
        return 1
    }
}

run_tidy() {
    export -f tidy_one
    # shellcheck disable=SC2016  # $1 is for the inner shell
    our_sources 'apps/*.cpp' 'core/*.cpp' 'kernels/*.cpp' 'comm/*.cpp' |
        xargs --no-run-if-empty -P "$jobs" -I {} bash -c 'tidy_one "$1"' - {}
}

run_sanitized_unit_tests() {
    (build cpu-asan dcp_unit_tests) &&
        ctest --preset cpu-asan --parallel "$jobs"
}

# The program with nvcc's kernels must build, start where there is no driver, and say so.
build_cuda() {
    (build cuda dcp) && build/cuda/dcp --version | grep --quiet 'CUDA is built in' &&
        DCP=build/cuda/dcp python3 -B tests/cli/test_device.py
}

# Breaks a few things in the CUDA kernels: the emulated tests must notice each of them.
try_mutations() {
    python3 -B tests/cuda_emu/mutate.py build/cpu --sample 4
}

need_packages "building and testing dcp" "${build_packages[@]}" "${test_packages[@]}"
if [[ $all == yes ]]; then
    need_packages "formatting and lint" git "${lint_packages[@]}"
    need_packages "tests over two hosts and under Slurm" "${launch_test_packages[@]}"
    prepare_tensorboard
    stage "format (clang-format-14)" check_format
fi
step "build (build/cpu)"
build cpu all
if [[ $all == yes ]]; then
    stage "lint (clang-tidy-19)" run_tidy
    stage "unit tests under sanitizers (build/cpu-asan)" run_sanitized_unit_tests
    stage "mutations of CUDA kernels, a sample" try_mutations
    if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
        stage "CUDA build (build/cuda)" build_cuda
        stage "registers of the CUDA kernels, and the table of them" scripts/cuda_resources.py --doc docs/cuda-kernels.md
    else
        echo "no nvcc here: the CUDA sources are not compiled for GPUs, only run by the emulator"
    fi
    stage "tests" ctest --preset cpu --parallel "$jobs"
else
    stage "tests" ctest --preset fast --parallel "$jobs"
fi

if ((${#failed[@]})); then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
