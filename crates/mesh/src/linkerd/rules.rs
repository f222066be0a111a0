//! The rules for one family, in the order in which they take effect, and the same as `proxy-init`'s commands.

use super::config::{COMMENTS, CaptureConfig, OWNERSHIP};
use super::settings::Linkerd;
use crate::policy::CapturePolicy;
use crate::reason::{Cause, reasons};
use crate::sources::Wildcard;
use crate::writing::{
    ChainPlace, Comments, OUTPUT, PREROUTING, RuleWriter, any_of, chains, from, group, jump, port, redirect,
    tcp, to_loopback, user,
};
use rules::Target::Return;
use rules::{
    Chain, Comment, Family, Match, PortRange, PortSet, Position, Rule, RuleSet, Statement, Table, Target,
};

reasons! {
    Linkerd of Linkerd;
    IgnoredInboundPort "linkerd-ignored-inbound-port" ExcludedInboundPort [InboundPortsToIgnore],
        "{option} leaves its port alone", of "{option} leaves {value} alone";
    IgnoredOutboundPort "linkerd-ignored-outbound-port" ExcludedOutboundPort [OutboundPortsToIgnore],
        "{option} leaves its port alone", of "{option} leaves {value} alone";
    IgnoredSubnet "linkerd-ignored-subnet" ExcludedSource [SubnetsToIgnore], "{option} leaves calls from its network alone";
    Inbound "linkerd-inbound" Inbound [];
    InboundPort "linkerd-inbound-port" InboundPort [PortsToRedirect], "{option} lists its port";
    Loopback "linkerd-loopback" Loopback [], "it leaves by lo: the pod's calls to itself are never captured";
    Outbound "linkerd-outbound" Outbound [];
    ProxyGroup "linkerd-proxy-group" ProxyOutbound [ProxyGid],
        "it is the proxy's ({option}), whose own calls are never captured";
    ProxyUser "linkerd-proxy-user" ProxyOutbound [ProxyUid],
        "it is the proxy's ({option}), whose own calls are never captured";
    ToInboundListener "linkerd-to-inbound-listener" InboundPort [IncomingProxyPort],
        "all other TCP that arrives goes to the proxy ({option})";
    ToOutboundListener "linkerd-to-outbound-listener" OutboundNetwork [OutgoingProxyPort],
        "all other TCP that leaves goes to the proxy ({option})";
}

chains! { INBOUND "PROXY_INIT_REDIRECT" Inbound; OUTBOUND "PROXY_INIT_OUTPUT" Outbound; }

/// Text of the comment on a network's rule, before the network as it was written.
const OF_SUBNET: &str = "ignore-subnet-";

type LinkerdWriter<'a> = RuleWriter<'a, CaptureConfig>;

pub(crate) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = LinkerdWriter::new(config, family, &OWNERSHIP, Comments::Last, None);
    inbound(&mut writer);
    outbound(&mut writer);
    writer.finish()
}

/// Connections that arrive. NAT uses PREROUTING only for what comes from outside.
fn inbound(writer: &mut LinkerdWriter<'_>) {
    let config = writer.config;
    ignored_ports(writer, INBOUND, &config.ignored_inbound, Reason::IgnoredInboundPort);
    let family = writer.family();
    for subnet in config.ignored_subnets.iter().filter(|subnet| subnet.network.family() == family) {
        let comment = format!("{OF_SUBNET}{}", subnet.written);
        append(writer, INBOUND, [from(subnet.network)], &comment, Return, Reason::IgnoredSubnet);
    }
    let to_proxy = || redirect(config.inbound_listener);
    match &config.inbound_ports {
        Wildcard::All => {
            let comment = "redirect-all-incoming-to-proxy-port";
            append(writer, INBOUND, [tcp()], comment, to_proxy(), Reason::ToInboundListener);
        }
        Wildcard::Items(ports) => {
            for &number in ports {
                let comment = format!("redirect-port-{number}-to-proxy-port");
                append(writer, INBOUND, [tcp(), port(number)], &comment, to_proxy(), Reason::InboundPort);
            }
        }
    }
    append(writer, PREROUTING, [], "install-proxy-init-prerouting", jump(INBOUND), Reason::Inbound);
}

fn outbound(writer: &mut LinkerdWriter<'_>) {
    let config = writer.config;
    if let Some(uid) = config.proxy_uid {
        append(writer, OUTBOUND, [user(uid)], "ignore-proxy-user-id", Return, Reason::ProxyUser);
    }
    if let Some(gid) = config.proxy_gid {
        append(writer, OUTBOUND, [group(gid)], "ignore-proxy-group-id", Return, Reason::ProxyGroup);
    }
    append(writer, OUTBOUND, [to_loopback()], "ignore-loopback", Return, Reason::Loopback);
    ignored_ports(writer, OUTBOUND, &config.ignored_outbound, Reason::IgnoredOutboundPort);
    let to = redirect(config.outbound_listener);
    append(writer, OUTBOUND, [tcp()], "redirect-all-outgoing-to-proxy-port", to, Reason::ToOutboundListener);
    append(writer, OUTPUT, [], "install-proxy-init-output", jump(OUTBOUND), Reason::Outbound);
}

/// As many ports to a rule as it can hold, in their order.
fn ignored_ports(
    writer: &mut LinkerdWriter<'_>,
    chain: ChainPlace,
    ports: &[PortRange],
    cause: impl Into<Cause> + Copy,
) {
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
    for set in groups {
        let list: Vec<String> = set.ranges().iter().map(ToString::to_string).collect();
        let comment = format!("ignore-port-{}", list.join(","));
        append(writer, chain, [tcp(), any_of(set)], &comment, Return, cause);
    }
}

fn append(
    writer: &mut LinkerdWriter<'_>,
    chain: ChainPlace,
    matches: impl IntoIterator<Item = Match>,
    comment: &str,
    target: Target,
    cause: impl Into<Cause>,
) {
    let comment: Comment = format!("{COMMENTS}{comment}").parse().expect("our comments have no quotes");
    let matches = matches.into_iter().chain([Match::Comment(comment)]);
    writer.add(Table::Nat, chain, matches, target, cause);
}

/// The arguments of the commands that `proxy-init` runs for a family, word for word as its simulation prints them.
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
    // What follows the target.
    let (mut source, mut comment) = (String::new(), String::new());
    for m in &rule.matches {
        match m {
            Match::Source(_) => conditions.push_str("-p all "),
            Match::Comment(text) => {
                // The comment of a network's rule keeps it as it was written.
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
