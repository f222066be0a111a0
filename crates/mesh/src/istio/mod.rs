//! Istio's sidecar: the capture of `istio-iptables`.

pub mod annotations;
mod config;
pub mod defaults;
mod rules;
mod settings;

pub use crate::facts::DnsCapture;
pub use config::{CaptureConfig, Interception};
pub use rules::Reason;

pub(crate) use config::configure;
pub(crate) use rules::write;

use crate::facts::{ConfigKeys, Ipv6Advice, ListItem, Listeners, Lists, Proxy, ProxyProgram, Selector};
use crate::recognition::{RecognizedRule, Role, RuleContext, RuleSummary};
use crate::registry::{Capture, MeshEntry, Recognition};
use crate::{RuleReason, Setting, ambient, limit::Caution, policy::PolicyFacts, sources::Raw};
use ::rules::Hook::{self, Output, Postrouting, Prerouting};
use ::rules::Proof::{self, Form, NoComments, Position, Table as OfTable};
use ::rules::Table::{self, Mangle, Nat};
use ::rules::field::{Condition, Field, Intervals};
use ::rules::{
    ByFamily, Chains, Cidr, Family, Ownership, Pattern, PolicyRules, Predecessor, Protocol, finding::Code,
    simulate::ViewRule,
};
use config::TPROXY_TABLE;
use defaults::{LOG_GROUP, PASSTHROUGH_V6, TPROXY_MARK, TUNNEL_PORT};

/// Pods of no other mesh are Istio's; [`crate::settings::mapping`] lists their settings.
pub(crate) static ENTRY: MeshEntry = MeshEntry {
    settings: settings::TABLE,
    injector_defaults: &[
        (Setting::InboundPorts, "*", &[]),
        (Setting::InboundPortsExclude, "15090,15021,15020", &[Setting::InboundPorts]),
        (Setting::ServiceCidr, "*", &[]),
        (Setting::DualStack, "true", &[]),
    ],
    pods: None,
    annotations: annotations::ALL,
    proxy_program: ProxyProgram {
        name: "Envoy",
        resolver: Some("agent"),
        tunnel: Some("HBONE"),
        ports: &defaults::SERVED_PORTS,
    },
    reasons: rules::REASONS,
    chains: rules::CHAINS,
    keys: ConfigKeys {
        off: Some((
            Setting::InterceptionMode,
            "give REDIRECT or TPROXY, or drop the options that select traffic",
        )),
        on: (
            Some(Setting::ServiceCidr),
            "give options that capture traffic, such as {-i} '*' and {-b} '*', or {-m} NONE",
        ),
        ipv6: (Setting::DualStack, "give {--dual-stack}"),
        proxy: Some(Setting::ProxyUid),
        listeners: Some([Setting::EnvoyPort, Setting::InboundCapturePort]),
    },
    without_ipv6: Some(without_ipv6),
    limits: &[],
    cautions: &[
        Caution::of_invalid_packets(Setting::DropInvalid, "give {--drop-invalid}"),
        Caution {
            code: Code::VmWithTproxy,
            is_warning: true,
            setting: Setting::VmInterfaces,
            applies: |facts| facts.captures_inbound && facts.is_transparent() && facts.has_machines(),
            text: "with TPROXY, virtual machines' traffic is captured as inbound, and their excluded connections \
                   never open: replies are mistaken for the proxy's",
            remedy: "use {-m} REDIRECT",
        },
        Caution {
            code: Code::PortsCollide,
            is_warning: false,
            setting: Setting::InboundCapturePort,
            applies: |facts| facts.joins_ports() && !facts.is_transparent(),
            text: "several ports are redirected to one, so a client's connections from the same source port collide",
            remedy: "give a port range, if the proxy can listen on one, or use TPROXY",
        },
        Caution::unused(
            Setting::InboundPortsExclude,
            |facts| !facts.is(Setting::InboundPorts, "*"),
            "it excludes ports from {-b} '*', which is not given",
            "drop the option, or give {-b} '*' to capture all other ports",
        ),
        Caution::unused(
            Setting::OutboundPorts,
            |facts| facts.is(Setting::ServiceCidr, "*"),
            "it lists ports that {-i} '*' captures anyway",
            "drop the option",
        ),
        Caution::unused(
            Setting::OwnerGroupsExclude,
            |facts| facts.raw.get(Setting::OwnerGroups).is_some() && !facts.is(Setting::OwnerGroups, "*"),
            "it excludes groups, but only a list of groups is captured",
            "drop the variable",
        ),
        Caution::unused(
            Setting::TproxyMark,
            |facts| !facts.is(Setting::InterceptionMode, "TPROXY"),
            "it marks packets in TPROXY mode, which is off",
            "drop the option, or give {-m} TPROXY",
        ),
        Caution::unused(
            Setting::TproxyRouteTable,
            |facts| !facts.is(Setting::InterceptionMode, "TPROXY"),
            "it routes packets in TPROXY mode, which is off",
            "drop the option, or give {-m} TPROXY",
        ),
        Caution::unused(
            Setting::DnsServers,
            |facts| !facts.raw.is_on(Setting::RedirectDns),
            "it names servers, but DNS is not captured",
            "drop the option, or give {--redirect-dns}",
        ),
        Caution::unused(
            Setting::DnsServers,
            |facts| facts.raw.is_on(Setting::RedirectDns) && facts.raw.is_on(Setting::CaptureAllDns),
            "it names servers, but queries to any server are captured",
            "drop the option, or {--capture-all-dns}",
        ),
        Caution::unused(
            Setting::ServiceExcludeCidr,
            |facts| !facts.has(Setting::ServiceCidr) && !facts.has(Setting::OutboundPorts),
            "it excludes networks, but no outbound network is captured",
            "drop the option, or give {-i}",
        ),
    ],
    remedy_of_gap: ByFamily {
        v4: "set the rules with the pod's IPv4 address in --pod-ips",
        v6: "set the rules with --dual-stack, and add the address to --pod-ips if given",
    },
    recognition: RECOGNITION,
};

