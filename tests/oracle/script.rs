//! A shell script that reproduces a scene with common programs.

use crate::oracle::claims::{False, Subject};
use crate::oracle::packets::Packet;
use crate::oracle::question;
use crate::oracle::scene::{self, Setup};
use crate::support::traffic::Protocol;
use mesh::Capture;
use std::fmt::Write as _;

const START: &str = r#"# Needs root, ip, nft, iptables, python3, and sidecar-init on PATH or in SIDECAR_INIT.
set -u
if [ -z "${APART-}" ]; then APART=1 exec unshare --net bash "$0"; fi
sidecar=${SIDECAR_INIT:-sidecar-init}
unshare --net sleep 60 </dev/null >/dev/null 2>&1 &
outside=$!
trap 'kill $(jobs -p)' EXIT
until [ "$(readlink /proc/$outside/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
out() { nsenter -t $outside -n "$@"; }
"#;

const LISTENER: &str = r#"listener='
import ctypes, select, socket, sys
name, uid, gid, ears = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), {}
libc = ctypes.CDLL(None)
libc.setfsgid(gid); libc.setfsuid(uid)
for port in sys.argv[4:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET6, kind)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.setsockopt(socket.IPPROTO_IP, 19, 1)  # IP_TRANSPARENT, for TPROXY
        s.bind(("::", int(port)))
        if kind == socket.SOCK_STREAM: s.listen()
        ears[s] = (kind, port)
print(name, "listens", flush=True)
while True:
    for s in select.select(ears, [], [])[0]:
        kind, port = ears[s]
        if kind == socket.SOCK_STREAM: print("ARRIVED in", name, "tcp at port", port, "for", s.accept()[0].getsockname()[:2], flush=True)
        else: s.recvfrom(9); print("ARRIVED in", name, "udp at port", port, flush=True)
'
"#;

const CALLER: &str = r#"caller='
import ctypes, socket, sys, time
kind, ip, port, uid, gid, mark, source = sys.argv[1:8]
# A socket is of the user that the thread has for files.
libc = ctypes.CDLL(None)
libc.setfsgid(int(gid)); libc.setfsuid(int(uid))
family = socket.AF_INET6 if ":" in ip else socket.AF_INET
s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
if int(mark): s.setsockopt(socket.SOL_SOCKET, 36, int(mark))  # SO_MARK
if source: s.bind((source, 0))
s.setblocking(False)
try:
    if kind == "tcp": s.sendto(b"question", 0x20000000, (ip, int(port)))  # MSG_FASTOPEN: the first segment carries data
    else: s.connect((ip, int(port))); s.send(b"question")
except OSError as error: print("caller:", error)
print("called from", s.getsockname()[:2], flush=True)
time.sleep(1)
'
"#;

pub(crate) fn script(setup: &Setup, capture: &Capture, wrong: &False, seed: u64) -> String {
    let mut text = format!("#!/bin/bash\n# Seed {seed}. {:?}: {}\n", wrong.subject, first_line(&wrong.text));
    text.push_str(START);
    text.push_str("ip link set lo up; out ip link set lo up\n");
    text.push_str("for d in all default; do echo 0 >/proc/sys/net/ipv6/conf/$d/accept_dad; out sh -c \"echo 0 >/proc/sys/net/ipv6/conf/$d/accept_dad\"; done\n");
    for (parameter, value) in scene::PARAMETERS {
        let _ =
            writeln!(text, "for in in '' out; do $in sh -c 'echo {value} >/proc/sys/net/{parameter}'; done");
    }
    text.push_str("ip link add eth0 index 1000 type veth peer name eth0 netns $outside\n");
    text.push_str(
        "ip addr add 10.77.0.2/24 dev eth0; ip addr add fd77::2/64 dev eth0 nodad; ip link set eth0 up\n",
    );
    text.push_str("out ip addr add 10.77.0.1/24 dev eth0; out ip addr add fd77::1/64 dev eth0 nodad; out ip link set eth0 up\n");
    let _ = writeln!(text, "ip -batch - <<'END'\n{}\nEND", scene::POD_LINK);
    let _ = writeln!(text, "out ip -batch - <<'END'\n{}\nEND", scene::OUTSIDE_LINK);
    let words = setup.configuration.words();
    let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    text.push_str("\n# Rules of others, and the mesh's.\n");
    setup.before.iter().for_each(|command| text.push_str(&format!("{command}\n")));
    if wrong.subject == Subject::Clean || wrong.subject == Subject::Apply {
        text.push_str("state() { nft --stateless list ruleset; iptables-legacy-save; ip6tables-legacy-save; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; ip addr show lo; }\nstate >/tmp/before.$$\n");
    }
    let _ = writeln!(text, "$sidecar apply --backend={} {words}", setup.backend);
    setup.after.iter().for_each(|command| text.push_str(&format!("{command}\n")));
    text.push_str("\n# The result, and the answer.\n");
    match &wrong.disposition {
        Some(disposition) => {
            text.push_str(LISTENER);
            text.push_str(CALLER);
            let (owner, _) = scene::proxy(capture);
            let ports = "53 80 443 8080 9090 7777 15001 15006 15053 4140 4143";
            let _ = writeln!(text, "python3 -c \"$listener\" pod {} {} {ports} &", owner.uid, owner.gid);
            let _ = writeln!(text, "out python3 -c \"$listener\" outside 0 0 {ports} &\nsleep 1");
            text.push_str(&call(&disposition.packet));
            let requested = question::question(&disposition.packet, disposition.source);
            let requested: Vec<String> =
                requested.iter().map(|(flag, value)| format!("--{flag}='{value}'")).collect();
            let _ = writeln!(text, "$sidecar explain --live {}", requested.join(" "));
            match wrong.subject {
                Subject::Check => drop(writeln!(text, "$sidecar check {words}; echo \"check: exit $?\"")),
                Subject::Status => text.push_str("$sidecar status --output text\n"),
                Subject::Explain | Subject::Json | Subject::Apply | Subject::Clean => {}
            }
            let _ = writeln!(text, "echo 'in the test it landed at: {:?}'", disposition.landings);
        }
        None => match wrong.subject {
            Subject::Check => {
                let _ = writeln!(text, "$sidecar check {words}; echo \"check: exit $?\"");
                let _ = writeln!(text, "$sidecar apply --backend={} {words} --output=json", setup.backend);
            }
            Subject::Clean => {
                text.push_str("$sidecar clean\nstate >/tmp/after.$$; diff /tmp/before.$$ /tmp/after.$$\n");
            }
            _ => text.push_str("state >/tmp/after.$$; diff /tmp/before.$$ /tmp/after.$$\n"),
        },
    }
    text
}

fn call(packet: &Packet) -> String {
    let home = if packet.is_inbound { "out " } else { "" };
    let kind = if packet.protocol == Protocol::Tcp { "tcp" } else { "udp" };
    let source = packet.from.map(|from| from.to_string()).unwrap_or_default();
    let (to, identity) = (packet.to, packet.identity);
    format!(
        "{home}python3 -c \"$caller\" {kind} {} {} {} {} {} '{source}'\n",
        to.ip(),
        to.port(),
        identity.uid,
        identity.gid,
        packet.mark
    )
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
