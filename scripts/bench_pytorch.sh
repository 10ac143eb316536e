#!/usr/bin/env bash
# Compares whole training iterations of `dcp train` with PyTorch on this machine's processor, in one
# interleaved run (bench/compare.py says how). Options are passed on: --models small --dtypes bf16
# --threads 1 --lengths FILE --rounds 3 --torch-only ...; --help lists them.
# PyTorch comes from a virtual environment in build/venv, made here, or from the one that
# DCP_TORCH_VENV names. Where PyTorch cannot be had, the comparison is skipped with a message.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

prepare_torch
if [[ " $* " != *" --torch-only "* && " $* " != *" --help "* ]]; then
    step "build dcp"
    need_packages "building dcp" "${build_packages[@]}" "${test_packages[@]}"
    build cpu dcp
fi

export TORCHINDUCTOR_CACHE_DIR="$PWD/build/torch-cache"
exec "$venv/bin/python" -B scripts/bench/compare.py "$@"
