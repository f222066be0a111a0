//! Istio's ambient mode, inside of a pod: what its node agent sets there, so that traffic goes through ztunnel.
//!
//! ztunnel runs elsewhere and opens its sockets in the pod's namespace, marked. So nothing here matches users: a mark
//! identifies the proxy's packets, and no port, network or process can be excluded. The rules are those of `cni/pkg/iptables`
//! in their order. What is set on the host, for the probes of the kubelet, is not part of a pod's rules.

mod config;
pub mod defaults;
mod limits;
mod pod;
mod provenance;
mod reason;
mod resolve;
mod routing;
mod rules;
mod settings;

pub use config::CaptureConfig;
pub use reason::Reason;
pub use resolve::{configure, probe_addresses};
pub use settings::Ambient;

use crate::facts::{ConfigKeys, ListItem, Listeners, Lists, NOTHING_LEFT, Proxy, ProxyProgram, Selector};
use crate::mesh::Mesh;
use crate::policy::CapturePolicy;
use crate::recognition::{Role, is_loopback};
use crate::registry::{Capture, MeshEntry, Recognition};
use ::rules::field::Field;
use ::rules::{
    ByFamily, Chains, Cidr, Family, Ownership, PolicyRules, RuleSet, Table, desired::StaleFlows,
    routing::Object,
};
use std::collections::BTreeSet;

/// The chains are upstream's. `ISTIO_OUTPUT` is also a chain of the sidecar's: it is ambient's where its table has
/// `ISTIO_PRERT` too. 138 is not in `/etc/iproute2/rt_protos`.
pub const OWNERSHIP: Ownership = Ownership {
    name: "Istio's ambient mode",
    mesh: "ambient",
    chains: Chains::Named(rules::INBOUND, &[rules::OUTBOUND]),
    conflicting_chains: &[],
    comment: "sidecar-init-ambient",
    comment_prefix: None,
    table: "sidecar_init_ambient",
    protocol: 138,
    policy_rules: PolicyRules {
        mask: defaults::CONNECTION_MARK.mask,
        preference: Some(defaults::PREFERENCE),
    },
    address: None,
    predecessor: Some(&provenance::ISTIO_CNI),
    opt_out: "label the pod istio.io/dataplane-mode=none",
    joined: &[],
};

/// The agent's values are those of its chart.
pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[(Ambient::DnsCapture, "true", &[]), (Ambient::Ipv6, "true", &[])],
    pods: Some(&pod::FORM),
    annotations: pod::ANNOTATIONS,
    proxy_program: ProxyProgram { name: "ztunnel", resolver: None, tunnel: Some("HBONE"), ports: &[] },
    ownership: OWNERSHIP,
    reasons: reason::ROWS,
    chains: &[
        ("ISTIO_PRERT", Role::Inbound),
        ("ISTIO_PREROUTING", Role::Inbound),
        ("ISTIO_OUTPUT", Role::Outbound),
    ],
    // Ports and mark of ztunnel can't be chosen.
    keys: ConfigKeys {
        off: None,
        on: NOTHING_LEFT,
        ipv6: (Ambient::Ipv6, "give {--ipv6}"),
        proxy: None,
        listeners: None,
    },
    limits: limits::LIMITS,
    cautions: &[],
    remedy_of_gap: ByFamily {
        v4: "set the rules again: those of ambient mode always capture IPv4",
        v6: "set the rules with --ipv6",
    },
    recognition: Recognition::of(|context| {
        let is_marked = context.role == Role::Outbound && context.summary.values(Field::Mark(0)).is_some();
        let is_answer = context.table() == Some(Table::Mangle) || is_marked && context.rule.action.passes();
        let is_own_pod = is_loopback(context.summary.values(Field::OutInterface));
        (is_answer && !is_own_pod).then_some(Reason::ProxyToApplication.into())
    }),
};

impl CapturePolicy for CaptureConfig {
    fn mesh(&self) -> Mesh {
        Mesh::Ambient
    }

    fn ipv6(&self) -> bool {
        self.ipv6
    }

    fn write(&self, family: Family) -> RuleSet {
        rules::write(self, family)
    }

    fn routing(&self) -> BTreeSet<Object> {
        routing::objects(self)
    }

    /// ztunnel's own queries are in their zone.
    fn stale_flows(&self) -> Option<StaleFlows> {
        self.dns.then(|| StaleFlows {
            port: defaults::DNS_PORT.number(),
            destinations: None,
            except_zone: defaults::PROXY_ZONE,
            families: Family::captured(self.ipv6).collect(),
        })
    }

    fn without_dns(&self) -> Capture {
        Self { dns: false, ..self.clone() }.into()
    }

    fn ipv4_alone(&self) -> Capture {
        Self { ipv6: false, ..self.clone() }.into()
    }

    fn proxy(&self) -> Proxy {
        Proxy {
            listeners: Listeners {
                outbound: Some(defaults::OUTBOUND_LISTENER.into()),
                inbound: (!self.ingress).then_some(defaults::INBOUND_LISTENER.into()),
                dns: self.dns.then_some(defaults::DNS_LISTENER),
                tunnel: Some(defaults::TUNNEL_PORT),
                transparent: None,
            },
            uids: Vec::new(),
            gids: Vec::new(),
            mark: Some(defaults::PROXY_MARK),
            passthrough: None,
        }
    }

    fn lists(&self) -> Vec<ListItem> {
        let mut lists = Lists::default();
        let machines = self.interfaces.clone();
        lists.add(Ambient::RerouteInterfaces, true, machines, Selector::VmInterface);
        let probes = Family::captured(self.ipv6).flat_map(|family| {
            let address = Cidr::host(self.probe_address(family));
            let calls_in = (!self.ingress).then_some(Selector::Source(address));
            calls_in.into_iter().chain([Selector::Destination(address)])
        });
        lists.add(Ambient::ProbeAddress, false, probes, |selector| selector);
        lists.0
    }
}
