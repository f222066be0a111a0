//! Goals of each mesh.

use mesh::settings::{self, Setting};
use mesh::sources::{NullHost, Raw};
use mesh::{Capture, Mesh, OWNERS};
use rules::{Family, Ownership, desired::Desired, render};
use sidecar_init::{
    backend::BackendName,
    engine::{Choice, Options},
};
use std::{fmt, sync::Mutex};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) mesh: Mesh,
    pub(crate) words: Words,
    pub(crate) addresses: &'static str,
}

const IPV4_FIRST: &str = "10.77.0.2,fd77::2";
const IPV6_FIRST: &str = "fd77::2,10.77.0.2";

type Words = &'static [(&'static str, &'static str)];

const OTHERWISE_REDIRECT: Words = &[
    ("dual-stack", "true"),
    ("proxy-uid", "1337"),
    ("istio-inbound-ports", "*"),
    ("istio-service-cidr", "*"),
    ("istio-exclude-interfaces", "eth9"),
    ("kube-virt-interfaces", "virt9"),
];
const REDIRECT: Words = &[
    ("dual-stack", "true"),
    ("proxy-uid", "1337"),
    ("istio-inbound-ports", "*"),
    ("istio-service-cidr", "*"),
    ("istio-local-exclude-ports", "15090"),
    ("redirect-dns", "true"),
    ("dns-servers", "10.88.0.10,fd88::10"),
    ("drop-invalid", "true"),
];
const OTHERWISE_TRANSPARENT: Words = &[
    ("dual-stack", "true"),
    ("istio-inbound-interception-mode", "TPROXY"),
    ("istio-inbound-tproxy-mark", "1400"),
    ("istio-inbound-tproxy-route-table", "140"),
    ("proxy-uid", "1337"),
    ("istio-inbound-ports", "*"),
    ("istio-service-cidr", "*"),
    ("istio-exclude-interfaces", "eth9"),
    ("redirect-dns", "true"),
    ("dns-servers", "10.88.0.10,fd88::10"),
    ("drop-invalid", "true"),
];
const TRANSPARENT: Words = &[
    ("dual-stack", "true"),
    ("istio-inbound-interception-mode", "TPROXY"),
    ("proxy-uid", "1337"),
    ("istio-inbound-ports", "*"),
    ("istio-service-cidr", "*"),
];
const LINKERD: Words = &[("proxy-uid", "2102"), ("inbound-ports-to-ignore", "4190,4191")];
const OTHERWISE_LINKERD: Words =
    &[("proxy-uid", "2102"), ("outbound-ports-to-ignore", "25,587"), ("subnets-to-ignore", "192.0.2.0/24")];
const KUMA: Words = &[
    ("kuma-dp-user", "5678"),
    ("redirect-all-dns-traffic", "true"),
    ("exclude-outbound-ports", "5432"),
    ("drop-invalid-packets", "true"),
];
const OTHERWISE_KUMA: Words =
    &[("kuma-dp-user", "5678"), ("disable-comments", "true"), ("exclude-inbound-ports", "9901")];
const AMBIENT: Words = &[("dns-capture", "true")];
const OTHERWISE_AMBIENT: Words = &[("dns-capture", "false"), ("reroute-virtual-interfaces", "vm0")];

impl Goal {
    pub(crate) const REDIRECT: Self = Self::of(Mesh::Istio, REDIRECT);
    pub(crate) const PLAIN_REDIRECT: Self = Self::of(Mesh::Istio, OTHERWISE_REDIRECT);
    pub(crate) const TRANSPARENT: Self = Self::of(Mesh::Istio, TRANSPARENT);
    pub(crate) const MORE_TRANSPARENT: Self = Self::of(Mesh::Istio, OTHERWISE_TRANSPARENT);
    pub(crate) const LINKERD: Self = Self::of(Mesh::Linkerd, LINKERD);
    pub(crate) const KUMA: Self = Self::of(Mesh::Kuma, KUMA);
    pub(crate) const AMBIENT: Self = Self::of(Mesh::Ambient, AMBIENT);

