//! What Istio's node agent sets in a pod, written here from its source alone (`cni/pkg/iptables`, `cni/pkg/nftables`): for
//! what a pod and the agent's environment may say, the texts that it feeds to `iptables-restore` and to `nft`.

use crate::support::random::Random;
use crate::support::setting::Family;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ingress: bool,
    pub(crate) dns: bool,
    pub(crate) ipv6: bool,
    pub(crate) interfaces: Vec<&'static str>,
    pub(crate) probe: [&'static str; 2],
}

/// Names of interfaces. The last is a prefix, which iptables understands alone: the agent hands names on as they are.
const INTERFACES: [&str; 6] = ["vm0", "eth1", "net-a.b", "tap_0", "lo", "br+"];

impl Options {
    pub(crate) fn random(random: &mut Random) -> Options {
        Options {
            ingress: random.one_in(2),
            dns: !random.one_in(3),
            ipv6: !random.one_in(3),
            interfaces: (0..random.of(&[0, 0, 1, 2, 4])).map(|_| random.of(&INTERFACES)).collect(),
            probe: [
                random.of(&["169.254.7.127", "10.0.0.1", "198.51.100.7"]),
                random.of(&[
                    "fd16:9254:7127:1337:ffff:ffff:ffff:ffff",
                    "e9ac:1e77:90ca:399f:4d6d:ece2:2f9b:3164",
                ]),
            ],
        }
    }

    /// The same without what `nft` would not read.
    pub(crate) fn without_prefixes(mut self) -> Options {
        self.interfaces.retain(|name| !name.ends_with('+'));
        self
    }

    pub(crate) fn flags(&self) -> Vec<String> {
        vec![
            format!("--ingress={}", self.ingress),
            format!("--dns-capture={}", self.dns),
            format!("--ipv6={}", self.ipv6),
            format!("--reroute-virtual-interfaces={}", self.interfaces.join(",")),
            format!("--probe-address={}", self.probe.join(",")),
        ]
    }

    pub(crate) fn families(&self) -> impl Iterator<Item = Family> + use<> {
        let ipv6 = self.ipv6;
        Family::BOTH.into_iter().filter(move |family| *family == Family::V4 || ipv6)
    }

    /// The probe address of a family, and the one address that counts as loopback.
    fn addresses(&self, family: Family) -> (&'static str, &'static str) {
        match family {
            Family::V4 => (self.probe[0], "127.0.0.1/32"),
            Family::V6 => (self.probe[1], "::1/128"),
        }
    }
}

pub(crate) fn for_iptables(given: &Options, family: Family) -> String {
    let (probe, local) = given.addresses(family);
    let mut text = String::from(
        "* mangle\n-N ISTIO_PRERT\n-N ISTIO_OUTPUT\n-A PREROUTING -j ISTIO_PRERT\n-A OUTPUT -j ISTIO_OUTPUT\n\
         -A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff\n\
         -A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff\n\
         COMMIT\n* nat\n-N ISTIO_PRERT\n-N ISTIO_OUTPUT\n-A OUTPUT -j ISTIO_OUTPUT\n-A PREROUTING -j ISTIO_PRERT\n",
    );
    for interface in &given.interfaces {
        text += &format!("-A ISTIO_PRERT -i {interface} -p tcp -j REDIRECT --to-ports 15001\n");
        text += &format!("-A ISTIO_PRERT -i {interface} -p tcp -j RETURN\n");
    }
    if !given.ingress {
        text += &format!("-A ISTIO_PRERT -s {probe} -p tcp -m tcp -j ACCEPT\n");
    }
    text += &format!("-A ISTIO_OUTPUT -d {probe} -p tcp -m tcp -j ACCEPT\n");
    if !given.ingress {
        text += &format!(
            "-A ISTIO_PRERT ! -d {local} -p tcp ! --dport 15008 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15006\n"
        );
    }
    if given.dns {
        text += "-A ISTIO_OUTPUT ! -o lo -p udp -m mark ! --mark 0x539/0xfff -m udp --dport 53 -j REDIRECT --to-port 15053\n";
        text += &format!(
            "-A ISTIO_OUTPUT ! -d {local} -p tcp --dport 53 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15053\n"
        );
    }
    text += "-A ISTIO_OUTPUT -p tcp -m mark --mark 0x111/0xfff -j ACCEPT\n";
    text += &format!("-A ISTIO_OUTPUT ! -d {local} -o lo -j ACCEPT\n");
    text += &format!(
        "-A ISTIO_OUTPUT ! -d {local} -p tcp -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15001\n"
    );
    text += "COMMIT\n";
    if given.dns {
        text += "* raw\n-N ISTIO_OUTPUT\n-N ISTIO_PRERT\n-A PREROUTING -j ISTIO_PRERT\n-A OUTPUT -j ISTIO_OUTPUT\n\
                 -A ISTIO_OUTPUT -p udp -m mark --mark 0x539/0xfff -m udp --dport 53 -j CT --zone 1\n\
                 -A ISTIO_PRERT -p udp -m mark ! --mark 0x539/0xfff -m udp --sport 53 -j CT --zone 1\nCOMMIT\n";
    }
    text
}

