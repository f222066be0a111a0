//! Kuma: the capture of `kumactl install transparent-proxy`.

mod config;
mod pod;
mod rules;
mod settings;

pub use config::{CaptureConfig, Flow, OwnerPorts, VirtualNetwork, unknown_user};
pub use rules::Reason;
pub use settings::Kuma;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{
    ConfigKeys, DnsCapture, ListItem, Listeners, Lists, PASSTHROUGH_V6, Proxy, ProxyProgram, Selector,
};
use crate::limit::{Caution, excluded};
use crate::registry::{MeshEntry, Recognition, v4_always};
use crate::{RuleReason, policy::PolicyFacts, recognition::RuleContext};
use ::rules::Hook::{self, Output, Prerouting};
use ::rules::Table::{self, Nat, Raw};
use ::rules::{Chains, Ownership, Pattern, PolicyRules, Predecessor, Proof, routing::Object};

pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[(Kuma::CaptureAllDns, "true", &[Kuma::RedirectDns])],
    pods: Some(&pod::FORM),
    annotations: pod::ANNOTATIONS,
    proxy_program: ProxyProgram { name: "Envoy (kuma-dp)", resolver: None, tunnel: None, ports: &[] },
    reasons: rules::REASONS,
    chains: rules::CHAINS,
    limits: &[],
    keys: ConfigKeys::of_all(
        (Kuma::IpFamilyMode, "set {--ip-family-mode} to dualstack"),
        Some(Kuma::ProxyUser),
        Some([Kuma::OutboundPort, Kuma::InboundPort]),
    ),
    without_ipv6: None,
    cautions: &[
        Caution::of_invalid_packets(Kuma::DropInvalid, "give {--drop-invalid-packets}"),
        excluded!(Kuma::InboundPortsExclude, beside Kuma::InboundPortsInclude, "include-inbound-ports"),
        excluded!(Kuma::OutboundPortsExclude, beside Kuma::OutboundPortsInclude, "include-outbound-ports"),
    ],
    remedy_of_gap: v4_always!("Kuma", "--ip-family-mode dualstack"),
    recognition: RECOGNITION,
};

pub(crate) fn facts(config: &CaptureConfig) -> PolicyFacts {
    let CaptureConfig { ipv6, inbound, outbound, dns, .. } = config;
    let (captures_dns, machines) = (*dns != DnsCapture::Off, !config.networks.is_empty());
    let listeners = Listeners {
        outbound: (outbound.is_captured || machines).then_some(outbound.listener.into()),
        inbound: (inbound.is_captured || outbound.is_captured).then_some(inbound.listener.into()),
        dns: (captures_dns || machines).then_some(config.dns_listener),
        ..Listeners::default()
    };
    PolicyFacts {
        ipv6: *ipv6,
        captures_nothing: !inbound.is_captured && !outbound.is_captured && !captures_dns && !machines,
        routing: ipv6.then_some(Object::Address(PASSTHROUGH_V6)).into_iter().collect(),
        stale_flows: dns.stale_flows(*ipv6),
        proxy: Proxy { listeners, uids: vec![config.proxy_uid], has_passthrough: true, ..Proxy::default() },
    }
}

pub(crate) fn without_dns(config: CaptureConfig) -> CaptureConfig {
    CaptureConfig { dns: DnsCapture::Off, ..config }
}

pub(crate) fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    let CaptureConfig { inbound, outbound, .. } = config;
    let mut lists = Lists::default();
    let of_inbound = [Kuma::InboundPortsInclude, Kuma::InboundPortsExclude];
    lists.select(of_inbound, &inbound.ports, Selector::InboundPort);
    let of_outbound = [Kuma::OutboundPortsInclude, Kuma::OutboundPortsExclude];
    lists.select(of_outbound, &outbound.ports, Selector::outbound_tcp);
    lists.add(Kuma::InboundIpsExclude, false, &inbound.excluded, Selector::Source);
    lists.add(Kuma::OutboundIpsExclude, false, &outbound.excluded, Selector::Destination);
    lists.add(Kuma::OutboundPortsForUids, false, &config.excluded_owners, |owner| Selector::User(owner.uids));
    if let DnsCapture::Servers(servers) = &config.dns {
        lists.add(Kuma::RedirectDns, true, servers, Selector::Server);
    }
    lists.add(Kuma::Vnet, true, &config.networks, |network| Selector::VmInterface(network.interface));
    lists.0
}

