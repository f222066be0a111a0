//! Reasons in words: why a verdict is what it is.
//!
//! Rules of ours know which option made them; of rules that were read back, their place and text is all
//! there is to say.

use super::{Explanation, captures, rule_text};
use rules::simulate::{At, Met, Packet, Verdict, ViewRule, Way};
use rules::{Action, Chain, Condition, ConnState, Listed, Match, Origin, Target};

impl Explanation<'_> {
    /// The verdict and its reason in one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        format!("{}, because {}", self.verdict(), self.reason())
    }

    /// The verdict alone.
    pub fn verdict(&self) -> String {
        match self.outcome.verdict {
            Verdict::Pass => self.passing(),
            Verdict::Redirect(ports) if ports.is_single() => {
                format!("captured: goes to {} {}", self.listener("port"), ports.first())
            }
            Verdict::Redirect(ports) => {
                format!("captured: goes to {} {}-{}", self.listener("ports"), ports.first(), ports.last())
            }
            Verdict::Tproxy(port) => {
                format!("captured: handed unchanged to {} {port}", self.listener("port"))
            }
            Verdict::Drop => "dropped: reaches nobody".to_owned(),
            Verdict::Unknown => "unknown: what becomes of it can't be told".to_owned(),
        }
    }

    fn passing(&self) -> String {
        match (self.outcome.translated, self.packet.state) {
            (Some(to), _) => format!("not captured: another program's rule sends it to {to}"),
            (None, ConnState::Established) => {
                "let through: goes where the first packet of its connection went".to_owned()
            }
            (None, ConnState::New | ConnState::Related | ConnState::Invalid) => {
                format!("not captured: goes to {} as it was sent", self.packet.destination)
            }
        }
    }

    /// Whose ports they are, by the rule that names them.
    fn listener(&self, noun: &str) -> String {
        let steps = self.trace.0.iter().rev().filter(|step| step.met == Met::Matched);
        let handed = matches!(self.outcome.verdict, Verdict::Tproxy(_));
        let names_it = |rule: &Listed| {
            captures(rule) && handed == matches!(rule.action, Action::Target(Target::Tproxy { .. }))
        };
        let at = steps.map(|step| step.at).find(|&at| self.view.rule(at).is_some_and(|r| names_it(&r.rule)));
        let name = at.and_then(|at| {
            let origin = self.view.rule(at)?.origin.map(|origin| origin.name);
            origin.or_else(|| by_chain(&self.view.chains()[at.chain].chain))
        });
        match name {
            Some("to-outbound-listener") => format!("the proxy's outbound {noun}"),
            Some("to-inbound-listener") => format!("the proxy's inbound {noun}"),
            Some("dns") => format!("the agent's DNS {noun}"),
            Some(_) | None => noun.to_owned(),
        }
    }

    /// Why it is so.
    pub fn reason(&self) -> String {
        match self.outcome.decided_by {
            None if self.misses_by_protocol() => {
                format!("what redirects is not for {}", self.packet.protocol)
            }
            None => "no rule says otherwise".to_owned(),
            Some(at) => match self.view.rule(at) {
                None => format!("that is the policy of {}", self.place(at)),
                Some(rule) if self.outcome.verdict == Verdict::Unknown => {
                    format!(
                        "{} ({}) is not understood and could decide",
                        self.place(at),
                        rule_text(&rule.rule)
                    )
                }
                Some(ViewRule { rule, origin: None, .. }) => {
                    format!("{} says {}", self.place(at), rule_text(rule))
                }
                Some(ViewRule { origin: Some(origin), .. }) => self.of_origin(at, *origin),
            },
        }
    }

    /// Whether a listener was in reach, but for another protocol.
    fn misses_by_protocol(&self) -> bool {
        self.trace.0.iter().any(|step| {
            let Some(ViewRule { rule, .. }) = self.view.rule(step.at) else { return false };
            let Met::Failed(index) = step.met else { return false };
            captures(rule) && matches!(rule.conditions[index], Condition::Known(Match::Protocol(_)))
        })
    }

    fn place(&self, at: At) -> String {
        let chain = &self.view.chains()[at.chain];
        match self.view.rule(at) {
            Some(_) => format!("rule {} of {} in table {}", at.rule + 1, chain.chain, chain.layer),
            None => format!("{} in table {}", chain.chain, chain.layer),
        }
    }

    fn of_origin(&self, at: At, origin: Origin) -> String {
        let conditions = self.view.rule(at).map_or(&[][..], |rule| &rule.rule.conditions);
        let value = value(conditions);
        let value = value.as_deref();
        match (origin.name, value) {
            ("outbound-network", None) => "-i '*' redirects all other outbound traffic".to_owned(),
            ("outbound-network", Some(cidr)) => format!("-i lists {cidr}"),
            ("outbound-port", Some(port)) => format!("-q lists port {port}"),
            ("excluded-outbound-port", Some(port)) => format!("-o leaves port {port} alone"),
            ("excluded-network", Some(cidr)) => format!("-x leaves {cidr} alone"),
            ("inbound-port", Some(port)) => format!("-b lists port {port}"),
            ("inbound-port", None) => "-b '*' captures all other inbound ports".to_owned(),
            ("excluded-inbound-port", Some(port)) => format!("-d leaves port {port} alone"),
            ("excluded-interface", Some(name)) => format!("-c leaves interface {name} alone"),
            ("vm-interface", Some(name)) => format!("-k says that {name} belongs to a virtual machine"),
            ("tunnel-port", Some(port)) => {
                format!("port {port} is the tunnel's (-e), which is never captured")
            }
            ("proxy-calls-own-pod", _) => {
                "the proxy calls its own pod, so that the call comes in through the mesh".to_owned()
            }
            ("proxy-outbound", Some(owner)) => {
                format!(
                    "{owner} is the proxy's ({}), whose own calls are never captured",
                    flag(origin.option)
                )
            }
            ("application-loopback", _) => {
                "the pod talks to itself, and calls of the application to itself are not captured".to_owned()
            }
            ("proxy-to-application", _) => {
                "it comes from the address by which the proxy hands calls to the application".to_owned()
            }
            ("loopback", _) => "the destination is the loopback network".to_owned(),
            ("excluded-group", Some(group)) => format!("{} leaves {group} alone", origin.option),
            ("other-groups", _) => format!("{} does not list its group", origin.option),
            ("dns", _) => "--redirect-dns captures DNS queries".to_owned(),
            ("drop-invalid", _) => "--drop-invalid drops what belongs to no connection".to_owned(),
            ("tproxy-mark", _) => {
                "its mark says that it belongs to a connection handed over before".to_owned()
            }
            (name, _) => format!("the rule {name} ({}) says so", self.place(at)),
        }
    }
}

