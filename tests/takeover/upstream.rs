//! Namespaces as left by `istio-iptables` and Istio's node agent, which are not available. Upstream's output is equal to the
//! tool's preview, except for the comment on rules in base chains.

use crate::support::namespace::{Namespace, succeed};
use crate::support::setting::{Family, Variant};
use crate::support::wait;

const COMMENT: &str = "-m comment --comment \"sidecar-init\" ";

/// Sets upstream's state for these flags: rules of each family, policy rules and routes with TPROXY, and `::6`. The flags must
/// contain the mark and the routing table.
pub(crate) fn set(namespace: &Namespace, variant: Variant, flags: &[&str]) {
    put(namespace, variant, flags, &texts(namespace, flags));
}

pub(crate) fn set_1_20(namespace: &Namespace, variant: Variant, flags: &[&str]) {
    let older = texts(namespace, flags).map(|text| {
        text.replace("-A OUTPUT -j ISTIO_OUTPUT\n", "-A OUTPUT -p tcp -j ISTIO_OUTPUT\n")
            .replace("-N ISTIO_DROP\n", "")
            .replace("-A ISTIO_DROP -j DROP\n", "")
            .replace("-j ISTIO_DROP", "-j DROP")
    });
    put(namespace, variant, flags, &older);
}

fn put(namespace: &Namespace, variant: Variant, flags: &[&str], texts: &[String; 2]) {
    for (family, text) in Family::BOTH.into_iter().zip(texts) {
        if !text.is_empty() {
            namespace.restore(variant, family, text);
        }
    }
    let has_ipv6 = !texts[1].is_empty();
    if has_ipv6 {
        add_address(namespace);
    }
    let of_flag = |name: &str, preset| {
        let place = flags.iter().position(|flag| *flag == name);
        place.map_or(preset, |place| flags[place + 1])
    };
    if of_flag("-m", "REDIRECT") == "TPROXY" && !of_flag("-b", "").is_empty() {
        let (mark, table) = (of_flag("-t", "1337"), of_flag("-r", "133"));
        for family in ["-4", "-6"].into_iter().take(if has_ipv6 { 2 } else { 1 }) {
            for words in [
                vec![family, "rule", "add", "fwmark", mark, "lookup", table],
                vec![family, "route", "add", "local", "default", "dev", "lo", "table", table],
            ] {
                namespace.stdout("ip", &words);
            }
        }
    }
}

/// Upstream's input for restore, IPv4 first; IPv6 may be empty.
fn texts(namespace: &Namespace, flags: &[&str]) -> [String; 2] {
    let preview = succeed(namespace, &[&["istio-iptables", "--dry-run"], flags].concat()).stdout;
    let text = unpacked(&preview.replace(COMMENT, ""));
    let (v4, v6) = text.split_once("# ip6tables-restore\n").unwrap_or((&text, ""));
    [v4.to_owned(), v6.to_owned()]
}

/// Splits long lists into one rule for each port.
fn unpacked(text: &str) -> String {
    let list = |line: &str| {
        line.split_once("-m multiport --dports ")
            .map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let groups = lines.chunk_by(|one, other| list(one).is_some() && list(one) == list(other));
    let unpack = |group: &[&str]| -> String {
        let Some(ports) = list(group[0]) else { return format!("{}\n", group[0]) };
        let packed = format!("-m multiport --dports {ports} ");
        let of_port = |port: &str| -> String {
            group.iter().map(|line| line.replace(&packed, &format!("--dport {port} ")) + "\n").collect()
        };
        ports.split(',').map(of_port).collect()
    };
    groups.map(unpack).collect()
}

/// Rules of upstream's native mode: REDIRECT of all TCP, without DNS, and an ineffective table for marks.
pub(crate) const NATIVE: &str = "table inet istio-proxy-nat {
  chain prerouting { type nat hook prerouting priority -100; policy accept; meta l4proto tcp counter jump istio-inbound; }
  chain output { type nat hook output priority -100; policy accept; counter jump istio-output; }
  chain istio-inbound { tcp dport 15008 counter return; meta l4proto tcp counter jump istio-in-redirect; }
  chain istio-redirect { meta l4proto tcp counter redirect to :15001; }
  chain istio-in-redirect { meta l4proto tcp counter redirect to :15006; }
  chain istio-output {
    oifname lo ip saddr 127.0.0.6 counter return
    oifname lo ip6 saddr ::6 counter return
    oifname lo ip daddr != 127.0.0.1 tcp dport != 15008 meta skuid 1337 counter jump istio-in-redirect
    oifname lo ip6 daddr != ::1 tcp dport != 15008 meta skuid 1337 counter jump istio-in-redirect
    oifname lo meta skuid != 1337 counter return
    meta skuid 1337 counter return
    oifname lo meta skgid != 1337 counter return
    meta skgid 1337 counter return
    ip daddr 127.0.0.1 counter return
    ip6 daddr ::1 counter return
    counter jump istio-redirect
  }
}
table inet istio-proxy-mangle {
  chain prerouting { type filter hook prerouting priority -150; policy accept; }
}
";

pub(crate) fn set_native(namespace: &Namespace) {
    namespace.load(NATIVE);
    add_address(namespace);
}

/// Adds `::6` to `lo` and waits for its routes, which the kernel adds a moment later.
pub(crate) fn add_address(namespace: &Namespace) {
    namespace.ip("addr add ::6/128 dev lo");
    for table in ["local", "main"] {
        let routes = || namespace.stdout("ip", &["-6", "route", "show", "table", table]);
        wait::until(&format!("a route of ::6 in table {table}"), || routes().contains("::6"));
    }
}