/// Comment prefix by which upstream recognizes its rules.
pub(super) const COMMENTS: &str = "kuma/mesh/transparent/proxy/";

/// Chains and comments are upstream's; protocol 139 is unassigned (`/etc/iproute2/rt_protos`).
pub const OWNERSHIP: Ownership = Ownership {
    name: "Kuma",
    mesh: "kuma",
    chains: Chains::Prefix("KUMA_MESH_"),
    conflicting_chains: &[],
    comment: "kuma/mesh/transparent/proxy/rule",
    comment_prefix: Some(COMMENTS),
    table: "sidecar_init_kuma",
    protocol: 139,
    policy_rules: PolicyRules::PLAIN,
    address: Some(PASSTHROUGH_V6),
    predecessor: Some(&KUMACTL),
    opt_out: "label the pod kuma.io/sidecar-injection=disabled",
    joined: &[],
};

/// Chains and comments identify kumactl's rules; without comments, conditions and targets identify rules outside the chains.
const KUMACTL: Predecessor =
    Predecessor { name: "kumactl", patterns: &PATTERNS, log_group: None, policy_rule: None, tables: &[] };

/// Omits harmless rules that other programs write too: network exclusions, and drops of INVALID packets.
const PATTERNS: [Pattern; 18] = [
    of(Raw, Prerouting, "-p udp --sport 53 -j CT --zone 1"),
    of(Raw, Prerouting, "-s * -p udp --sport 53 -j CT --zone 1"),
    of(Raw, Output, "-p udp --dport 53 -m owner --*id-owner * -j CT --zone 1"),
    of(Raw, Output, "-p udp --sport * -m owner --*id-owner * -j CT --zone 2"),
    of(Raw, Output, "-p udp --dport 53 -j CT --zone 2"),
    of(Raw, Output, "-d * -p udp --dport 53 -j CT --zone 2"),
    of(Raw, Output, "-s * -d * -p udp -j CT --zone 1"),
    of(Nat, Prerouting, "-j LOG --log-prefix PREROUTING: --log-level *"),
    of(Nat, Prerouting, "-i * -p udp --dport 53 -j REDIRECT --to-ports *"),
    of(Nat, Prerouting, "! -d * -i * -p tcp -j REDIRECT --to-ports *"),
    of(Nat, Output, "-j LOG --log-prefix OUTPUT: --log-level *"),
    of(Nat, Output, "-p tcp -m multiport --dports * -m owner --*id-owner * -j RETURN"),
    of(Nat, Output, "-p udp -m multiport --dports * -m owner --*id-owner * -j RETURN"),
    of(Nat, Output, "-p udp --dport 53 -m owner --*id-owner * -j RETURN"),
    of(Nat, Output, "-p udp --dport 53 -m owner --*id-owner * -j DOCKER_OUTPUT"),
    of(Nat, Output, "-p tcp --dport 53 -m owner ! --uid-owner * -j RETURN"),
    of(Nat, Output, "-p udp --dport 53 -j REDIRECT --to-ports *"),
    of(Nat, Output, "-d * -p udp --dport 53 -j REDIRECT --to-ports *"),
];

const fn of(table: Table, hook: Hook, rule: &'static str) -> Pattern {
    Pattern { table, hook, rule, proof: Proof::NoComments }
}

