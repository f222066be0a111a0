//! Without `--force-iptables-binary` the rules go where rules already are, and looking does not create
//! anything.

use crate::support::address::Place::{Pod, Service};
use crate::support::case::Caller::{App, Outside};
use crate::support::case::Landing::{Inbound, Outbound};
use crate::support::case::check;
use crate::support::namespace::Namespace;
use crate::support::pod;
use crate::support::setting::{Family, Setting, Variant, in_every_iptables_setting};
use crate::support::traffic::Protocol::Tcp;

in_every_iptables_setting! {
    rules_go_where_rules_are,
}

const FLAGS: [&str; 5] = ["--dual-stack", "-i", "*", "-b", "*"];
const FOREIGN: &str = "-A INPUT -s 192.0.2.1/32 -j DROP";
const FOREIGN_V6: &str = "-A INPUT -s 2001:db8::1/128 -j DROP";

/// The nft variant is the one to choose in an empty namespace, so there only legacy rules need planting.
fn rules_go_where_rules_are(setting: Setting) {
    let pod = pod::Pod::new(setting);
    let foreign = match setting.family {
        Family::V4 => FOREIGN,
        Family::V6 => FOREIGN_V6,
    };
    if setting.variant == Variant::Legacy {
        let iptables = setting.variant.program(setting.family, "");
        pod.inside.stdout(&iptables, &[&["-w"][..], &foreign.split(' ').collect::<Vec<_>>()].concat());
    }
    pod.run(&[], &FLAGS);
    assert!(pod.rules().contains("-A ISTIO_OUTPUT "), "{setting}: the rules are not there\n{}", pod.rules());
    match setting.variant {
        Variant::Legacy => assert!(pod.rules().contains(foreign), "{setting}: a foreign rule is gone"),
        Variant::Nft | Variant::Native => {
            assert_eq!(legacy_tables(&pod.inside), "", "{setting}: looking made legacy tables");
        }
    }
    check(&pod, &[(App, Tcp, Service, 9080, Outbound), (Outside, Tcp, Pod, 8080, Inbound)]);
}

/// The names of the legacy tables that exist; unlike `iptables-legacy-save`, reading them creates none.
fn legacy_tables(namespace: &Namespace) -> String {
    namespace.stdout("cat", &["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"])
}
