//! Istio's ambient mode uses chains with the sidecar's prefix in a pod; one even has the same name. Ambient's rules belong to
//! another owner: they are kept, and no rules are set beside them.

use crate::apply::stage::{REDIRECT, VARIANTS, call, same, state};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::{Family, Variant};
use crate::takeover::meshes::Goal;

/// Ambient's nf_tables rules, shortened.
const NATIVE: &str = "table inet istio-ambient-nat {
  chain prerouting { type nat hook prerouting priority -100; jump istio-prerouting; }
  chain output { type nat hook output priority -100; jump istio-output; }
  chain istio-prerouting { ip daddr != 127.0.0.1 tcp dport != 15008 mark and 0xfff != 0x539 counter redirect to :15006; }
  chain istio-output { meta l4proto tcp ip daddr != 127.0.0.1 mark and 0xfff != 0x539 counter redirect to :15001; }
}
";

/// Sets the node agent's rules with DNS capture; iptables rules are from `tests/meshes/ambient/upstream.rs`.
fn set(namespace: &Namespace, variant: Variant) {
    if variant == Variant::Native {
        namespace.load(NATIVE);
    } else {
        for (family, of_rules) in Family::BOTH.into_iter().zip(rules::Family::BOTH) {
            namespace.restore(variant, family, &Goal::AMBIENT.text(of_rules));
        }
    }
    namespace.ip("route add local default dev lo table 100 scope host\nrule add fwmark 0x111/0xfff pref 32764 lookup 100");
}

fn everything(namespace: &Namespace) -> String {
    state(namespace) + &namespace.stdout("nft", &["-s", "list", "ruleset"])
}

#[test]
fn ambient_is_kept_and_no_rules_are_set_beside_it() {
    for variant in [Variant::Legacy, Variant::Nft, Variant::Native] {
        let namespace = Namespace::new();
        set(&namespace, variant);
        let before = everything(&namespace);
        let known = if variant == Variant::Native { "inet istio-ambient-nat" } else { "ISTIO_PRERT" };
        for command in ["apply", "istio-iptables"] {
            for ours in [Variant::Legacy, Variant::Nft, Variant::Native] {
                let printed =
                    run(&namespace, &call(command, ours, REDIRECT)).with(1, "beside ambient").stderr;
                assert!(
                    printed.contains("Istio's ambient mode (")
                        && printed.contains("captures here already")
                        && printed.contains(known),
                    "{printed}"
                );
            }
        }
        let printed = succeed(&namespace, &["clean", "--mesh", "istio"]).stderr;
        assert!(printed.contains("ambient mode captures here") && printed.contains("is kept"), "{printed}");
        let printed = run(&namespace, &["status", "--mesh", "istio"]).stdout;
        assert!(printed.contains("rules of Istio's ambient mode exist"), "{printed}");
        let question = ["explain", "--live", "--pod-ips", "10.77.0.2", "10.0.0.5:443"];
        let printed = succeed(&namespace, &question);
        assert!(
            printed.stderr.contains("belongs to Istio's ambient mode") && printed.stderr.contains(known),
            "{}",
            printed.stderr
        );
        assert!(printed.stdout.contains("15001"), "{}", printed.stdout);
        same(&before, &everything(&namespace), "ambient's rules were changed");
    }
}

#[test]
fn clean_of_all_meshes_removes_ambient() {
    for variant in [Variant::Legacy, Variant::Nft, Variant::Native] {
        let namespace = Namespace::new();
        let before = state(&namespace);
        set(&namespace, variant);
        let printed = succeed(&namespace, &["clean"]).stderr;
        assert!(printed.contains("removing the rules of Istio's ambient mode"), "{printed}");
        same(&before, &state(&namespace), "ambient's rules are left");
    }
}

/// Cleaning beside ambient removes the sidecar's rules, but keeps the chain that both use.
#[test]
fn clean_beside_ambient_removes_the_sidecar() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        set(&namespace, variant);
        let before = everything(&namespace);
        let rest = "*nat\n-N ISTIO_INBOUND\n-A PREROUTING -p tcp -j ISTIO_INBOUND\n-A ISTIO_INBOUND -j RETURN\nCOMMIT\n";
        namespace.restore(variant, Family::V4, rest);
        succeed(&namespace, &["clean", "--mesh", "istio"]);
        same(&before, &everything(&namespace), "clean");
    }
}

/// On the host, the agent rewrites the source of the kubelet's probes.
#[test]
fn rules_for_probes_stay() {
    let rules = "*nat\n-N ISTIO_POSTRT\n-I POSTROUTING 1 -j ISTIO_POSTRT\n-A ISTIO_POSTRT -p tcp -m owner --socket-exists -j SNAT --to-source 169.254.7.127\nCOMMIT\n";
    for variant in VARIANTS {
        let namespace = Namespace::new();
        namespace.restore(variant, Family::V4, rules);
        let before = everything(&namespace);
        succeed(&namespace, &["clean"]);
        same(&before, &everything(&namespace), "rules for probes");
    }
}
