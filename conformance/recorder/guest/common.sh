# Shared by every scenario. Full paths: the guest's shell would prefer its own, smaller ip and tc.
ip=${ip:-/usr/bin/ip}
tc=${tc:-/usr/bin/tc}
loader=${loader:-/usr/bin/debloat-record}
object=${object:-/recorder.bpf.o}
# In which namespace the qdisc under test is: "-n NAME", or nothing.
within=
say() { echo "debloat: $*" > "${console:-/dev/console}"; }
die() { say "FAILED $*"; echo "FAILED $*"; exit 1; }
# run WHAT...: a command that must work
run() { echo "+ $*"; "$@" || die "$*"; }
on() { ns=$1; shift; echo "+ [$ns] $*"; $ip netns exec "$ns" "$@" || die "[$ns] $*"; }

hosts() { # the row client - middlebox - server; interfaces c0-m0 and m1-s0
    for n in c m s; do run $ip netns add $n; run $ip -n $n link set lo up; done
    run $ip link add c0 netns c type veth peer name m0 netns m
    run $ip link add m1 netns m type veth peer name s0 netns s
    on m sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'
    for n in c m s; do on $n sh -c 'echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad'; done
}

# what the qdisc under test still holds
backlog() { $tc $within -s qdisc show dev "$qdev" | grep -A2 "qdisc $qkind $qhandle" | grep -o 'backlog [^ ]* [0-9]*p' | tail -1; }

drain() { # wait until the qdisc under test is empty
    for i in $(seq 100); do
        case $(backlog) in *' 0p') return ;; esac
        sleep 0.1
    done
    die "the queue did not drain: $(backlog)"
}

uptime_now() { cut -d' ' -f1 /proc/uptime >> "$1"; }

# statistics SUFFIX: text and JSON of the qdisc under test, as tc prints them, and when. The pause keeps the reading
# apart from earlier ones: the times have hundredths of a second.
statistics() {
    sleep 0.03
    uptime_now "$out/tc$1.times"
    $tc $within -s -d qdisc show dev "$qdev" > "$out/tc$1.txt" || die "tc -s -d qdisc show"
    uptime_now "$out/tc$1.times"
    sleep 0.03
    $tc $within -s -d -j qdisc show dev "$qdev" > "$out/tc$1.json" || die "tc -s -d -j qdisc show"
    uptime_now "$out/tc$1.times"
}

recorder() { # recorder KINDS RING_MIB: start it and wait until it is attached
    "$loader" -k "$1" -O "$object" -o "$out/records" -m "$2" -R "$out/ready" 2> "$out/recorder.log" &
    recorder_id=$!
    for i in $(seq 900); do
        [ -e "$out/ready" ] && return
        kill -0 $recorder_id 2> /dev/null || { cat "$out/recorder.log"; die "recorder: $(tail -n 1 "$out/recorder.log")"; }
        sleep 0.1
    done
    die "recorder: not attached after 90 s"
}

recorder_stop() {
    kill -TERM $recorder_id
    wait $recorder_id || { cat "$out/recorder.log"; die "recorder: $(tail -n 1 "$out/recorder.log")"; }
}
