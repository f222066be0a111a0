//! The rules of Istio's node agent in a pod, written from its source (`cni/pkg/iptables`): `iptables-restore` input for the pod's
//! and agent's settings.

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

/// Names of interfaces. The last is a prefix, which only iptables interprets: the agent passes names on unchanged.
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

    /// A family's probe address, and its only loopback address.
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
