//! Applying again, repairing, switching from and to iptables, cleaning.

use crate::apply::native::support::{FACTS, in_namespace, native};
use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, output, stdout};

fn check(flags: &[&str]) -> Outcome {
    output(BINARY, &[&["diff", "--rules", "--native-nftables"], &FACTS[..], flags].concat(), "")
}

/// A replaced rule differs even at equal length, or only in a zone's original direction, whose number means "none" elsewhere.
#[test]
fn replaced_rule_is_a_difference() {
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

/// Unless IPv6 is captured, one rule passes all IPv6 packets.
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
    assert!(!reaches(&[&flags[..], &["--dual-stack"]].concat()));
}