/// The option as people write it.
pub(super) fn flag(option: &str) -> String {
    match option {
        "" => "always there".to_owned(),
        variable if variable.starts_with(|c: char| c.is_ascii_uppercase()) => variable.to_owned(),
        long => format!("--{long}"),
    }
}

/// Chains that do one thing under a name that upstream gave them.
fn by_chain(chain: &Chain) -> Option<&'static str> {
    match chain.as_str() {
        "ISTIO_REDIRECT" => Some("to-outbound-listener"),
        "ISTIO_IN_REDIRECT" | "ISTIO_TPROXY" => Some("to-inbound-listener"),
        "ISTIO_OUTPUT_DNS" => Some("dns"),
        _ => None,
    }
}

/// What the rule is about: the item of the option's list that made it.
fn value(conditions: &[Condition]) -> Option<String> {
    conditions.iter().find_map(|condition| match condition {
        Condition::Known(m) => match m {
            Match::Source(sense) | Match::Destination(sense) => Some(sense.value().to_string()),
            Match::InInterface(sense) | Match::OutInterface(sense) => Some(sense.value().to_string()),
            Match::SourcePort(sense) | Match::DestinationPort(sense) => Some(sense.value().to_string()),
            Match::DestinationPorts(sense) => Some(sense.value().to_string()),
            Match::UidOwner(sense) => Some(format!("user {}", sense.value())),
            Match::GidOwner(sense) => Some(format!("group {}", sense.value())),
            Match::Protocol(_)
            | Match::ConnState(_)
            | Match::Mark(_)
            | Match::Connmark(_)
            | Match::Comment(_) => None,
        },
        Condition::Protocol(_)
        | Condition::DestinationLocal(_)
        | Condition::TcpFlags { .. }
        | Condition::Always(_)
        | Condition::Unknown(_) => None,
    })
}

/// The packet's own value beside a condition that failed.
pub(super) fn instead(condition: &Condition, packet: &Packet) -> Option<String> {
    let Condition::Known(m) = condition else { return None };
    let owner = |what: &str, id: u32| format!("{what} {id}");
    match m {
        Match::UidOwner(_) => match &packet.way {
            Way::Out { uid, .. } => Some(owner("its user is", uid.number())),
            Way::In { .. } => None,
        },
        Match::GidOwner(_) => match &packet.way {
            Way::Out { gid, .. } => Some(owner("its group is", gid.number())),
            Way::In { .. } => None,
        },
        Match::OutInterface(_) => match &packet.way {
            Way::Out { interface, .. } => Some(format!("it leaves by {interface}")),
            Way::In { .. } => None,
        },
        Match::Protocol(_) => Some(format!("it is {}", packet.protocol)),
        // Addresses, ports and marks may have changed on the way.
        Match::Source(_)
        | Match::Destination(_)
        | Match::InInterface(_)
        | Match::SourcePort(_)
        | Match::DestinationPort(_)
        | Match::DestinationPorts(_)
        | Match::ConnState(_)
        | Match::Mark(_)
        | Match::Connmark(_)
        | Match::Comment(_) => None,
    }
}
