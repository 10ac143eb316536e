#!/bin/bash
# Whatever goes wrong on one rank: all processes are gone within 10 seconds, the exit code tells, and
# there is one line that says what it was.
#
#     faults.sh MPIRUN PROGRAM [REPEATS]
set -u
mpirun=$1
program=$2
repeats=${3:-1}
limit_ms=10000
failures=0
slowest_ms=0

# expect MODE RANK CODE LINE [LINES]: exit code CODE ("any": not 0) and LINES (1) lines of ours, one of them with LINE
# (empty: whatever is said).
expect() {
    local mode=$1 rank=$2 code=$3 line=$4 wanted=${5:-1} mark="fault-$$-$RANDOM" problem=""
    local output start end got lines
    start=$(date +%s%N)
    output=$(timeout -k 5 40 "$mpirun" --oversubscribe --bind-to none -np 3 "$program" "$mode" "$rank" "$mark" 2>&1)
    got=$?
    end=$(date +%s%N)
    local ms=$(((end - start) / 1000000))
    ((ms > slowest_ms)) && slowest_ms=$ms
    ((ms > limit_ms)) && problem+=" took $ms ms;"
    if [[ $code == any ]]; then
        ((got == 0)) && problem+=" exit code 0;"
    elif ((got != code)); then
        problem+=" exit code $got, not $code;"
    fi
    lines=$(grep -c '^dcp: ' <<<"$output")
    if [[ -n $line ]]; then
        grep -q "^dcp: .*$line" <<<"$output" || problem+=" no line with '$line';"
        ((lines == wanted)) || problem+=" $lines lines of ours;"
    fi
    if pgrep -f -- "$mark" >/dev/null; then
        problem+=" a process is left;"
    fi
    if [[ -n $problem ]]; then
        failures=$((failures + 1))
        printf 'FAILED %s on rank %s:%s\n%s\n' "$mode" "$rank" "$problem" "$output"
    else
        printf 'ok     %s on rank %s: exit code %s after %s ms\n' "$mode" "$rank" "$got" "$ms"
    fi
}

for ((repeat = 0; repeat < repeats; ++repeat)); do
    for rank in 0 2; do
        expect throw $rank 2 "rank $rank: data/train.bin ends early"
        expect pending $rank 3 "the loss is not finite"
        expect kill $rank any ""
        expect exit $rank any ""
    done
    expect leave 1 3 "an error that nobody catches" 2
    expect disagree 2 2 "the configuration is not the same on every rank: world rank 2 differs"
done

# A launcher that this MPI does not understand.
output=$(SLURM_STEP_NUM_TASKS=4 timeout -k 5 40 "$program" throw 0 alone 2>&1)
if [[ $? != 2 || $output != *"srun --mpi=pmix"* ]]; then
    failures=$((failures + 1))
    printf 'FAILED launcher check: %s\n' "$output"
fi

printf 'slowest end: %s ms, from start to the last process gone\n' "$slowest_ms"
exit $((failures > 0))
