# shellcheck shell=bash disable=SC2034  # read by the scripts that source this
# Sourced by the other scripts: where the repository is, how they speak, and how Debian packages
# that are missing get installed. Nothing is downloaded and nothing printed when all are there.

set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# What building needs; what the tests, the lint and the comparison with PyTorch need besides.
build_packages=(g++ cmake ninja-build pkg-config ccache mold
    libfmt-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
    libdnnl-dev opencl-headers ocl-icd-opencl-dev libhwy-dev libxsmm-dev libopenmpi-dev openmpi-bin)
test_packages=(catch2 libboost-context-dev python3)
launch_test_packages=(iproute2 slurm-wlm munge)  # two emulated hosts, a Slurm of one node
lint_packages=(clang-format-14 clang-tidy-19)
comparison_packages=(python3 python3-venv)

step() {
    printf '\n== %s\n' "$*"
}

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

is_installed() {
    [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

run_as_root() {
    if [[ "$(id -u)" == 0 ]]; then
        "$@"
    else
        sudo "$@"
    fi
}

# The package lists may be absent (a fresh container) or older than the archive: they are fetched
# only when an installation fails without them.
apt_install() {
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300
        install --yes --quiet --no-install-recommends "$@")
    if run_as_root "${install[@]}" >/dev/null 2>&1; then
        return
    fi
    echo "fetching the package lists (apt-get update)"
    run_as_root apt-get -o DPkg::Lock::Timeout=300 update --quiet >/dev/null ||
        fail "apt-get update failed: is the network there?"
    run_as_root "${install[@]}" >/dev/null ||
        fail "could not install: $*"
}

# need_packages REASON PACKAGE...: installs those that are missing and says why.
need_packages() {
    local reason="$1" package missing=()
    shift
    if ! command -v dpkg-query >/dev/null; then
        echo "this is not Debian: $reason needs what Debian calls: $*"
        return
    fi
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        return
    fi
    if [[ "$(id -u)" != 0 ]] && ! command -v sudo >/dev/null; then
        fail "$reason needs packages that are missing, and there is neither root nor sudo here;" \
            "have an administrator run: apt-get install ${missing[*]}"
    fi
    echo "installing for $reason: ${missing[*]}"
    apt_install "${missing[@]}"
}

# build PRESET TARGET...: configures where needed and builds in build/PRESET; quiet when it works.
build() {
    local preset="$1" log
    shift
    log="$(mktemp)"
    if ! (cd "$repository" && cmake --preset "$preset") >"$log" 2>&1 ||
        ! (cd "$repository" && cmake --build --preset "$preset" --target "$@") >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        fail "building $* with preset $preset failed (messages above)"
    fi
    tail -n 1 "$log"
    rm -f "$log"
}

skip_comparison() {
    echo "comparison skipped: $*"
    exit 0
}

# Sets venv to an environment with PyTorch: the one DCP_TORCH_VENV names, or build/venv, made here.
# Where PyTorch cannot be had, says so and ends the script.
prepare_torch() {
    venv="${DCP_TORCH_VENV:-build/venv}"
    if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        [[ -z "${DCP_TORCH_VENV:-}" ]] ||
            fail "DCP_TORCH_VENV=$venv has no bin/python that can import torch"
        need_packages "the comparison with PyTorch" "${comparison_packages[@]}"
        step "PyTorch (into $venv; some minutes and 6 GB the first time)"
        python3 -m venv "$venv" || skip_comparison "python3 cannot make a virtual environment in $venv"
        "$venv/bin/pip" install --quiet torch numpy ||
            skip_comparison "PyTorch could not be installed (no network?)"
    fi
    "$venv/bin/python" -c 'import torch; print("PyTorch", torch.__version__)' ||
        skip_comparison "torch does not start"
}
