//! The rules for one family, in the order in which they take effect.

use super::config::{CaptureConfig, LinkerdInboundPorts};
use super::ownership::{COMMENTS, OWNERSHIP};
use super::reason::Reason;
use crate::reason::Cause;
use crate::writing::{
    self, ChainPlace, Comments, OUTPUT, PREROUTING, any_of, from, group, jump, own, port, tcp, to_loopback,
    user,
};
use rules::{Comment, Family, Match, PortRange, PortSet, RuleSet, Table, Target};
use std::fmt::Display;

const INBOUND: ChainPlace = own("PROXY_INIT_REDIRECT");
const OUTBOUND: ChainPlace = own("PROXY_INIT_OUTPUT");

/// Text of the comment on a network's rule, before the network as it was written.
pub(super) const OF_SUBNET: &str = "ignore-subnet-";

type LinkerdWriter<'a> = writing::RuleWriter<'a, CaptureConfig>;

pub(super) fn write(config: &CaptureConfig, family: Family) -> RuleSet {
    let mut writer = LinkerdWriter::new(config, family, &OWNERSHIP, Comments::Last, None);
    inbound(&mut writer);
    outbound(&mut writer);
    writer.finish()
}

/// Connections that arrive. One that the pod makes to itself never meets these: NAT uses PREROUTING only for what came
/// from outside.
fn inbound(writer: &mut LinkerdWriter<'_>) {
    let config = writer.config;
    ignored_ports(writer, INBOUND, &config.ignored_inbound, Reason::IgnoredInboundPort);
    let own_family =
        config.ignored_subnets.iter().filter(|subnet| subnet.network().family() == writer.family());
    for subnet in own_family.collect::<Vec<_>>() {
        let comment = format!("{OF_SUBNET}{}", subnet.written());
        let cause = Reason::IgnoredSubnet.cause();
        append(writer, INBOUND, [from(subnet.network())], comment, Target::Return, cause);
    }
    let to_proxy = || Target::Redirect(config.inbound_listener.into());
    match &config.inbound_ports {
        LinkerdInboundPorts::All => {
            let (comment, cause) = ("redirect-all-incoming-to-proxy-port", Reason::ToInboundListener.cause());
            append(writer, INBOUND, [tcp()], comment, to_proxy(), cause);
        }
        LinkerdInboundPorts::Only(ports) => {
            for &number in ports {
                let comment = format!("redirect-port-{number}-to-proxy-port");
                let cause = Reason::InboundPort.cause();
                append(writer, INBOUND, [tcp(), port(number)], comment, to_proxy(), cause);
            }
        }
    }
    append(writer, PREROUTING, [], "install-proxy-init-prerouting", jump(INBOUND), Reason::Inbound.cause());
}

fn outbound(writer: &mut LinkerdWriter<'_>) {
    let config = writer.config;
    if let Some(uid) = config.proxy_uid {
        let cause = Reason::ProxyUser.cause();
        append(writer, OUTBOUND, [user(uid)], "ignore-proxy-user-id", Target::Return, cause);
    }
    if let Some(gid) = config.proxy_gid {
        let cause = Reason::ProxyGroup.cause();
        append(writer, OUTBOUND, [group(gid)], "ignore-proxy-group-id", Target::Return, cause);
    }
    let cause = Reason::Loopback.cause();
    append(writer, OUTBOUND, [to_loopback()], "ignore-loopback", Target::Return, cause);
    ignored_ports(writer, OUTBOUND, &config.ignored_outbound, Reason::IgnoredOutboundPort);
    let target = Target::Redirect(config.outbound_listener.into());
    let cause = Reason::ToOutboundListener.cause();
    append(writer, OUTBOUND, [tcp()], "redirect-all-outgoing-to-proxy-port", target, cause);
    append(writer, OUTPUT, [], "install-proxy-init-output", jump(OUTBOUND), Reason::Outbound.cause());
}

fn ignored_ports(writer: &mut LinkerdWriter<'_>, chain: ChainPlace, ports: &[PortRange], reason: Reason) {
    for set in groups(ports) {
        let list: Vec<String> = set.ranges().iter().map(ToString::to_string).collect();
        let comment = format!("ignore-port-{}", list.join(","));
        append(writer, chain, [tcp(), any_of(set)], comment, Target::Return, reason.cause());
    }
}

/// As many to a rule as it can hold, in their order.
fn groups(ports: &[PortRange]) -> Vec<PortSet> {
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

/// With upstream's comment, in `nat`.
fn append(
    writer: &mut LinkerdWriter<'_>,
    chain: ChainPlace,
    matches: impl IntoIterator<Item = Match>,
    comment: impl Display,
    target: Target,
    cause: Cause,
) {
    let comment: Comment =
        format!("{COMMENTS}{comment}").parse().expect("comments of the policy have no quotes");
    let matches = matches.into_iter().chain([Match::Comment(comment)]);
    writer.append(Table::Nat, chain, matches, target, cause);
}
