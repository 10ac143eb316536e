#!/usr/bin/env bash
# From a fresh clone to a transformer that has learned from real documents, in a few minutes on two
# cores: installs what is missing, builds, imports documentation that is on this machine, trains on
# two ranks. Running it again reuses the build and the data. Arguments go to `dcp train`, for example
# --set run.iterations=500.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

dcp=build/cpu/dcp

# Sets launcher to what starts two ranks, each with half of the processors; to nothing where there is
# but one processor. Containers run everything as root, which mpirun refuses unless told otherwise.
choose_launcher() {
    launcher=()
    if (($(nproc) > 1)); then
        launcher=(mpirun -np 2 --bind-to none --oversubscribe)
        export OMPI_MCA_mpi_yield_when_idle=1
        if [[ "$(id -u)" == 0 ]]; then
            export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        fi
    fi
}

step "1/6 packages"
need_packages "building dcp" "${build_packages[@]}" "${test_packages[@]}"
echo "all there"

step "2/6 build (build/cpu)"
build cpu dcp

step "3/6 import documents as bytes"
import_documents "$dcp"
"$dcp" data inspect data/quickstart

choose_launcher
train=("${launcher[@]}" "$dcp" train configs/quickstart.yaml "$@")
step "4/6 train: ${train[*]}"
mkdir -p runs
log=runs/quickstart.log
trap 'rm -f "$log"' EXIT
"${train[@]}" | tee "$log"

step "5/6 what was planned, and what it learned"
python3 -B scripts/plan_summary.py runs/quickstart/metrics.jsonl
awk '
    /^start / { for (i = 1; i <= NF; ++i) if ($i == "validation") start = $(i + 1) }
    /^baseline / { for (i = 1; i <= NF; ++i) if ($i == "loss") baseline = $(i + 1) }
    /^iteration / { for (i = 1; i <= NF; ++i) if ($i == "validation") end = $(i + 1) }
    END {
        print "loss on documents that were held out, in nats a byte:"
        printf "  %8.4f  before training\n", start
        printf "  %8.4f  a model that knows only how frequent each byte is\n", baseline
        printf "  %8.4f  after training\n", end
    }' "$log"

step "6/6 evaluate on other text (README.md and docs/), export for Hugging Face transformers"
"$dcp" data import --out data/quickstart-docs README.md docs
"$dcp" eval --weights runs/quickstart/weights --dataset data/quickstart-docs
"$dcp" export --run runs/quickstart --out runs/quickstart/exported
echo "the loss of every iteration is in runs/quickstart/metrics.jsonl"