pub fn of(capture: &Capture) -> Option<&CaptureConfig> {
    match capture {
        Capture::Istio(config) => Some(config),
        _ => None,
    }
}

pub(crate) fn facts(config: &CaptureConfig) -> PolicyFacts {
    let proxy = Proxy {
        uids: config.proxy_uids.clone(),
        gids: config.proxy_gids.clone(),
        has_passthrough: true,
        ..Proxy::default()
    };
    if config.interception == Interception::None {
        return PolicyFacts { ipv6: config.ipv6, captures_nothing: true, proxy, ..PolicyFacts::default() };
    }
    let listeners = Listeners {
        outbound: Some(config.outbound_listener),
        // The proxy's calls to its pod arrive here, regardless of captured ports.
        inbound: Some(config.inbound_listener),
        dns: (config.dns != DnsCapture::Off).then_some(defaults::AGENT_PORT),
        tunnel: Some(config.tunnel_port),
        transparent: match config.interception {
            Interception::Tproxy { mark, .. } => Some(mark),
            Interception::Redirect | Interception::None => None,
        },
    };
    PolicyFacts {
        ipv6: config.ipv6,
        captures_nothing: false,
        routing: rules::routing(config),
        stale_flows: config.dns.stale_flows(config.ipv6),
        proxy: Proxy { listeners, ..proxy },
    }
}

pub(crate) fn without_dns(config: CaptureConfig) -> CaptureConfig {
    CaptureConfig { dns: DnsCapture::Off, ..config }
}

fn without_ipv6(raw: &Raw, names_it: bool) -> Ipv6Advice {
    let is_requested = raw.is_on(Setting::DualStack);
    let why = match is_requested {
        false => "IPv6 is not captured in this pod: its first address is not IPv6",
        true => "IPv6 is not captured in this pod: none of its declared addresses is IPv6",
    };
    let (setting, remedy) = match (names_it, raw.get(Setting::PodIps).is_some(), is_requested) {
        (true, ..) => (Setting::PodIps, "give {--dual-stack}"),
        (false, true, true) => (Setting::PodIps, "name it in --pod-ips"),
        (false, true, false) => (Setting::PodIps, "name it in --pod-ips, and give {--dual-stack}"),
        (false, false, false) => (Setting::DualStack, "give {--dual-stack}"),
        (false, false, true) => (Setting::DualStack, "run this again: the address has just appeared"),
    };
    Ipv6Advice { why, setting, remedy }
}

