//! Applying again, repairing, switching from and to iptables, cleaning.

use crate::apply::native::support::{FACTS, in_namespace, native, ruleset};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, output, stdout};
use crate::support::scope;

const FLAGS: [&str; 9] = ["--dual-stack", "-i", "*", "-b", "*", "-o", "80,443,8000-9000", "-c", "eth1,br+"];

/// What `check` says of these flags.
fn check(flags: &[&str]) -> Outcome {
    output(BINARY, &[&["check", "--native-nftables"], &FACTS[..], flags].concat(), "")
}

/// Every edit is noticed by `check` and undone by the next run.
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

/// The kernel gives the original direction the number that stands for nothing elsewhere.
#[test]
fn a_zone_of_one_direction_is_seen() {
    let flags = ["--dual-stack", "-i", "*", "-b", "*", "--redirect-dns", "--capture-all-dns"];
    for direction in ["original", "reply"] {
        in_namespace(|| {
            native(&flags);
            let listing = stdout("nft", &["-a", "list", "table", "inet", "sidecar_init"], "");
            let chain =
                listing.split("chain ").find(|chain| chain.contains("ct zone set 2")).expect("a zone");
            let line = chain.lines().find(|line| line.contains("ct zone set 2")).expect("a rule");
            let (text, handle) = line.split_once(" # handle ").expect("a handle");
            let rule = format!(
                "replace rule inet sidecar_init {} handle {handle} {}",
                chain.split(' ').next().expect("a name"),
                text.trim().replace("ct zone set", &format!("ct {direction} zone set")),
            );
            stdout("nft", &["-f", "-"], &rule);
            check(&flags).with(3, &rule);
            native(&flags);
            check(&flags).with(0, &rule);
        });
    }
}

/// What `nft` makes of our text is what we make of the same flags.
#[test]
fn what_nft_makes_of_our_text_is_as_wanted() {
    let v4 = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "10.32.0.0/13", "0.0.0.0/0"];
    let v6 = ["fd00::/8", "fd00:1::/32", "fd00:1:2:3::/64", "fd00::/11", "fd00::5/128"];
    for network in scope::of([&v4[..], &v6].concat(), 3) {
        for flags in
            [&["-i", network][..], &["-i", "*", "-x", network], &["-b", "*", "-d", "15090", "-i", network]]
        {
            let flags = [flags, &["--dual-stack"]].concat();
            in_namespace(|| {
                let text = stdout(BINARY, &[&["render", "--format", "nft"], &FACTS[..], &flags].concat(), "");
                // Addresses are no part of the text.
                stdout(BINARY, &[&["apply", "--backend", "nftables"], &FACTS[..], &flags].concat(), "");
                stdout("nft", &["-f", "-"], &format!("delete table inet sidecar_init\n{text}"));
                check(&flags).with(0, &format!("{flags:?}"));
            });
        }
    }
}

/// A rule that was replaced by another of the same length is another, whatever is compared first.
#[test]
fn a_changed_rule_is_named() {
    in_namespace(|| {
        native(&FLAGS);
        let listing =
            stdout("nft", &["-a", "list", "chain", "inet", "sidecar_init", "nat_ISTIO_REDIRECT"], "");
        let handle =
            listing.lines().find(|line| line.contains("15001")).and_then(|line| line.rsplit(' ').next());
        let rule = format!(
            "replace rule inet sidecar_init nat_ISTIO_REDIRECT handle {} meta l4proto tcp counter redirect to :15002 \
             comment \"to-outbound-listener (--envoy-port)\"",
            handle.expect("a handle")
        );
        stdout("nft", &["-f", "-"], &rule);
        let text = check(&FLAGS).with(3, &rule).stdout;
        let changed = |sign: char, port: u16| {
            format!(
                "{sign}meta l4proto tcp counter redirect to :{port} comment \"to-outbound-listener (--envoy-port)\"  # changed\n"
            )
        };
        let expected = format!(
            "by the flags given:\nRules differ: 1 changed\nVerdicts, as desired -> as live:\n  outbound TCP to \
             ports other than 80, 443 and 8000-9000 not leaving by br+ and eth1: captured at 15001 -> captured at \
             15002\n\n--- live: chain nat_ISTIO_REDIRECT (nftables)\n+++ desired\n{}{}",
            changed('-', 15002),
            changed('+', 15001)
        );
        assert_eq!(text, expected);
    });
}

/// Tables of iptables that somebody uses stay, and so does what is not named like one of ours.
#[test]
fn cleaning_keeps_what_others_use() {
    in_namespace(|| {
        stdout("iptables-nft", &["-t", "nat", "-N", "OTHERS"], "");
        stdout("ip6tables-nft", &["-t", "mangle", "-P", "FORWARD", "DROP"], "");
        stdout("nft", &["add", "table", "ip", "others"], "");
        let call = ["istio-iptables", "--force-iptables-binary", "nft"];
        stdout(BINARY, &[&call, &FACTS[..], &FLAGS].concat(), "");
        stdout(BINARY, &["clean"], "");
        let tables = stdout("nft", &["list", "tables"], "");
        let mut tables: Vec<&str> = tables.lines().collect();
        tables.sort_unstable();
        assert_eq!(tables, ["table ip nat", "table ip others", "table ip6 mangle"]);
    });
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
