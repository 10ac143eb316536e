# shellcheck shell=bash disable=SC2034  # read by the scripts that source this
# Sourced by the other scripts: where the repository is, how they speak, and how Debian packages
# that are missing get installed. Nothing is downloaded and nothing printed when all are there.

set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# What building needs; what the tests, the lint and the comparison with PyTorch need besides.
build_packages=(g++ cmake ninja-build pkg-config ccache mold
    libfmt-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
    libdnnl-dev opencl-headers ocl-icd-opencl-dev libhwy-dev libxsmm-dev coinor-libclp-dev
    libopenmpi-dev openmpi-bin)
test_packages=(catch2 libboost-context-dev python3 python3-matplotlib coinor-libcbc-dev)
launch_test_packages=(iproute2 slurm-wlm munge)  # two emulated hosts, a Slurm of one node
plot_packages=(python3 python3-matplotlib)
lint_packages=(clang-format-14 clang-tidy-19)
comparison_packages=(python3 python3-venv)
tensorboard_packages=(python3 python3-venv)

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

# Makes build/tensorboard-venv, where a test finds TensorBoard to read our event files with. Without a
# network that test is skipped.
prepare_tensorboard() {
    local venv="build/tensorboard-venv"
    if ! "$venv/bin/python" -c 'import tensorboard' 2>/dev/null; then
        need_packages "reading event files with TensorBoard" "${tensorboard_packages[@]}"
        step "TensorBoard (into $venv; 180 MB the first time)"
        if ! python3 -m venv "$venv" || ! "$venv/bin/pip" install --quiet tensorboard; then
            echo "TensorBoard could not be installed (no network?): its test will be skipped"
        fi
    fi
}

# Manual pages where there are any (minimal images leave them out), else Perl's documentation, which
# is plain files of 1 kB to 500 kB. Sorted, so that the same machine gives the same dataset.
list_documents() {
    local pages
    pages="$(find /usr/share/man/man[1-8] -type f -name '*.gz' -size +0 2>/dev/null | sort || true)"
    if (($(wc -l <<<"$pages") >= 500)); then
        echo "$pages"
    else
        find /usr/share/perl /usr/lib/*/perl -type f -name "*.pod" 2>/dev/null | sort || true
    fi
}

# choose_documents MOST: at most so many of them, evenly spread over the list.
choose_documents() {
    awk -v most="$1" '
        { lines[NR] = $0 }
        END {
            stride = NR > most ? NR / most : 1
            for (i = 0; int(i * stride) < NR; ++i) print lines[int(i * stride) + 1]
        }'
}

# import_documents DCP: documentation that is on this machine, as bytes, into data/quickstart.
import_documents() {
    local dcp="$1" documents
    if [[ -e data/quickstart.idx ]]; then
        echo "data/quickstart is there already"
        return
    fi
    if (($(list_documents | wc -l) < 100)); then
        need_packages "text to train on" perl-doc
    fi
    mapfile -t documents < <(list_documents | choose_documents 1500)
    mkdir -p data
    "$dcp" data import --out data/quickstart "${documents[@]}"
}