/// List items except networks of an uncaptured family; the reader already warned about these.
pub(crate) fn lists(config: &CaptureConfig) -> Vec<ListItem> {
    const BOTH: &[Protocol] = &[Protocol::Tcp, Protocol::Udp];
    let mut lists = Lists::default();
    let of_inbound = [Setting::InboundPorts, Setting::InboundPortsExclude];
    lists.select(of_inbound, &config.inbound_ports, Selector::InboundPort);
    if config.interception != Interception::None {
        lists.add(Setting::InboundTunnelPort, false, &[config.tunnel_port], Selector::Tunnel);
    }
    let is_captured = |cidr: &&Cidr| cidr.family() == Family::V4 || config.ipv6;
    let included = config.outbound_cidrs.iter().flatten().filter(is_captured);
    lists.add(Setting::ServiceCidr, true, included, Selector::Destination);
    let excluded = config.excluded_cidrs.iter().filter(is_captured);
    lists.add(Setting::ServiceExcludeCidr, false, excluded, Selector::Destination);
    lists.add(Setting::OutboundPorts, true, &config.outbound_ports, Selector::outbound_tcp);
    let both = |ports| Selector::OutboundPort(ports, BOTH);
    lists.add(Setting::OutboundPortsExclude, false, &config.excluded_outbound_ports, both);
    if let DnsCapture::Servers(servers) = &config.dns {
        lists.add(Setting::RedirectDns, true, servers, Selector::Server);
    }
    lists.add(Setting::ExcludeInterfaces, false, &config.excluded_interfaces, Selector::Interface);
    lists.add(Setting::VmInterfaces, true, &config.vm_interfaces, Selector::VmInterface);
    let of_groups = [Setting::OwnerGroups, Setting::OwnerGroupsExclude];
    lists.select(of_groups, &config.owner_groups, Selector::Group);
    lists.0
}

/// The chain prefix is upstream's; protocol 137 is unassigned (`/etc/iproute2/rt_protos`).
pub const OWNERSHIP: Ownership = Ownership {
    name: "Istio's sidecar",
    mesh: "istio",
    chains: Chains::Prefix(PREFIX),
    conflicting_chains: &CONFLICTING,
    comment: "sidecar-init",
    comment_prefix: None,
    table: "sidecar_init",
    protocol: 137,
    policy_rules: PolicyRules::PLAIN,
    address: Some(PASSTHROUGH_V6),
    predecessor: Some(&ISTIO_IPTABLES),
    opt_out: "label the pod sidecar.istio.io/inject=false",
    joined: &[],
};

pub const PREFIX: &str = "ISTIO_";

/// Upstream's `tools/istio-iptables` and `tools/istio-nftables`. Their rules equal ours except for our comment in base chains.
const ISTIO_IPTABLES: Predecessor = Predecessor {
    name: "istio-iptables",
    patterns: &PATTERNS,
    log_group: Some(LOG_GROUP),
    policy_rule: Some((TPROXY_MARK, TPROXY_TABLE)),
    tables: &["istio-proxy-nat", "istio-proxy-mangle", "istio-proxy-raw"],
};

