//! Applying again, repairing, switching from and to iptables, cleaning.

use crate::apply::native::support::{FACTS, in_namespace, native, ruleset};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, output, stdout};

const FLAGS: [&str; 9] = ["--dual-stack", "-i", "*", "-b", "*", "-o", "80,443,8000-9000", "-c", "eth1,br+"];

/// What `diff` says of these flags.
fn check(flags: &[&str]) -> Outcome {
    output(BINARY, &[&["diff", "--rules", "--native-nftables"], &FACTS[..], flags].concat(), "")
}

/// Every edit is noticed by `diff` and undone by the next run.
#[test]
fn edits_are_seen_and_repaired() {
    let table = "inet sidecar_init";
    for edit in [
        format!("flush chain {table} nat_ISTIO_OUTPUT"),
        format!("add rule {table} nat_ISTIO_OUTPUT accept"),
        format!("insert rule {table} nat_OUTPUT accept"),
        format!("add chain {table} more"),
        format!("add rule {table} nat_OUTPUT tcp dport {{ 1, 2 }} limit rate 5/second jump {{ accept; }}"),
        format!("add rule {table} nat_OUTPUT tcp dport vmap {{ 1 : accept, 2 : jump nat_ISTIO_REDIRECT }}"),
        format!("add chain {table} nat_OUTPUT {{ policy drop; }}"),
        format!("delete element {table} excluded_outbound_port_ports {{ 443 }}"),
        format!("add element {table} excluded_outbound_port_ports {{ 22 }}"),
        format!("add set {table} more {{ type uid; }}"),
        format!("add table {table} {{ flags dormant; }}"),
        format!("delete table {table}"),
    ] {
        in_namespace(|| {
            native(&FLAGS);
            let before = ruleset();
            stdout("nft", &["-f", "-"], &edit);
            assert!(!check(&FLAGS).with(3, &edit).stdout.is_empty(), "{edit}");
            native(&FLAGS);
            assert_eq!(before, ruleset(), "{edit}");
        });
    }
}

/// A rule of the same length is another, whatever is compared first; and the kernel gives the original direction of a zone
/// the number that stands for nothing elsewhere.
#[test]
fn a_rule_with_another_in_its_place_is_seen() {
    let flags = ["--dual-stack", "-i", "*", "-b", "*", "--redirect-dns", "--capture-all-dns"];
    for (wanted, there) in [
        ("ct zone set 2", "ct original zone set 2"),
        ("ct zone set 2", "ct reply zone set 2"),
        ("redirect to :15001", "redirect to :15002"),
    ] {
        in_namespace(|| {
            native(&flags);
            let listing = stdout("nft", &["-a", "list", "table", "inet", "sidecar_init"], "");
            let chain = listing.split("chain ").find(|chain| chain.contains(wanted)).expect("such a rule");
            let line = chain.lines().find(|line| line.contains(wanted)).expect("a rule");
            let (text, handle) = line.split_once(" # handle ").expect("a handle");
            let name = chain.split(' ').next().expect("a name");
            let text = text.trim().replace(wanted, there);
            let rule = format!("replace rule inet sidecar_init {name} handle {handle} {text}");
            stdout("nft", &["-f", "-"], &rule);
            assert!(check(&flags).with(3, &rule).stdout.contains("# changed"), "{rule}");
            native(&flags);
            check(&flags).with(0, &rule);
        });
    }
}

/// Without IPv6 its packets meet no rule but the one that lets them pass.
#[test]
fn ipv6_passes_where_it_is_off() {
    use std::net::{TcpListener, TcpStream};
    let reaches = |flags: &[&str]| {
        let pod = Namespace::new();
        pod.ip("addr add 2001:db8::1/128 dev lo nodad");
        pod.run(|| {
            native(flags);
            let listener = TcpListener::bind("[2001:db8::1]:8080").expect("a listener");
            TcpStream::connect(listener.local_addr().expect("an address")).is_ok()
        })
    };
    let flags = ["-i", "2001:db8::/32,10.0.0.0/8,::1/128", "-b", "*"];
    assert!(reaches(&flags));
    // Now captured, and no proxy listens.
    assert!(!reaches(&[&flags[..], &["--dual-stack"]].concat()));
}
