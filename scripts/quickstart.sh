#!/usr/bin/env bash
# From a fresh clone to a transformer that has learned from real documents, in a few minutes on two
# cores: installs what is missing, builds, imports documentation that is on this machine, trains on
# two ranks. Running it again reuses the build and the data. Arguments go to `dcp train`, for example
# --set run.iterations=500.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repository"

max_documents=1500
dcp=build/cpu/dcp

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

# At most max_documents of them, evenly spread over the list.
choose_documents() {
    awk -v most="$max_documents" '
        { lines[NR] = $0 }
        END {
            stride = NR > most ? NR / most : 1
            for (i = 0; int(i * stride) < NR; ++i) print lines[int(i * stride) + 1]
        }'
}

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
if [[ -e data/quickstart.idx ]]; then
    echo "data/quickstart is there already"
else
    if (($(list_documents | wc -l) < 100)); then
        need_packages "text to train on" perl-doc
    fi
    mapfile -t documents < <(list_documents | choose_documents)
    mkdir -p data
    "$dcp" data import --out data/quickstart "${documents[@]}"
fi
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
