#!/bin/bash
# `dcp train` under a real Slurm of one node, this machine: srun, a batch script, mpirun inside an
# allocation, and a srun that Open MPI cannot talk to.
#
#     one_node.sh DCP MAKE_CONFIG      (MAKE_CONFIG FOLDER writes FOLDER/tiny.yaml and its data)
#
# munged, slurmctld and slurmd run from a folder of their own, with ports of their own, beside a Slurm
# that may be here already; at the end they are stopped by their process ids. Needs root. Ends with
# code 77 where Slurm cannot be started.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# Where this was started inside an allocation, its variables are not ours.
for variable in $(compgen -e SLURM_) $(compgen -e SBATCH_) $(compgen -e OMPI_COMM_) $(compgen -e PMIX_); do
    unset "$variable"
done

dcp=$1
make_config=$2
folder=$(mktemp -d)
host=$(hostname -s)
failures=0

stop() {
    local file pid
    for file in slurmd slurmctld munged; do
        [[ -f $folder/run/$file.pid ]] || continue
        pid=$(<"$folder/run/$file.pid")
        kill "$pid" 2>/dev/null || continue
        for _ in {1..50}; do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT

skip() {
    echo "skipped: $1"
    exit 77
}

write_configuration() {
    local processors
    processors=$(nproc)
    cat >"$folder/slurm.conf" <<END
ClusterName=dcp
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$((20000 + $$ % 10000))
SlurmdPort=$((30000 + $$ % 10000))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.sock
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
TmpFS=$folder/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$processors CoresPerSocket=$processors RealMemory=500
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:8
END
}

start() {
    mkdir -p "$folder"/{run,state,spool,tmp}
    chmod 755 "$folder" "$folder/run"
    write_configuration
    export SLURM_CONF="$folder/slurm.conf"
    dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none
    chmod 600 "$folder/munge.key"
    munged --force --key-file="$folder/munge.key" --socket="$folder/run/munge.sock" \
        --pid-file="$folder/run/munged.pid" --log-file="$folder/munged.log" \
        --seed-file="$folder/munged.seed" 2>&1 || skip "munged does not start"
    slurmctld -c || skip "slurmctld does not start"
    slurmd -c -N "$host" || skip "slurmd does not start"
    for _ in {1..50}; do
        [[ $(timeout 5 sinfo --noheader --format=%t 2>/dev/null) == idle* ]] && return
        sleep 0.2
    done
    tail -n 5 "$folder"/*.log
    skip "the node does not become idle within 10 s"
}

# check NAME COMMAND...: goes on after a failure.
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok     $name"
    else
        echo "FAILED $name"
        failures=$((failures + 1))
    fi
}

# same_training RUN: samples and losses are those of one rank.
same_training() {
    cmp "$folder/one/samples.jsonl" "$folder/$1/samples.jsonl" &&
        python3 -B "$repository/tests/mpi/compare_losses.py" "$folder/one/metrics.jsonl" "$folder/$1/metrics.jsonl"
}

srun_trains() {
    timeout -k 5 60 srun --mpi=pmix -n2 "${train[@]}" --set "run.folder=$folder/srun" >"$folder/out" 2>&1 ||
        { cat "$folder/out" && return 1; }
    sed -n '/^device/p; /^ranks/p; $p' "$folder/out"
    grep -q '2 ranks on 1 node: 0-1' "$folder/out" && same_training srun
}

srun_without_pmix_says_so() {
    local code=0
    timeout -k 5 60 srun --mpi=none -n2 "${train[@]}" --set "run.folder=$folder/none" >"$folder/out" 2>&1 || code=$?
    cat "$folder/out"
    ((code == 2)) && [[ $(grep -c '^dcp: error: .*srun --mpi=pmix' "$folder/out") == 1 && ! -e $folder/none ]]
}

srun_of_one_needs_no_pmix() {
    timeout -k 5 60 srun --mpi=none -n1 "${train[@]}" --set "run.folder=$folder/single" >"$folder/out" 2>&1 &&
        same_training single
}

batch_trains() {
    cat >"$folder/job.sh" <<END
#!/bin/bash
#SBATCH --ntasks=2 --time=00:02:00 --output=$folder/job.out
set -e
srun --mpi=pmix ${train[*]} --set run.folder=$folder/batch
mpirun --oversubscribe --bind-to none ${train[*]} --set run.folder=$folder/mpirun
END
    timeout -k 5 90 sbatch --wait "$folder/job.sh" >"$folder/out" 2>&1 ||
        { cat "$folder/out" "$folder/job.out" && return 1; }
    grep '^ranks' "$folder/job.out"
    [[ $(grep -c '2 ranks on 1 node: 0-1' "$folder/job.out") == 2 ]] && same_training batch && same_training mpirun
}

# A rank that fails ends the others and the step with the error's code.
one_line_for_a_mistake() {
    local code=0
    timeout -k 5 60 srun --mpi=pmix -n2 "${train[@]}" --set model.hiden=3 >"$folder/out" 2>&1 || code=$?
    cat "$folder/out"
    ((code != 0)) && [[ $(grep -c '^dcp: error: .*model.hiden' "$folder/out") == 1 ]]
}

scancel_stops_at_a_boundary() {
    timeout -k 5 60 srun --mpi=pmix -n2 "${train[@]}" --set "run.folder=$folder/stopped" \
        --set run.iterations=1000000 >"$folder/out" 2>&1 &
    local process=$! code=0
    for _ in {1..200}; do
        [[ -s $folder/stopped/metrics.jsonl ]] && break
        sleep 0.1
    done
    scancel --signal=TERM "$(squeue --noheader --format=%i | head -n 1)"
    wait "$process" || code=$?
    tail -n 2 "$folder/out"
    ((code == 0)) && grep -q 'stopped by SIGTERM' "$folder/out" && [[ -s $folder/stopped/weights/model.safetensors ]]
}

[[ $(id -u) == 0 ]] || skip "needs root"
need_packages "the test under Slurm" "${launch_test_packages[@]}"
command -v slurmctld slurmd munged srun >/dev/null || skip "no Slurm here"
start
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=PASSIVE
"$make_config" "$folder"
train=("$dcp" train "$folder/tiny.yaml" --set run.iterations=12 --set run.log_samples=true
    --set run.threads=auto)
"$dcp" "${train[@]:1}" --set "run.folder=$folder/one" >/dev/null

check "srun --mpi=pmix" srun_trains
check "srun without PMIx" srun_without_pmix_says_so
check "srun of one task without PMIx" srun_of_one_needs_no_pmix
check "sbatch: srun, and mpirun inside the allocation" batch_trains
check "a mistake under srun" one_line_for_a_mistake
check "scancel --signal=TERM" scancel_stops_at_a_boundary
exit $((failures > 0))
