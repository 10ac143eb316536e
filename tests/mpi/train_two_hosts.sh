#!/bin/bash
# `dcp train` over two emulated hosts (two_hosts.sh): the planner sees two nodes, samples and losses
# are those of one rank.
#
#     train_two_hosts.sh DCP MAKE_CONFIG      (MAKE_CONFIG FOLDER writes FOLDER/tiny.yaml and its data)
#
# Ends with code 77 where the system does not let us make network namespaces.
set -eu
dcp=$1
make_config=$2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$make_config" "$folder"
arguments=(train "$folder/tiny.yaml" --set run.iterations=12 --set run.log_samples=true)
"$dcp" "${arguments[@]}" --set "run.folder=$folder/one" >/dev/null

code=0
TWO_HOSTS_TIMEOUT=60 "$here/two_hosts.sh" 2 "$dcp" "${arguments[@]}" --set "run.folder=$folder/four" \
    --set planner.name=random --set batch.micro_batch_tokens=128 >"$folder/out" 2>&1 || code=$?
cat "$folder/out"
((code == 0)) || exit "$code"

grep -q '4 ranks on 2 nodes: 0-1 | 2-3' "$folder/out"
cmp "$folder/one/samples.jsonl" "$folder/four/samples.jsonl"
python3 "$here/compare_losses.py" "$folder/one/metrics.jsonl" "$folder/four/metrics.jsonl"
