//! Rules for one family, in the order in which they take effect, and as `proxy-init`'s commands.

use super::config::{COMMENTS, CaptureConfig, OWNERSHIP};
use super::settings::Linkerd;
use crate::writing::{
    Comments, OUTPUT, PREROUTING, RuleWriter, add_rules, any_of, chains, from, group, jump, port, redirect,
    tcp, to_loopback, user,
};
use crate::{policy::CapturePolicy, reason::reasons};
use rules::Table::Nat;
use rules::Target::Return;
use rules::{Chain, Family, Match, PortRange, PortSet, Position, Rule, RuleSet, Statement};

reasons! {
    Linkerd of Linkerd;
    IgnoredInboundPort "linkerd-ignored-inbound-port" ExcludedInboundPort [InboundPortsToIgnore],
        "{option} excludes its port", of "{option} excludes {value}";
    IgnoredOutboundPort "linkerd-ignored-outbound-port" ExcludedOutboundPort [OutboundPortsToIgnore],
        "{option} excludes its port", of "{option} excludes {value}";
    IgnoredSubnet "linkerd-ignored-subnet" ExcludedSource [SubnetsToIgnore], "{option} excludes calls from its network";
    Inbound "linkerd-inbound" Inbound [];
    InboundPort "linkerd-inbound-port" InboundPort [PortsToRedirect], "{option} lists its port";
    Loopback "linkerd-loopback" Loopback [], "it leaves by lo: the pod's calls to itself are never captured";
    Outbound "linkerd-outbound" Outbound [];
    ProxyGroup "linkerd-proxy-group" ProxyOutbound [ProxyGid],
        "the proxy's traffic ({option}) is never captured";
    ProxyUser "linkerd-proxy-user" ProxyOutbound [ProxyUid],
        "the proxy's traffic ({option}) is never captured";
    ToInboundListener "linkerd-to-inbound-listener" InboundPort [IncomingProxyPort],
        "all other inbound TCP goes to the proxy ({option})";
    ToOutboundListener "linkerd-to-outbound-listener" OutboundNetwork [OutgoingProxyPort],
        "all other outbound TCP goes to the proxy ({option})";
}

chains! { INBOUND "PROXY_INIT_REDIRECT" Inbound; OUTBOUND "PROXY_INIT_OUTPUT" Outbound; }

const OF_SUBNET: &str = "ignore-subnet-";

pub(crate) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = RuleWriter::new(config, family, &OWNERSHIP, Comments::Last, None);
    let subnets = config.ignored_subnets.iter().filter(|subnet| subnet.network.family() == family);
    let (to_inbound, to_outbound) = (redirect(config.inbound_listener), redirect(config.outbound_listener));
    add_rules! { writer:
        // Inbound connections. NAT uses PREROUTING only for packets from outside.
        Nat INBOUND ignored(set) => Return, Reason::IgnoredInboundPort, for set in packed(&config.ignored_inbound);
        Nat INBOUND [from(subnet.network), named(&format!("{OF_SUBNET}{}", subnet.written))] => Return, Reason::IgnoredSubnet,
            for subnet in subnets;
        Nat INBOUND [tcp(), port(*number), named(&format!("redirect-port-{number}-to-proxy-port"))] => to_inbound.clone(),
            Reason::InboundPort, for number in config.inbound_ports.iter().flatten();
        Nat INBOUND [tcp(), named("redirect-all-incoming-to-proxy-port")] => to_inbound, Reason::ToInboundListener,
            if config.inbound_ports.is_none();
        Nat PREROUTING [named("install-proxy-init-prerouting")] => jump(INBOUND), Reason::Inbound;
        Nat OUTBOUND [user(*uid), named("ignore-proxy-user-id")] => Return, Reason::ProxyUser, for uid in config.proxy_uid.iter();
        Nat OUTBOUND [group(*gid), named("ignore-proxy-group-id")] => Return, Reason::ProxyGroup, for gid in config.proxy_gid.iter();
        Nat OUTBOUND [to_loopback(), named("ignore-loopback")] => Return, Reason::Loopback;
        Nat OUTBOUND ignored(set) => Return, Reason::IgnoredOutboundPort, for set in packed(&config.ignored_outbound);
        Nat OUTBOUND [tcp(), named("redirect-all-outgoing-to-proxy-port")] => to_outbound, Reason::ToOutboundListener;
        Nat OUTPUT [named("install-proxy-init-output")] => jump(OUTBOUND), Reason::Outbound;
    }
    writer.finish()
}

fn packed(ports: &[PortRange]) -> Vec<PortSet> {
    let mut groups: Vec<PortSet> = Vec::new();
    for &range in ports {
        if let Some(last) = groups.last_mut()
            && let Some(joined) = PortSet::new(last.ranges().iter().copied().chain([range]))
        {
            *last = joined;
        } else {
            groups.push(PortSet::new([range]).expect("one range fits into one match"));
        }
    }
    groups
}

fn ignored(ports: PortSet) -> [Match; 3] {
    let list: Vec<String> = ports.ranges().iter().map(ToString::to_string).collect();
    [tcp(), any_of(ports), named(&format!("ignore-port-{}", list.join(",")))]
}

fn named(name: &str) -> Match {
    Match::Comment(format!("{COMMENTS}{name}").parse().expect("our comments have no quotes"))
}

/// Arguments of `proxy-init`'s commands for a family, as its simulation prints them.
pub fn commands(config: &CaptureConfig, family: Family) -> Vec<String> {
    let rules = config.rules(family);
    let mut commands = Vec::new();
    let mut made: Vec<&Chain> = Vec::new();
    for Statement { table, chain, position, rule, .. } in &rules.rules().statements {
        if matches!(chain, Chain::User(_)) && !made.contains(&chain) {
            made.push(chain);
            commands.push(format!("-t {table} -N {chain}"));
        }
        assert_eq!(*position, Position::Append, "proxy-init inserts nothing");
        commands.push(format!("-t {table} -A {chain} {}", words(rule)));
    }
    commands
}

fn words(rule: &Rule) -> String {
    let mut conditions = String::new();
    let (mut source, mut comment) = (String::new(), String::new());
    for m in &rule.matches {
        match m {
            Match::Source(_) => conditions.push_str("-p all "),
            Match::Comment(text) => {
                let network = text.as_str().split_once(OF_SUBNET);
                source = network.map(|(_, network)| format!(" -s {network}")).unwrap_or_default();
                comment = format!(" -m comment --comment {text}");
            }
            other => conditions.push_str(&format!("{other} ")),
        }
    }
    let conditions = conditions.replace("-m multiport", "--match multiport");
    let conditions = conditions.replace("--dport ", "--destination-port ");
    let target = rule.target.to_string().replace("--to-ports", "--to-port");
    format!("{conditions}{target}{source}{comment}")
}