/// The transaction for `nft`, of both families. It fits a namespace that has no such table yet.
pub(crate) fn for_nft(given: &Options) -> String {
    let mut text = String::new();
    let (nat, mangle, raw) = (nat(given), MANGLE.map(String::from), RAW.map(String::from));
    let mut add = |table: &str, kinds: [&str; 2], priority: i32, rules: &[String]| {
        let table = format!("istio-ambient-{table}");
        text += &format!("add table inet {table}\nflush table inet {table}\n");
        for (hook, kind) in ["prerouting", "output"].into_iter().zip(kinds) {
            text += &format!(
                "add chain inet {table} {hook} {{ type {kind} hook {hook} priority {priority} ; }}\n"
            );
        }
        for chain in ["istio-prerouting", "istio-output"] {
            text += &format!("add chain inet {table} {chain}\n");
        }
        for rule in rules {
            text += &format!("add rule inet {table} {rule}\n");
        }
    };
    add("nat", ["nat", "nat"], -100, &nat);
    add("mangle", ["filter", "route"], -150, &mangle);
    if given.dns {
        add("raw", ["filter", "filter"], -300, &raw);
    }
    text
}

const MANGLE: [&str; 4] = [
    "prerouting jump istio-prerouting",
    "output jump istio-output",
    "istio-prerouting meta mark & 0xfff == 0x539 counter ct mark set ct mark & 0xfffff000 |  0x111",
    "istio-output ct mark and 0xfff == 0x111 counter meta mark set ct mark",
];

const RAW: [&str; 4] = [
    "prerouting jump istio-prerouting",
    "output jump istio-output",
    "istio-output udp dport 53 meta mark and 0xfff == 0x539 counter ct zone set 1",
    "istio-prerouting udp sport 53 meta mark and 0xfff != 0x539 counter ct zone set 1",
];

/// Chain and rule. What is given of both families names neither.
fn nat(given: &Options) -> Vec<String> {
    const OTHERS: &str = "mark and 0xfff != 0x539";
    let families: Vec<(&str, &str, &str)> = given
        .families()
        .map(|family| {
            let (probe, local) = given.addresses(family);
            (if family == Family::V4 { "ip" } else { "ip6" }, probe, local)
        })
        .collect();
    let mut rules =
        vec!["output jump istio-output".to_owned(), "prerouting jump istio-prerouting".to_owned()];
    for interface in &given.interfaces {
        let from = format!("istio-prerouting iifname {interface} meta l4proto tcp counter");
        rules.extend([format!("{from} redirect to :15001"), format!("{from} return")]);
    }
    for (ip, probe, _) in &families {
        let arrives = format!("istio-prerouting meta l4proto tcp {ip} saddr {probe} counter accept");
        rules.extend((!given.ingress).then_some(arrives));
    }
    for (ip, probe, _) in &families {
        rules.push(format!("istio-output meta l4proto tcp {ip} daddr {probe} counter accept"));
    }
    for (ip, _, local) in families.iter().filter(|_| !given.ingress) {
        rules.push(format!(
            "istio-prerouting {ip} daddr != {local} tcp dport != 15008 {OTHERS} counter redirect to :15006"
        ));
    }
    if given.dns {
        rules.push(format!("istio-output oifname != lo {OTHERS} udp dport 53 counter redirect to :15053"));
        for (ip, _, local) in &families {
            rules.push(format!(
                "istio-output {ip} daddr != {local} tcp dport 53 {OTHERS} counter redirect to :15053"
            ));
        }
    }
    rules.push("istio-output meta l4proto tcp mark and 0xfff == 0x111 counter accept".to_owned());
    for (ip, _, local) in &families {
        rules.push(format!("istio-output oifname lo {ip} daddr != {local} counter accept"));
    }
    for (ip, _, local) in &families {
        rules.push(format!(
            "istio-output meta l4proto tcp {ip} daddr != {local} {OTHERS} counter redirect to :15001"
        ));
    }
    rules
}
