#!/usr/bin/env bash
# Compares `mpirun -np 2 dcp train` on this machine with one rank of two threads and with PyTorch's
# DistributedDataParallel, on ordinary batches and on one that a long sequence dominates, and says
# what sharing a sequence costs (bench/ranks.py says how). Options are passed on: --rounds 7
# --lengths FILE --compiled --parts degrees ...; --help lists them.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

prepare_torch
if [[ " $* " != *" --help "* ]]; then
    step "build dcp"
    need_packages "building dcp" "${build_packages[@]}" "${test_packages[@]}"
    build cpu dcp
fi
export TORCHINDUCTOR_CACHE_DIR="$PWD/build/torch-cache"
exec "$venv/bin/python" -B scripts/bench/ranks.py "$@"
