//! Random configurations: flags and variables that each call can do without.

use super::random::Random;
use mesh::istio::{self, CaptureConfig};
use mesh::settings::{self, Setting};
use mesh::sources::{NullHost, Raw};
use mesh::{CapturePolicy, Mesh};
use rules::{Family, RuleSet};

/// The CIDRs around `Place::Service`, both families.
pub(crate) const SERVICE_CIDRS: &str = "10.99.0.0/16,fd99::/16";
/// `Place::Resolver` as `--dns-servers` takes it, both families.
pub(crate) const RESOLVERS: &str = "10.88.0.10,fd88::10";

const ELSEWHERE_CIDRS: &str = "10.98.0.0/16,fd98::/16";
const LOOPBACK_CIDRS: &str = "127.0.0.1/32,::1/128";

/// A flag with its value, a switch, or a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Flag(&'static str, &'static str),
    Switch(&'static str),
    Variable(&'static str, &'static str),
}

/// What the binary is told.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) parts: Vec<Part>,
}

impl Configuration {
    pub(crate) fn random(random: &mut Random) -> Configuration {
        let flags: [(&str, &[&str]); 10] = [
            (
                "-i",
                &["*", "*", "*", "", SERVICE_CIDRS, ELSEWHERE_CIDRS, LOOPBACK_CIDRS, "10.0.0.0/8,fd00::/8"],
            ),
            ("-x", &["", "", SERVICE_CIDRS, ELSEWHERE_CIDRS, "10.99.0.1/32,fd99::1/128"]),
            ("-b", &["*", "*", "", "8080", "8080,9000-9100,53"]),
            ("-d", &["", "8080", "9000-9100,15008", "53"]),
            ("-q", &["", "", "9080", "53,8080", "1-65535"]),
            ("-o", &["", "", "8080", "53", "9000-9100"]),
            ("-c", &["", "", "net1", "eth+", "lo"]),
            ("-u", &["1337", "1337,2000", "0", "1000"]),
            // An agent that no option names asks and answers in the wrong conntrack zone: its answers get lost.
            ("-g", &["1337", "1337,2000", "2000,1337"]),
            ("-e", &["15008", "9080"]),
        ];
        let mut parts = Vec::new();
        for (flag, values) in flags {
            let value = random.of(values);
            if !value.is_empty() {
                parts.push(Part::Flag(flag, value));
            }
        }
        if random.one_in(2) {
            parts.extend([Part::Switch("--redirect-dns"), Part::Flag("--dns-servers", RESOLVERS)]);
            parts.extend(random.one_in(2).then_some(Part::Switch("--capture-all-dns")));
        }
        parts.extend(random.one_in(3).then_some(Part::Switch("--drop-invalid")));
        parts.extend(random.one_in(3).then_some(Part::Flag("-k", "vm0")));
        parts.extend(random.one_in(6).then_some(Part::Switch("--iptables-trace-logging")));
        let groups = ["*", "2000", "1000,2000", ""];
        if random.one_in(4) {
            parts.push(Part::Variable("ISTIO_OUTBOUND_OWNER_GROUPS", random.of(&groups)));
        }
        if random.one_in(4) {
            parts.push(Part::Variable("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "2000"));
        }
        if random.one_in(4) {
            parts.push(Part::Variable("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "127.0.0.0/8"));
        }
        Configuration { parts }
    }

    pub(crate) fn without(&self, part: usize) -> Configuration {
        let mut parts = self.parts.clone();
        parts.remove(part);
        Configuration { parts }
    }

    /// Whether a virtual machine stands behind the pod.
    pub(crate) fn has_vm(&self) -> bool {
        self.parts.contains(&Part::Flag("-k", "vm0"))
    }

    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let words = |part: &Part| match *part {
            Part::Flag(flag, value) => vec![flag, value],
            Part::Switch(flag) => vec![flag],
            Part::Variable(..) => Vec::new(),
        };
        self.parts.iter().flat_map(words).collect()
    }

    pub(crate) fn variables(&self) -> Vec<(&'static str, &'static str)> {
        let pair = |part: &Part| match *part {
            Part::Variable(name, value) => Some((name, value)),
            Part::Flag(..) | Part::Switch(_) => None,
        };
        self.parts.iter().filter_map(pair).collect()
    }

    /// The same as the library understands it, with what the tests' pod always says.
    pub(crate) fn resolve(&self, mode: &'static str) -> CaptureConfig {
        let always = [
            ("-u", "1337"),
            ("-g", "1337"),
            ("-m", mode),
            ("--dual-stack", "true"),
            ("--pod-ips", "10.77.0.2,fd77::2"),
        ];
        let given = self.parts.iter().filter_map(|part| match *part {
            Part::Flag(flag, value) => Some((flag, value)),
            Part::Switch(flag) => Some((flag, "true")),
            Part::Variable(..) => None,
        });
        let flags = always.into_iter().chain(given).map(|(flag, value)| (setting(flag), value.to_owned()));
        let variables = self.variables();
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        let raw = Raw::new(flags, |_| true, variable);
        let resolved = mesh::resolve(&raw, &NullHost, Vec::new()).expect("configurations are valid");
        istio::of(&resolved.capture).expect("Istio's").clone()
    }
}

/// The rules of a configuration for one family.
pub(crate) fn rules(config: &CaptureConfig, family: Family) -> RuleSet {
    config.rules(family).rules().clone()
}

fn setting(flag: &str) -> Setting {
    let row = settings::of(Mesh::default()).find(|row| match flag.strip_prefix("--") {
        Some(long) => row.long == long,
        None => row.short.is_some_and(|short| flag.ends_with(short)),
    });
    row.unwrap_or_else(|| panic!("no flag {flag}")).setting
}
