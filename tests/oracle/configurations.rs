//! Meshes with random valid settings, for a pod at the tests' addresses.

use crate::support::address::{RESOLVERS, SERVICE_CIDRS};
use crate::support::random::Random;
use mesh::settings;
use mesh::sources::{NullHost, Raw};
use mesh::{Capture, Mesh};

pub(crate) const POD_IPS: &str = "10.77.0.2,fd77::2";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) mesh: Mesh,
    pub(crate) flags: Vec<(&'static str, &'static str)>,
}

type Choices = &'static [(&'static str, &'static [&'static str])];

const ISTIO: Choices = &[
    ("dual-stack", &["true"]),
    ("istio-inbound-ports", &["*", "*", "*", "", "8080", "80,9090"]),
    ("istio-service-cidr", &["*", "*", "*", "", SERVICE_CIDRS]),
    ("istio-local-exclude-ports", &["", "", "8080", "443", "9000-9100,53"]),
    ("istio-service-exclude-cidr", &["", "", "", SERVICE_CIDRS]),
    ("istio-outbound-ports", &["", "", "9090"]),
    ("istio-local-outbound-ports-exclude", &["", "", "443", "8080"]),
    ("istio-exclude-interfaces", &["", "", "", "lo", "eth+"]),
    ("redirect-dns", &["", "true"]),
    ("dns-servers", &[RESOLVERS]),
    ("capture-all-dns", &["", "true"]),
    ("drop-invalid", &["", "", "true"]),
    ("istio-inbound-interception-mode", &["REDIRECT", "REDIRECT", "TPROXY"]),
    ("iptables-trace-logging", &["", "", "", "true"]),
    ("inbound-tunnel-port", &["", "", "8080"]),
    ("proxy-uid", &["1337", "1337", "1337,2000", "0"]),
    ("proxy-gid", &["", "", "1337,2000"]),
];
const LINKERD: Choices = &[
    ("proxy-uid", &["2102"]),
    ("ipv6", &["", "true", "false"]),
    ("ports-to-redirect", &["", "", "", "8080", "80,9090"]),
    ("inbound-ports-to-ignore", &["", "4190,4191", "443"]),
    ("outbound-ports-to-ignore", &["", "", "443", "9090"]),
    ("subnets-to-ignore", &["", "", "", "10.77.0.0/24"]),
];
const KUMA: Choices = &[
    ("kuma-dp-user", &["5678"]),
    ("ip-family-mode", &["", "", "ipv4"]),
    ("include-inbound-ports", &["", "", "", "8080"]),
    ("include-outbound-ports", &["", "", "", "80,9090"]),
    ("exclude-inbound-ports", &["", "", "443"]),
    ("exclude-outbound-ports", &["", "", "9090"]),
    ("exclude-outbound-ips", &["", "", SERVICE_CIDRS]),
    ("redirect-all-dns-traffic", &["", "true"]),
    ("drop-invalid-packets", &["", "", "true"]),
    ("disable-comments", &["", "", "true"]),
];
const AMBIENT: Choices =
    &[("ingress", &["", "", "", "true"]), ("dns-capture", &["", "", "false"]), ("ipv6", &["", "", "false"])];

impl Configuration {
    pub(crate) fn random(random: &mut Random) -> Self {
        let mesh = random.of(Mesh::ALL);
        let choices = match mesh {
            Mesh::Istio => ISTIO,
            Mesh::Linkerd => LINKERD,
            Mesh::Kuma => KUMA,
            Mesh::Ambient => AMBIENT,
        };
        let flags = choices.iter().map(|(flag, values)| (*flag, random.of(values)));
        Self { mesh, flags: flags.filter(|(_, value)| !value.is_empty()).collect() }
    }

    pub(crate) fn words(&self) -> Vec<String> {
        let flags = self.flags.iter().map(|(flag, value)| format!("--{flag}={value}"));
        let always = [format!("--mesh={}", self.mesh.name()), format!("--pod-ips={POD_IPS}")];
        always.into_iter().chain(flags).collect()
    }

    pub(crate) fn capture(&self) -> Capture {
        let always = [("mesh", self.mesh.name()), ("pod-ips", POD_IPS)];
        let raw = raw(always.into_iter().chain(self.flags.iter().copied()), self.mesh);
        mesh::resolve(&raw, &NullHost, Vec::new())
            .unwrap_or_else(|problems| panic!("{self:?}: {problems:?}"))
            .capture
    }
}

pub(crate) fn raw<'a>(flags: impl Iterator<Item = (&'a str, &'a str)>, mesh: Mesh) -> Raw {
    Raw::of_flags(flags.map(|(flag, value)| {
        let row = settings::of(mesh).find(|row| row.long == flag);
        (row.unwrap_or_else(|| panic!("{mesh} has no flag --{flag}")).setting, value)
    }))
}
