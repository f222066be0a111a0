//! Rules in a chain, ours or foreign, possibly known only in part. A packet whose address does not match skips a foreign rule
//! even if other conditions are unknown, so each condition is kept as known or unknown, never approximated.

use crate::field::{self, Field};
use crate::{ChainName, Match, Negatable, Ownership, PortRange, Protocol, Rule, Target, WriteSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListedRule {
    Typed(Rule),
    /// A rule of the owner's predecessor in a base chain: the owner's by inheritance ([`crate::inheritance`]).
    Inherited(Rule),
    Foreign(Foreign),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Foreign {
    /// As `iptables-save` prints it after the chain's name.
    pub text: String,
    pub conditions: Vec<ListedCondition>,
    pub action: Action,
    pub comment: Option<String>,
    /// Made by the owner's predecessor, like [`ListedRule::Inherited`].
    pub is_inherited: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    #[default]
    Accept,
    Drop,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListedCondition {
    Known(Match),
    Protocol(Negatable<Option<Protocol>>),
    /// `-m addrtype --dst-type LOCAL`: the destination is an address of this machine.
    DestinationLocal(Negatable<()>),
    TcpFlags {
        /// Result for a segment with SYN alone, which starts a connection; unknown for other segments.
        matches_syn: bool,
        text: String,
    },
    /// An nf_tables condition: a field has one of these values.
    Nft(field::Condition),
    Always(String),
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Target(Target),
    /// `-g`: continues in a chain whose end also ends the calling chain.
    Goto(ChainName),
    /// nf_tables `jump` or `goto` (which does not return) to any chain name.
    Call {
        chain: String,
        returns: bool,
    },
    /// No effect on a packet's path: no target at all, `LOG`, `TCPMSS`, ...
    Continue(String),
    /// `REJECT`: drops the packet and sends an error.
    Reject,
    /// `REDIRECT` without ports: to the same port of this machine.
    RedirectSamePort,
    Destination {
        address: Option<IpAddr>,
        ports: Option<PortRange>,
    },
    /// `SNAT` or `MASQUERADE`: changes the source to one that is not modelled.
    Source(String),
    /// `NOTRACK`: conntrack, and with it `nat`, never sees the packet.
    Notrack,
    /// A mark change that is not modelled.
    UnknownMark(String),
    /// Target with a zone that the model can't express, such as one for a single direction.
    UnknownZone(String),
    Unknown(String),
}

impl ListedRule {
    /// True if a rule is the owner's even in another owner's chain.
    pub fn belongs_to(&self, owner: &Ownership) -> bool {
        match self {
            Self::Typed(rule) => owner.owns_rule(rule),
            Self::Inherited(_) => true,
            Self::Foreign(Foreign { action, comment, is_inherited, .. }) => {
                *is_inherited
                    || action.chain().is_some_and(|chain| owner.owns_chain_named(chain))
                    || comment.as_ref().is_some_and(|comment| owner.owns_comment(comment))
            }
        }
    }

    pub fn is_inherited(&self) -> bool {
        matches!(self, Self::Inherited(_) | Self::Foreign(Foreign { is_inherited: true, .. }))
    }

    /// True for the desired rule, and for an inherited rule that only lacks the owner's comment.
    pub fn serves_as(&self, desired: &Self) -> bool {
        match (self, desired) {
            (Self::Inherited(rule), Self::Typed(desired)) => {
                let says_something = |m: &&Match| !matches!(m, Match::Comment(_));
                rule.target == desired.target
                    && rule.matches.iter().eq(desired.matches.iter().filter(says_something))
            }
            _ => self == desired,
        }
    }

    pub fn typed(&self) -> Option<&Rule> {
        match self {
            Self::Typed(rule) => Some(rule),
            Self::Inherited(_) | Self::Foreign(_) => None,
        }
    }

    pub fn conditions(&self) -> Vec<ListedCondition> {
        match self {
            Self::Typed(rule) | Self::Inherited(rule) => {
                rule.matches.iter().cloned().map(ListedCondition::Known).collect()
            }
            Self::Foreign(foreign) => foreign.conditions.clone(),
        }
    }

    pub fn action(&self) -> Action {
        match self {
            Self::Typed(rule) | Self::Inherited(rule) => Action::Target(rule.target.clone()),
            Self::Foreign(foreign) => foreign.action.clone(),
        }
    }
}

impl ListedCondition {
    /// The matched field; `None` if there is none or it is unknown.
    pub fn field(&self) -> Option<Field> {
        match self {
            Self::Known(known) => known.field(),
            Self::Nft(condition) => Some(condition.field),
            Self::Protocol(_) => Some(Field::Protocol),
            Self::DestinationLocal(_) | Self::TcpFlags { .. } | Self::Always(_) | Self::Unknown(_) => None,
        }
    }

    pub fn may_change(&self) -> bool {
        matches!(self, Self::Unknown(_))
            || self.field().is_some_and(|field| field.depends_on(WriteSet::ANYTHING))
    }
}

impl Action {
    /// Local ports that OUTPUT packets are redirected to: there, DNAT to loopback equals REDIRECT (`nf_nat_redirect.c`).
    pub fn redirects_to(&self) -> Option<PortRange> {
        const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        match self {
            Self::Target(Target::Redirect(ports)) => Some(*ports),
            Self::Destination { address: Some(address), ports } if LOOPBACK.contains(address) => *ports,
            _ => None,
        }
    }

    pub fn captures(&self) -> bool {
        matches!(self, Self::Target(Target::Tproxy { .. }) | Self::RedirectSamePort)
            || self.redirects_to().is_some()
    }

    /// True if it excludes packets from capture: RETURN leaves the mesh's chain, ACCEPT the table.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Target(Target::Return | Target::Accept))
    }

    pub fn leads_on(&self) -> bool {
        matches!(self, Self::Call { .. }) || self.chain().is_some()
    }

    pub fn chain(&self) -> Option<&ChainName> {
        match self {
            Self::Target(target) => target.chain(),
            Self::Goto(name) => Some(name),
            _ => None,
        }
    }

    /// True if a packet's verdict is independent of a rule with this action.
    pub fn leaves_verdict(&self) -> bool {
        self.surely_continues() || self.sets_zone()
    }

    pub fn sets_zone(&self) -> bool {
        matches!(self, Self::UnknownZone(_) | Self::Target(Target::SetZone(_)))
    }

    /// Routes may depend on the type of service.
    pub fn sets_tos(&self) -> bool {
        matches!(self, Self::Continue(text) if text.starts_with("TOS ") || text.starts_with("DSCP "))
    }

    /// True if the packet goes on to the next rule unchanged: only then do plans, checks and walks skip a rule.
    pub fn surely_continues(&self) -> bool {
        matches!(self, Self::Continue(_)) || matches!(self, Self::Target(target) if target.is_report())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_rule_serves_as_one_that_only_adds_a_comment() {
        let port = Match::DestinationPort(Negatable::Is("53".parse().expect("a port")));
        let comment = Match::Comment("sidecar-init".parse().expect("a comment"));
        let inherited = ListedRule::Inherited(Rule::new([port.clone()], Target::Return));
        let desired = |matches: Vec<Match>| ListedRule::Typed(Rule::new(matches, Target::Return));
        let bare = desired(vec![port.clone()]);
        assert!(inherited.serves_as(&desired(vec![port.clone(), comment.clone()])));
        assert!(inherited.serves_as(&bare));
        assert!(!inherited.serves_as(&desired(vec![comment.clone()])));
        assert!(!inherited.serves_as(&ListedRule::Typed(Rule::new([port, comment], Target::Accept))));
        assert!(!bare.serves_as(&desired(Vec::new())));
    }
}
