//! Completions as computed by real shells from the scripts.

use crate::cli::typed::program::{commands, flags};
use crate::support::scope;
use crate::support::session::PROGRAM;
use testkit::command_line::SHELLS;

const CASES: &[(&str, &[&str])] = &[
    ("sidecar-init exp", &["explain"]),
    ("sidecar-init cni ", &["install", "uninstall", "repair"]),
    ("sidecar-init cni install --conf", &["--conf-dir"]),
    ("sidecar-init cni repair --pi", &["--pid"]),
    ("sidecar-init cni uninstall --envoy", &[]),
    ("sidecar-init explain --output ", &["json", "picture", "svg", "text", "yaml"]),
    ("sidecar-init explain --output=j", &["json"]),
    ("sidecar-init render --output ", &["iptables", "commands", "nft", "json", "yaml"]),
    ("sidecar-init apply -m ", &["REDIRECT", "TPROXY", "NONE"]),
    ("sidecar-init apply --backend ipt", &["iptables", "iptables-nft", "iptables-legacy"]),
    ("sidecar-init apply -b '*' --istio-service-", &["--istio-service-cidr", "--istio-service-exclude-cidr"]),
    ("sidecar-init apply --vk", &[]),
    ("sidecar-init apply --mesh ", &["istio", "linkerd", "kuma", "ambient"]),
    ("sidecar-init apply --incoming", &[]),
    ("sidecar-init apply --mesh linkerd --incoming", &["--incoming-proxy-port"]),
    ("sidecar-init explain --mesh=linkerd --envoy", &[]),
    (
        "sidecar-init explain --mesh=kuma --exclude-outbound-p",
        &["--exclude-outbound-ports", "--exclude-outbound-ports-for-uids"],
    ),
    ("sidecar-init clean --mesh kuma --cn", &["--cni-mode"]),
    ("sidecar-init linkerd-init --iptables-mode ", &["legacy", "nft", "plain"]),
    ("sidecar-init kuma-init ", &["install", "uninstall"]),
    ("sidecar-init completions ", &["bash", "zsh", "fish"]),
    // All flags begin with a dash, so proposing it is useless.
    ("sidecar-init explain ", &[]),
    ("sidecar-init apply -b '*' ", &[]),
    ("sidecar-init help cl", &["clean"]),
    ("sidecar-init help cni ", &["install", "uninstall", "repair"]),
    ("sidecar-init help ipv6", &["ipv6-is-not-captured"]),
    ("sidecar-init explain -f po", &["pod.yaml"]),
    ("sidecar-init man fo", &["folder/"]),
    ("istio-iptables --envoy", &["--envoy-port"]),
    ("istio-iptables -m T", &["TPROXY"]),
    ("istio-iptables --deny", &[]),
    ("sidecar-init --log_t", &["--log_target"]),
    ("sidecar-init --vers", &["--version"]),
    ("sidecar-init sandbox -- fo", &["folder/"]),
    ("sidecar-init explain -- --form", &[]),
];

fn check(name: &'static str) {
    let shell = PROGRAM.shell(name);
    for (line, expected) in scope::of(CASES.to_vec(), 12) {
        shell.proposes(line, expected.iter().copied());
    }
    for command in scope::of(commands(), 5) {
        let mut expected: Vec<String> =
            flags(&command).into_iter().map(|(flag, _)| format!("--{flag}")).collect();
        expected.push("--help".to_owned());
        let silent = ["--log_caller", "--log_stacktrace_level", "--vklog"];
        expected.retain(|flag| !silent.contains(&flag.as_str()) && !flag.starts_with("--log_rotate"));
        shell.proposes(&format!("sidecar-init {command} --"), expected);
    }
}

#[test]
fn in_bash() {
    check("bash");
}

#[test]
fn in_fish() {
    check("fish");
}

#[test]
fn in_zsh() {
    check("zsh");
}

/// Tab, then Enter: the shell runs the completed word, which prints the script for bash.
#[test]
fn in_a_terminal() {
    for name in SHELLS {
        PROGRAM.shell(name).displays("sidecar-init completions ba\t\n", "COMP_WORDS");
    }
}
