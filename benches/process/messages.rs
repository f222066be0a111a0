//! The least that a program could do: send the messages that a fresh apply of ours sends, and wait for the kernel's answers.
//!
//! It is written in C, with the messages as the engine makes them in its source, and linked statically. It reads nothing
//! before, so it could neither see what is there already nor leave it alone.

use super::{Outcome, Scratch, in_fresh_namespace, succeed};
use mesh::OWNERS;
use mesh::sources::{NullHost, Raw};
use mesh::{Setting, istio::OWNERSHIP};
use rules::desired::{Desired, Made};
use sidecar_init::{
    backend::{CommitStep, Kernel, iptables::Lock, nftables::creation},
    engine::{self, Choice, OnDrift, Options},
    sys::route::addition,
};
use std::{path::Path, process::Command};

/// What the init container of Istio's sidecar injection passes, with `--dual-stack`, for the policy.
const INIT_CONTAINER: &[(Setting, &str)] = &[
    (Setting::EnvoyPort, "15001"),
    (Setting::InboundCapturePort, "15006"),
    (Setting::ProxyUid, "1337"),
    (Setting::InterceptionMode, "REDIRECT"),
    (Setting::ServiceCidr, "*"),
    (Setting::ServiceExcludeCidr, ""),
    (Setting::InboundPorts, "*"),
    (Setting::InboundPortsExclude, "15090,15021,15020"),
    (Setting::DualStack, "true"),
    (Setting::PodIps, "192.0.2.1,2001:db8::1"),
];

const HEAD: &str = "\
#include <linux/netlink.h>
#include <sys/socket.h>

static int sent(int protocol, const unsigned char *messages, unsigned length) {
    static char answer[32768];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int to = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (to < 0 || bind(to, (struct sockaddr *)&kernel, sizeof kernel) != 0) return 0;
    if (length > 100000 && setsockopt(to, SOL_SOCKET, SO_SNDBUFFORCE, &length, sizeof length) != 0) return 0;
    if (sendto(to, messages, length, 0, (struct sockaddr *)&kernel, sizeof kernel) != length) return 0;
    int got = recv(to, answer, sizeof answer, 0);
    struct nlmsghdr *first = (struct nlmsghdr *)answer;
    struct nlmsgerr *outcome = NLMSG_DATA(first);
    return got >= (int)NLMSG_LENGTH(sizeof *outcome) && first->nlmsg_type == NLMSG_ERROR && outcome->error == 0;
}
";

/// A program that sends the messages of a fresh apply with these outbound ports excluded.
pub(super) fn program(ports: &str, scratch: &Scratch, name: &str) -> Outcome<Command> {
    let mut source = HEAD.to_owned();
    let mut calls = Vec::new();
    for (index, (protocol, bytes)) in messages(ports)?.into_iter().enumerate() {
        let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
        source += &format!("static const unsigned char messages_{index}[] = {{{}}};\n", bytes.join(","));
        calls.push(format!("sent({protocol}, messages_{index}, sizeof messages_{index})"));
    }
    source += &format!("int main(void) {{ return !({}); }}\n", calls.join(" && "));
    compiled(&source, scratch, name, &[])
}

/// A program that does nothing.
pub(super) fn nothing(scratch: &Scratch) -> Outcome<Command> {
    compiled("int main(void) { return 0; }\n", scratch, "nothing", &[])
}

/// The same without the start of the C library, whose CPUID instructions leave a virtual machine.
pub(super) fn bare(scratch: &Scratch) -> Outcome<Command> {
    let source = "#include <unistd.h>\nvoid _start(void) { _exit(0); }\n";
    compiled(source, scratch, "bare", &["-nostartfiles"])
}

fn compiled(source: &str, scratch: &Scratch, name: &str, flags: &[&str]) -> Outcome<Command> {
    let (source, program) = (scratch.write(&format!("{name}.c"), source)?, scratch.0.join(name));
    succeed(Command::new("gcc").args(["-O2", "-static"]).args(flags).arg("-o").arg(&program).arg(source))?;
    Ok(super::program(Path::new(&program), &[]))
}

/// What a fresh apply sends, each with the protocol of its socket.
fn messages(ports: &str) -> Outcome<Vec<(&'static str, Vec<u8>)>> {
    let ports = [(Setting::OutboundPortsExclude, ports)];
    let given = INIT_CONTAINER.iter().chain(&ports).map(|(setting, value)| (*setting, (*value).to_owned()));
    let capture = mesh::resolve(&Raw::new(given, |_| true, |_| None), &NullHost, Vec::new())?.capture;
    let made = Made {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: "istio-iptables".to_owned(),
        at: "2026-01-01T00:00:00.000000Z".to_owned(),
        settings: String::new(),
    };
    let desired = Desired { made: Some(made), ..capture.desired() };
    let options =
        Options { choice: Choice::Nftables, on_drift: OnDrift::Refuse, force: false, known_owners: OWNERS };
    let plan = in_fresh_namespace(|| {
        let mut kernel = Kernel::open(Lock::default(), OWNERSHIP)?;
        Ok(engine::plan(&mut kernel, &desired, &options)?)
    })?;
    let of_step = |step: &CommitStep| match step {
        CommitStep::Add(object) => Ok(("NETLINK_ROUTE", addition(&OWNERSHIP, *object).bytes().to_vec())),
        CommitStep::Nftables { live: None, desired: Some(table) } => {
            Ok(("NETLINK_NETFILTER", creation(table).bytes().to_vec()))
        }
        other => Err(format!("a fresh apply has a step that C does not do: {other}").into()),
    };
    plan.steps.iter().map(of_step).collect()
}