    /// For each mesh, a goal that captures all TCP, and DNS queries if the mesh can, so that every table has rules. Two for
    /// Istio's sidecar, as TPROXY is another way to capture.
    pub(crate) const ALL: [Self; 5] =
        [Self::REDIRECT, Self::TRANSPARENT, Self::LINKERD, Self::KUMA, Self::AMBIENT];

    /// The same meshes with other flags: rules, chains, whole tables and routing appear and disappear.
    pub(crate) const OTHERWISE: [Self; 5] = [
        Self::PLAIN_REDIRECT,
        Self::MORE_TRANSPARENT,
        Self::of(Mesh::Linkerd, OTHERWISE_LINKERD),
        Self::of(Mesh::Kuma, OTHERWISE_KUMA),
        Self::of(Mesh::Ambient, OTHERWISE_AMBIENT),
    ];

    const fn of(mesh: Mesh, words: Words) -> Self {
        Self { mesh, words, addresses: IPV4_FIRST }
    }

    pub(crate) const fn with_ipv6_first(self) -> Self {
        Self { addresses: IPV6_FIRST, ..self }
    }

    pub(crate) fn pairs() -> impl Iterator<Item = (Self, Self)> {
        let all = Self::ALL.into_iter().flat_map(|old| Self::ALL.map(|new| (old, new)));
        all.filter(|(old, new)| old.mesh != new.mesh)
    }

    pub(crate) fn owner(self) -> Ownership {
        self.mesh.ownership()
    }

    pub(crate) fn flags(self) -> Vec<String> {
        let words = self.words.iter().map(|(name, value)| format!("--{name}={value}"));
        [format!("--mesh={}", self.mesh), format!("--pod-ips={}", self.addresses)]
            .into_iter()
            .chain(words)
            .collect()
    }

    pub(crate) fn capture(self) -> Capture {
        let setting = |(name, value): &(&str, &str)| {
            let mut rows = settings::of(self.mesh);
            let row = rows.find(|row| row.long == *name).unwrap_or_else(|| panic!("{}: --{name}", self.mesh));
            (row.setting, (*value).to_owned())
        };
        let everywhere =
            [(Setting::Mesh, self.mesh.to_string()), (Setting::PodIps, self.addresses.to_owned())];
        let raw = Raw::new(everywhere.into_iter().chain(self.words.iter().map(setting)), |_| true, |_| None);
        let resolved = mesh::resolve(&raw, &NullHost, Vec::new());
        resolved.unwrap_or_else(|problems| panic!("{self:?}: {problems}")).capture
    }

    /// Input of the mesh's own program for `iptables-restore`.
    pub(crate) fn text(self, family: Family) -> String {
        let text = render::iptables::restore(&self.capture().rules(family));
        text.replace("-m comment --comment \"sidecar-init\" ", "")
    }

    /// The desired state on behalf of this owner, computed once.
    pub(crate) fn desired(self, owner: Ownership) -> Desired {
        static KNOWN: Mutex<Vec<(Goal, Desired)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().expect("no goal is a bad one");
        if !known.iter().any(|(goal, _)| *goal == self) {
            known.push((self, self.capture().desired()));
        }
        let known = known.iter().find(|(goal, _)| *goal == self).expect("a known goal");
        Desired { owner, ..known.1.clone() }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of {}", self.mesh, self.words, self.addresses)
    }
}

impl fmt::Debug for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Options to apply with this backend, without another owner.
pub(crate) fn options(backend: BackendName) -> Options {
    let choice = match backend {
        BackendName::Iptables(variant) => Choice::Iptables(Some(variant)),
        BackendName::Nftables => Choice::Nftables,
    };
    Options::replacing(choice, OWNERS)
}
