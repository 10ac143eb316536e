#!/bin/bash
# Runs a program under mpirun over two hosts that are really two network namespaces of this machine:
# own addresses, own host names, own /dev/shm, so that MPI sees two nodes and talks TCP between them.
#
#     two_hosts.sh [-r RATE] RANKS_PER_HOST PROGRAM [ARGUMENT...]       (RATE such as 2gbit limits each host's link)
#
# Needs root and the right to make namespaces: ends with code 77 (skipped) and says so where the system refuses.
# What it makes is named after its own process and removed at the end.
set -u
rate=""
if [[ ${1:-} == -r ]]; then
    rate=$2
    shift 2
fi
ranks=$1
shift
tag=dcp$$
subnet=10.$((100 + $$ % 100)).$(($$ / 100 % 250))
folder=$(mktemp -d)

clean_up() {
    for host in 0 1; do
        ip netns del "$tag-$host" 2>/dev/null
    done
    ip link del "${tag}b" 2>/dev/null
    rm -rf "$folder"
}
trap clean_up EXIT

skip() {
    echo "skipped: $1"
    exit 77
}

command -v ip >/dev/null || skip "no ip command"
ip link add "${tag}b" type bridge 2>"$folder/why" || skip "no bridge: $(<"$folder/why")"
ip addr add "$subnet.1/24" dev "${tag}b"
ip link set "${tag}b" up
for host in 0 1; do
    ip netns add "$tag-$host" 2>"$folder/why" || skip "no network namespace: $(<"$folder/why")"
    ip link add "${tag}v$host" type veth peer name eth0 netns "$tag-$host" || skip "no veth pair"
    ip link set "${tag}v$host" master "${tag}b" up
    ip -n "$tag-$host" addr add "$subnet.$((10 + host))/24" dev eth0
    ip -n "$tag-$host" link set eth0 up
    ip -n "$tag-$host" link set lo up
    if [[ -n $rate ]]; then
        ip netns exec "$tag-$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms ||
            skip "no traffic shaping"
    fi
done

# What mpirun takes for ssh: "agent ADDRESS COMMAND..." enters that host.
cat >"$folder/agent" <<END
#!/bin/bash
host=\$((\${1##*.} - 10))
shift
exec ip netns exec $tag-\$host unshare --uts --mount bash -c '
    hostname $tag-host'\$host'
    mount -t tmpfs tmpfs /dev/shm
    mkdir -p $folder/tmp-'\$host'
    export TMPDIR=$folder/tmp-'\$host' OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    eval "\$@"' agent "\$@"
END
chmod +x "$folder/agent"

timeout -k 5 "${TWO_HOSTS_TIMEOUT:-120}" mpirun --allow-run-as-root \
    --host "$subnet.10:$ranks,$subnet.11:$ranks" -np $((2 * ranks)) --oversubscribe --bind-to none \
    --mca plm_rsh_agent "$folder/agent" --mca oob_tcp_if_include "$subnet.0/24" \
    --mca btl_tcp_if_include "$subnet.0/24" --mca btl vader,tcp,self "$@"