const PATTERNS: [Pattern; 16] = [
    pattern(Nat, Prerouting, "-i * -j RETURN", Position),
    pattern(Nat, Output, "-o * -j RETURN", Position),
    pattern(Mangle, Prerouting, "-i * -j RETURN", Position),
    pattern(Mangle, Output, "-o * -j RETURN", Position),
    // Until Istio 1.20; later versions have another chain.
    pattern(Mangle, Prerouting, "-m conntrack --ctstate INVALID -j DROP", OfTable),
    pattern(Mangle, Prerouting, "-p tcp -m mark --mark 1337 -j CONNMARK --save-mark", Form),
    pattern(Mangle, Prerouting, "-p tcp -m mark --mark # -j CONNMARK --save-mark", OfTable),
    pattern(Mangle, Output, "-o lo -p tcp -m mark --mark 1337 -j RETURN", Form),
    pattern(Mangle, Output, "-o lo -p tcp -m mark --mark # -j RETURN", OfTable),
    pattern(Mangle, Output, "! -d * -o lo -p tcp -m owner --*id-owner * -j MARK --set-mark 1338", Form),
    pattern(Mangle, Output, "-p tcp -m connmark --mark 1337 -j CONNMARK --restore-mark", Form),
    pattern(Mangle, Output, "-p tcp -m connmark --mark # -j CONNMARK --restore-mark", OfTable),
    // Istio 1.7 to 1.9: DNS, ports 15013 and 15053, and packets from loopback.
    pattern(Nat, Output, "-p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.1:150*3", Form),
    pattern(Nat, Postrouting, "-p udp -m udp --dport 150*3 -j SNAT --to-source 127.0.0.1", Form),
    pattern(Nat, Output, "-p udp --dport 53 -m owner --*id-owner * -j RETURN", NoComments),
    pattern(Mangle, Output, "-s * ! -d 127.0.0.1/32 -p tcp -j MARK --set-mark 1337", Form),
];

const fn pattern(table: Table, hook: Hook, rule: &'static str, proof: Proof) -> Pattern {
    Pattern { table, hook, rule, proof }
}

/// Ambient mode's chains with the sidecar's prefix: in pods, and on the host for kubelet probes.
const CONFLICTING: [Chains; 2] = [ambient::OWNERSHIP.chains, Chains::Named("ISTIO_POSTRT", &[])];

/// Recognizes rules without a stored reason by features unique to Istio.
const RECOGNITION: Recognition = Recognition {
    special: tunnel,
    setting: |reason, context| match reason.settings() {
        [of_user, of_group] => {
            Some(*if context.summary.values(Field::Gid).is_some() { of_group } else { of_user })
        }
        all => all.first().copied(),
    },
    refine: groups_of_the_proxy,
};

/// Until Istio 1.9, the proxy's calls to its pod's tunnel were redirected, so only the default port identifies the tunnel rule.
fn tunnel(context: &RuleContext<'_>) -> Option<RuleReason> {
    let ports = &context.summary.ports()?.values;
    let is_alone = context.table() == Some(Nat) && context.is_first() && ports.single().is_some();
    if !is_alone || context.role != Role::Inbound || !context.rule.action.passes() {
        return None;
    }
    let of_proxy = |rule: &ViewRule| RuleSummary::of(&rule.conditions).ports().cloned();
    let mut of_proxy = context.view().chains().iter().flat_map(|chain| &chain.rules).filter_map(of_proxy);
    let is_tunnels = *ports == Intervals::one(TUNNEL_PORT.number().into())
        || of_proxy.any(|but| but.negated && ports.within(&but.values));
    is_tunnels.then_some(Reason::TunnelPort)
}

