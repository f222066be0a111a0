//! `explain --live`: verdicts in a namespace with any program's rules.

use crate::support::namespace;
use crate::support::program::{Run, binary};

mod forms;

use namespace::Namespace;

fn bare() -> Namespace {
    let pod = Namespace::new();
    pod.eth0("10.77.0.2/24");
    pod.ip("route add default dev eth0");
    pod
}

fn pod_with(backend: &str, flags: &[&str]) -> Namespace {
    let pod = bare();
    let path = pod.path();
    let call = [&["apply", "--backend", backend, "--network-namespace", &path], flags].concat();
    binary(&call).outcome().success();
    pod
}

fn explained_live(pod: &Namespace, question: &[&str]) -> String {
    let inside = pod.path();
    let call = [&["explain", "--live", "--network-namespace", &inside], question].concat();
    let printed = binary(&call).outcome().success().stdout;
    behind_its_basis(&printed, pod)
}

/// An answer without the line that names its basis.
fn behind_its_basis(text: &str, pod: &Namespace) -> String {
    let basis = format!("from the rules in namespace {}:\n", pod.path());
    if text.starts_with('{') {
        return text.to_owned();
    }
    text.strip_prefix(&basis).unwrap_or_else(|| panic!("{basis}{text}")).to_owned()
}

#[test]
fn all_traffic_is_the_same_by_flags_and_by_their_rules() {
    let istio =
        ["-i", "10.0.0.0/8", "-x", "10.96.0.0/16", "-b", "*", "-d", "15090,15021", "-o", "22", "-c", "net1"];
    let linkerd =
        ["--mesh", "linkerd", "--inbound-ports-to-ignore", "4190", "--outbound-ports-to-ignore", "443"];
    let ambient =
        ["--mesh", "ambient", "--ipv6=false", "--dns-capture", "--reroute-virtual-interfaces", "vm0"];
    for (flags, rows) in
        [(&istio[..], 15), (&["-i", "*", "-b", "*", "-m", "TPROXY"], 9), (&linkerd, 9), (&ambient, 12)]
    {
        let flags = [flags, &["--pod-ips", "10.77.0.2"]].concat();
        let described = binary(&[&["explain"], &flags[..]].concat()).outcome().success().stdout;
        for backend in ["nftables", "iptables-nft", "iptables-legacy"] {
            let live = explained_live(&pod_with(backend, &flags), &[]);
            let expected = rows_of(&described);
            assert_eq!(rows_of(&live), expected, "{backend} {flags:?}: {live}{described}");
            assert!(expected.len() >= rows, "{described}");
        }
    }
}

fn rows_of(text: &str) -> Vec<String> {
    let (_, rows) = text.split_once("\n\n").expect("a heading");
    let rows = rows.replace("\n                       ", "");
    let words = |row: &str| {
        let end = row.find(" (").filter(|_| row.ends_with(')')).unwrap_or(row.len());
        row[..end].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    rows.lines().map(words).collect()
}
