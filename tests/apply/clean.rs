//! `clean` restores the namespace's state before the first apply. Other programs' rules exist first: Docker's redirect to its
//! embedded resolver, an nf_tables table, rules in legacy tables. Listings before and after are compared.

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, routing, same, tables};
use crate::support::namespace::{Namespace, succeed};
use crate::support::rows::rows;
use crate::support::setting::{Family, Variant};

const DOCKER: &str = "*nat
:DOCKER_OUTPUT - [0:0]
:DOCKER_POSTROUTING - [0:0]
-A OUTPUT -d 127.0.0.11/32 -j DOCKER_OUTPUT
-A POSTROUTING -d 127.0.0.11/32 -j DOCKER_POSTROUTING
-A DOCKER_OUTPUT -d 127.0.0.11/32 -p tcp -m tcp --dport 53 -j DNAT --to-destination 127.0.0.11:38375
-A DOCKER_OUTPUT -d 127.0.0.11/32 -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.11:47141
-A DOCKER_POSTROUTING -s 127.0.0.11/32 -p tcp -m tcp --sport 38375 -j SNAT --to-source :53
-A DOCKER_POSTROUTING -s 127.0.0.11/32 -p udp -m udp --sport 47141 -j SNAT --to-source :53
COMMIT
";

const NFT_TABLE: &str = "table inet guard {
  set peers { type ipv4_addr; elements = { 192.0.2.1, 192.0.2.2 } }
  chain input { type filter hook input priority 0; policy accept; ip saddr @peers tcp dport 22 accept; }
  chain pre { type nat hook prerouting priority -90; policy accept; tcp dport 8443 redirect to :443; }
}
";

const LEGACY_V4: &str = "*filter
:GUARD - [0:0]
-A INPUT -s 192.0.2.9/32 -j GUARD
-A GUARD -m comment --comment \"not ours\" -j DROP
COMMIT
*mangle
-A PREROUTING -p tcp -m tcp --dport 4000 -j MARK --set-xmark 0x7/0xffffffff
COMMIT
";

const LEGACY_V6: &str = "*filter
-A INPUT -s 2001:db8::9/128 -j DROP
COMMIT
";

/// Policy rules and routes of other owners, one in the tool's default routing table.
const ROUTING: &str = "rule add fwmark 7 lookup 77
route add blackhole default table 77
rule add fwmark 8 lookup 133
route add 198.51.100.0/24 dev lo table 133
addr add 2001:db8::7/128 dev lo nodad
";

rows! {
    legacy_leaves_no_trace: leaves_no_trace(Variant::Legacy);
    nft_leaves_no_trace: leaves_no_trace(Variant::Nft);
}

fn leaves_no_trace(variant: Variant) {
    let namespace = Namespace::new();
    namespace.restore(variant, Family::V4, DOCKER);
    namespace.restore(Variant::Legacy, Family::V4, LEGACY_V4);
    namespace.restore(Variant::Legacy, Family::V6, LEGACY_V6);
    namespace.load(NFT_TABLE);
    namespace.ip(ROUTING);
    namespace.stdout("ip", &["-6", "rule", "add", "fwmark", "7", "lookup", "77"]);
    let before = seen_by_others(&namespace);
    for _ in 0..3 {
        succeed(&namespace, &call("apply", variant, FULL));
    }
    succeed(&namespace, &call("apply", variant, REDIRECT));
    succeed(&namespace, &call("apply", variant, &[FULL, &["-t", "4242", "-r", "4343"]].concat()));
    assert!(seen_by_others(&namespace).contains("ISTIO_OUTPUT"), "no rules were set");
    // Stored settings are not needed.
    succeed(&namespace, &[&["istio-iptables", "--cleanup-only"], REDIRECT].concat());
    same(&before, &seen_by_others(&namespace), "clean left rules, or removed rules of other owners");
    succeed(&namespace, &["clean"]);
    same(&before, &seen_by_others(&namespace), "a second clean changed the state");
}

/// Output of all listing programs. Remarks and counters are omitted because they change without a run. A legacy table cannot be
/// removed from a namespace once it exists, so an empty one counts as absent.
fn seen_by_others(namespace: &Namespace) -> String {
    let mut text = namespace.stdout("nft", &["list", "ruleset"]);
    // xtables rules list their counters.
    text = text.split_inclusive('\n').map(without_counter).collect();
    for family in Family::BOTH {
        for variant in VARIANTS {
            let program = variant.program(family, "-save");
            for (table, lines) in tables(&namespace.stdout(&program, &[])) {
                let empty = !lines.iter().any(|line| line.starts_with("-A") || line.ends_with(" -"));
                if variant == Variant::Nft || !empty {
                    text.push_str(&format!("{program} *{table}\n{}\n", lines.join("\n")));
                }
            }
        }
    }
    text + &routing(namespace)
}

fn without_counter(line: &str) -> String {
    match line.split_once("counter packets ") {
        Some((head, tail)) => {
            let rest: Vec<&str> = tail.split(' ').skip(3).collect();
            format!("{head}counter {}", rest.join(" "))
        }
        None => line.to_owned(),
    }
}
