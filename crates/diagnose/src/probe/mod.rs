//! Connections worth trying in a pod, and the verdict of a configuration on each.
//!
//! The list has a call for each region of the packets that processes of the pod send by the rules. The expectation of a
//! call is the verdict of the walk of its first packet, so the list can't promise what the rules don't. Nothing is
//! tried here.
//!
//! The destination of a call is chosen so that none does harm if it is not captured: the pod itself, addresses for
//! documentation, which no host has (RFC 5737, RFC 3849), and a network only where just that network determines what is
//! to be seen.
//!
//! Packets that only others can send, from outside and of virtual machines, are not in the list.

mod calls;
#[cfg(test)]
mod tests;

pub use crate::explain::Route;
use crate::explain::{ExplainedRule, PodContext, RuleView, default_source, explain};
use crate::live_proxy;
use crate::pod_packets::SOURCE_PORT;
use calls::CallList;
use mesh::CapturePolicy;
use mesh::sources::Dialect;
use rules::simulate::{Direction, LOOPBACK, Packet, Verdict};
use rules::{ConnState, Family, Gid, Port, Protocol, Uid};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    Application,
    /// An application of a group that a list names.
    Group(Gid),
    /// An application of a user that a list names.
    User(Uid),
    /// The proxy, by its user and its group.
    Proxy,
    /// One that is the proxy's by its user alone.
    ProxyUser(Uid),
    /// One that is the proxy's by its group alone.
    ProxyGroup(Gid),
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => f.write_str("application"),
            Self::Group(gid) => write!(f, "group {gid}"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Proxy => f.write_str("proxy"),
            Self::ProxyUser(uid) => write!(f, "proxy user {uid}"),
            Self::ProxyGroup(gid) => write!(f, "proxy group {gid}"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Call {
    pub caller: Caller,
    pub owner: (Uid, Gid),
    pub protocol: Protocol,
    /// `None` where the kernel chooses it.
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
    pub packet: Packet,
    pub expected: Verdict,
    /// In words.
    pub because: String,
    /// `None` where no rule decides.
    pub rule: Option<ExplainedRule>,
}

impl Call {
    pub fn is_captured(&self) -> bool {
        matches!(self.expected, Verdict::Redirect(_) | Verdict::Tproxy(_))
    }

    pub fn is_within_pod(&self) -> bool {
        matches!(&self.packet.direction, Direction::Outbound { interface, .. } if interface == LOOPBACK)
    }
}

/// Facts of a pod beside its configuration.
pub struct ProbeContext<'a> {
    pub pod: PodContext,
    /// Our own user and group: calls as these need no privilege.
    pub own: (Uid, Gid),
    /// The port that is called where none is given: no process listens there.
    pub port: Port,
    /// `None` where there is none.
    pub route: &'a dyn Fn(IpAddr) -> Option<Route>,
    pub dialect: Dialect,
}

/// Every call worth trying, of the families that are captured.
pub fn calls(config: &dyn CapturePolicy, facts: &ProbeContext<'_>) -> Vec<Call> {
    let of = |family| {
        let rule_view = RuleView::of_config(config, family, &facts.pod);
        CallList::new(&rule_view, config.proxy(), facts).all()
    };
    config.families().flat_map(of).collect()
}

/// Every call worth trying by rules that are there, of the families of which they capture anything. Of what made them, only
/// the proxy's user is known.
pub fn calls_by_rules(rule_views: &[RuleView], facts: &ProbeContext<'_>) -> Vec<Call> {
    let of = |rule_view: &RuleView| {
        let calls = CallList::new(rule_view, live_proxy(&rule_view.view), facts).all();
        if calls.iter().any(Call::is_captured) { calls } else { Vec::new() }
    };
    rule_views.iter().flat_map(of).collect()
}

/// The calls that prove that capture works without one that could leave the pod: for each family, the proxy calls the
/// application as it does to hand connections over, which is captured whatever else is. Where the configuration lets that
/// pass, the proxy calls the pod's own address; where that passes too, nothing proves anything.
pub fn proofs(config: &dyn CapturePolicy, facts: &ProbeContext<'_>) -> Vec<Call> {
    let of = |family| {
        let rule_view = RuleView::of_config(config, family, &facts.pod);
        let calls = CallList::new(&rule_view, config.proxy(), facts).of_proxy();
        calls.into_iter().find(Call::is_captured)
    };
    config.families().filter_map(of).collect()
}

fn packet(
    facts: &ProbeContext<'_>,
    protocol: Protocol,
    owner: (Uid, Gid),
    from: Option<IpAddr>,
    to: SocketAddr,
) -> Packet {
    let stays = facts.pod.route(to.ip()) == LOOPBACK;
    let route = if stays { None } else { (facts.route)(to.ip()) };
    let interface = route.as_ref().map_or(facts.pod.route(to.ip()), |route| &route.interface).to_owned();
    let by_route = from.or(route.and_then(|route| route.source));
    let source = by_route.or_else(|| Some(default_source(&facts.pod, to.ip())?.0));
    let (uid, gid) = owner;
    Packet {
        direction: Direction::Outbound { interface, uid, gid },
        protocol,
        source: SocketAddr::new(source.unwrap_or_else(|| mesh::loopback(Family::of(to.ip()))), SOURCE_PORT),
        destination: to,
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    }
}

/// With the reason of the expectation.
fn explained(rule_view: &RuleView, facts: &ProbeContext<'_>, call: &Call) -> Call {
    let explained = explain(&rule_view.view, &rule_view.routing, &call.packet).in_words_of(&facts.dialect);
    Call { because: explained.reason(), rule: explained.deciding_rule(), ..call.clone() }
}