/// Our rules' comments end with the reason's name. Upstream's comments are prose, or disabled.
const RECOGNITION: Recognition = Recognition {
    special: |context| {
        let name = context.summary.comment.as_deref()?.strip_prefix(COMMENTS)?;
        RuleReason::named(&format!("kuma-{name}"))
    },
    setting: |reason, RuleContext { summary, rule, .. }| match reason.settings() {
        // The rule that captures all ports comes from no port list.
        [Kuma::InboundPortsInclude | Kuma::OutboundPortsInclude] if summary.ports().is_none() => None,
        [one] => Some(*one),
        // If all DNS is captured, the rule names no server.
        [of_servers, of_all] if summary.udp && rule.action.captures() => {
            let has_server = summary.destination().is_some() || summary.source().is_some();
            Some(*if has_server { of_servers } else { of_all })
        }
        _ => None,
    },
    refine: |_| {},
};

#[cfg(test)]
mod tests {
    use super::*;
    use ::rules::{Family, ListedRule, inheritance, parse, render::iptables::appended};

    const CHAINS: &str = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    const JUMPS: &str = "-A PREROUTING -p tcp -j KUMA_MESH_INBOUND\n-A OUTPUT -p tcp -j KUMA_MESH_OUTBOUND\n";

    /// Expects these inherited rules in the tables raw and nat, and no doubtful ones.
    fn check(raw: &str, nat: &str, inherited: &[&str]) {
        let text = format!(
            "*raw\n{CHAINS}{raw}COMMIT\n*nat\n{CHAINS}:KUMA_MESH_INBOUND - [0:0]\n:KUMA_MESH_OUTBOUND - [0:0]\n{nat}COMMIT\n"
        );
        let state = parse::save(&text, Family::V4, &OWNERSHIP).expect("a listing");
        let lines = state.tables.values().flatten();
        let lines = lines.flat_map(|(chain, chain_rules)| chain_rules.iter().map(move |line| (chain, line)));
        let found = lines.filter(|(_, line)| matches!(line, ListedRule::Inherited(_)));
        let mut found: Vec<String> = found.map(|(chain, line)| appended(chain, line)).collect();
        found.sort();
        let mut expected: Vec<&str> = inherited.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{text}");
        assert_eq!(inheritance::doubtful(&state, &OWNERSHIP).count(), 0, "{text}");
    }

    #[test]
    fn kuma_rules_are_recognized_without_comments_if_none_has_one() {
        let raw = [
            "-A OUTPUT -p udp --dport 53 -m owner --uid-owner 5678 -j CT --zone 1",
            "-A OUTPUT -p udp --sport 15053 -m owner --uid-owner 5678 -j CT --zone 2",
            "-A PREROUTING -s 10.0.0.10/32 -p udp --sport 53 -j CT --zone 1",
        ];
        let nat = [
            "-A OUTPUT -p tcp -m multiport --dports 1900,1000:2000 -m owner --uid-owner 106 -j RETURN",
            "-A OUTPUT -p udp --dport 53 -m owner --uid-owner 5678 -j RETURN",
            "-A OUTPUT -d 10.0.0.10/32 -p udp --dport 53 -j REDIRECT --to-ports 15053",
            "-A PREROUTING ! -d 172.18.0.0/16 -i br+ -p tcp -j REDIRECT --to-ports 15001",
        ];
        let others = "-A OUTPUT -d 192.0.2.1/32 -j RETURN\n-A OUTPUT -p udp --dport 5353 -j REDIRECT --to-ports 15053\n\
                      -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 15001\n";
        let text = |rules: &[&str]| rules.iter().map(|rule| format!("{rule}\n")).collect::<String>();
        let (raw_text, nat_text) = (text(&raw), text(&nat));
        check(&raw_text, &format!("{nat_text}{others}{JUMPS}"), &[&raw[..], &nat].concat());
        // Without a jump, nothing identifies Kuma; after a commented jump, only comments do.
        check(&raw_text, &format!("{nat_text}{others}"), &[]);
        let comment =
            "-A OUTPUT -p tcp -m comment --comment \"kuma/mesh/transparent/proxy/x\" -j KUMA_MESH_OUTBOUND\n";
        check(&raw_text, &format!("{nat_text}{others}{comment}"), &[]);
        let bare = "-A PREROUTING -p tcp -j KUMA_MESH_INBOUND\n";
        check(&raw_text, &format!("{nat_text}{bare}{comment}"), &[]);
    }
}