/// An excluded group is the proxy's if the proxy's other rules match the group.
fn groups_of_the_proxy(found: &mut [RecognizedRule<'_>]) {
    let names_proxy = |recognized: &&RecognizedRule<'_>| {
        [Some(Reason::ProxyCallsOwnPod), Some(Reason::ApplicationLoopback)].contains(&recognized.reason)
    };
    let of_proxy = found
        .iter()
        .filter(names_proxy)
        .filter_map(|recognized| Some(recognized.summary.values(Field::Gid)?.values.ranges().to_vec()));
    let of_proxy: Intervals = of_proxy.flatten().collect();
    for recognized in found {
        let others = |groups: &Condition| !groups.values.meets(&of_proxy);
        if recognized.reason == Some(Reason::ProxyOutbound)
            && recognized.rule.origin.is_none()
            && RuleReason::of_comment(&recognized.rule.comment).is_none()
            && recognized.summary.values(Field::Gid).is_some_and(others)
        {
            recognized.reason = Some(Reason::ExcludedGroup);
            recognized.setting = Some(Setting::OwnerGroupsExclude);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognition::recognized;
    use crate::{Mesh, OWNERS};
    use ::rules::simulate::View;
    use ::rules::{Chain, Family, inheritance, parse, render::iptables::appended};

    const CHAINS: &str = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    const JUMP: &str = "-A OUTPUT -j ISTIO_OUTPUT\n";

    fn check(table: Table, rules: &str, inherited: &[&str], doubtful: &[&str]) {
        let text = format!("*{table}\n{CHAINS}{rules}COMMIT\n");
        let state = parse::save(&text, Family::V4, &OWNERSHIP).expect("a listing");
        let lines = state
            .chains(table)
            .flat_map(|(chain, chain_rules)| chain_rules.iter().map(move |line| (chain, line)));
        let found = lines.filter(|(_, line)| line.is_inherited());
        let found: Vec<String> = found.map(|(chain, line)| appended(chain, line)).collect();
        assert_eq!(found, inherited, "inherited of\n{rules}");
        let found = inheritance::doubtful(&state, &OWNERSHIP);
        let found: Vec<String> = found.map(|(_, hook, line)| appended(&Chain::Base(hook), line)).collect();
        assert_eq!(found, doubtful, "doubtful of\n{rules}");
    }

    #[test]
    fn only_forms_unique_to_istio_are_inherited() {
        let save = "-A PREROUTING -p tcp -m mark --mark 1337 -j CONNMARK --save-mark";
        let mark = "-A OUTPUT ! -d ::1/128 -p tcp -o lo -m owner --uid-owner 7 -j MARK --set-mark 1338";
        check(Table::Mangle, &format!("{save}\n"), &[save], &[]);
        check(Table::Nat, &format!("{save}\n"), &[], &[]);
        check(Table::Mangle, &format!("{}\n", save.replace("tcp", "udp")), &[], &[]);
        check(Table::Mangle, &format!("{}\n", save.replace("--mark 1337", "--mark 1337/0xff")), &[], &[]);
        check(Table::Mangle, &format!("{}\n", save.replace("-m mark", "-i eth0 -m mark")), &[], &[]);
        let other = save.replace("1337", "7");
        check(Table::Mangle, &format!("{other}\n"), &[], &[&other]);
        let mark = mark.replace("::1/128", "127.0.0.1/32").replace("-p tcp -o lo", "-o lo -p tcp");
        check(Table::Mangle, &format!("{other}\n{mark}\n"), &[&other, &mark], &[]);
    }

    #[test]
    fn older_rules_for_dns_are_inherited() {
        let own = "-A OUTPUT -p udp --dport 53 -m owner --uid-owner 7 -j RETURN";
        let query = "-A OUTPUT -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.1:15053";
        check(Table::Nat, &format!("{own}\n{query}\n{JUMP}"), &[own, query], &[]);
        check(Table::Nat, &format!("{own}\n{}\n", query.replace("15053", "4053")), &[], &[]);
        // Kuma writes some of the same rules; these are not Kuma's.
        let text = format!("*nat\n{CHAINS}{own}\n{query}\n{JUMP}COMMIT\n");
        let state = parse::save(&text, Family::V4, &OWNERSHIP.union(OWNERS)).expect("a listing");
        let count = |mesh: Mesh| state.seen_by(&mesh.ownership()).count_of(&mesh.ownership());
        assert_eq!([Mesh::Istio, Mesh::Kuma].map(count), [3, 0]);
        let mark = "-A OUTPUT -s 127.0.0.1/32 ! -d 127.0.0.1/32 -p tcp -j MARK --set-mark 1337";
        check(Table::Mangle, &format!("{mark}\n"), &[mark], &[]);
    }

    #[test]
    fn interface_rules_are_recognized_by_their_neighbours() {
        let (inbound, outbound) = ("-A PREROUTING -i eth5 -j RETURN", "-A OUTPUT -o eth5 -j RETURN");
        let both = format!("{inbound}\n{outbound}\n");
        check(Table::Nat, &both, &[], &[inbound, outbound]);
        check(Table::Nat, &format!("{both}{JUMP}"), &[inbound, outbound], &[]);
        // Upstream inserts no such rule after the jump.
        check(Table::Nat, &format!("{JUMP}{outbound}\n"), &[], &[outbound]);
        // Upstream writes both rules or neither.
        check(Table::Nat, &format!("{outbound}\n{JUMP}"), &[], &[outbound]);
    }

    #[test]
    fn chains_of_ambient_mode_are_not_the_sidecars() {
        let rules = ":ISTIO_PRERT - [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_INBOUND - [0:0]\n\
                     -A PREROUTING -j ISTIO_PRERT\n-A OUTPUT -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -j ACCEPT\n";
        let state =
            parse::save(&format!("*nat\n{CHAINS}{rules}COMMIT\n"), Family::V4, &OWNERSHIP).expect("valid");
        assert_eq!(state.count_of(&OWNERSHIP), 0);
        let owned: Vec<String> =
            state.part_of(&OWNERSHIP).chains(Table::Nat).map(|(chain, _)| chain.to_string()).collect();
        assert_eq!(owned, ["PREROUTING", "OUTPUT", "ISTIO_INBOUND"]);
    }

    fn owner(mesh_rules: &str, table: &str, rule: &str) -> Option<Mesh> {
        let tables = ["raw", "mangle", "nat", "filter"].map(|name| {
            let of_mesh = if name == "nat" { mesh_rules } else { "" };
            let added = if name == table { rule } else { "" };
            let chain = rule.split(' ').nth(1).expect("a chain");
            format!("*{name}\n:{chain} ACCEPT [0:0]\n:ISTIO_INBOUND - [0:0]\n{of_mesh}\n{added}\nCOMMIT\n")
        });
        let view = View::of_listing(parse::listing(&tables.concat(), Family::V4).expect("a listing"));
        let is_added =
            |found: &&RecognizedRule<'_>| found.chain.table == table && found.rule.leads_to.is_none();
        recognized(&view).iter().find(is_added).map(|found| found.mesh)
    }

    #[test]
    fn rules_without_comments_are_recognized_by_form() {
        let reached = ":PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -j ISTIO_INBOUND";
        let call = "-A OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner";
        let marked =
            ["--uid-owner", "--gid-owner"].map(|id| format!("{call} {id} 1337 -j MARK --set-xmark 0x53a"));
        let owned = [
            ("nat", "-A OUTPUT -o net1 -j RETURN"),
            ("nat", "-A PREROUTING -i vm0 -j RETURN"),
            ("mangle", "-A OUTPUT -o lo -p tcp -m mark --mark 0x539 -j RETURN"),
            ("mangle", "-A OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark"),
            ("mangle", "-A PREROUTING -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark"),
            ("mangle", &*marked[0]),
            ("mangle", &*marked[1]),
        ];
        for (table, rule) in owned {
            assert_eq!(owner(reached, table, rule), Some(Mesh::Istio), "{table}: {rule}");
            assert_eq!(owner("", table, rule), None, "without the mesh, {table}: {rule}");
        }
        for (table, rule) in [
            ("filter", "-A OUTPUT -o net1 -j RETURN"),
            ("filter", "-A OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark"),
            ("mangle", "-A OUTPUT -o net1 -j RETURN"),
            ("nat", "-A OUTPUT ! -o net1 -j RETURN"),
            ("nat", "-A OUTPUT -j RETURN"),
            ("nat", "-A OUTPUT -o net1 -j ACCEPT"),
            ("nat", "-A OUTPUT -d 10.0.0.0/8 -o net1 -j RETURN"),
            ("nat", "-A OUTPUT -s 10.0.0.0/8 -o net1 -j RETURN"),
            ("nat", "-A OUTPUT -o net1 -p tcp -m tcp --dport 22 -j RETURN"),
            ("mangle", "-A PREROUTING -m conntrack --ctstate INVALID -j DROP"),
            ("mangle", "-A PREROUTING -i lo -m mark --mark 0x539 -j RETURN"),
            ("mangle", "-A OUTPUT -p tcp -j CONNMARK --restore-mark"),
            ("mangle", "-A OUTPUT -o lo -p tcp -j MARK --set-xmark 0x53a"),
        ] {
            assert_eq!(owner(reached, table, rule), None, "{table}: {rule}");
        }
    }
}
