//! A rule in a chain, ours or foreign, understood as far as it can be. A packet passes a rule of another tool whose address
//! does not match, whatever its other conditions. So a foreign rule keeps what is known of each condition, and says what is
//! not. It never says nearly the same.

use crate::field::{self, Field};
use crate::{ChainName, Match, Negatable, Ownership, PortRange, Protocol, Rule, Target, WriteSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListedRule {
    /// A rule that the model can say.
    Typed(Rule),
    /// One of the owner's predecessor in a base chain: the owner's by inheritance ([`crate::inheritance`]).
    Inherited(Rule),
    Foreign(Foreign),
}

/// A rule that the model can't say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Foreign {
    /// As `iptables-save` prints it after the chain's name.
    pub text: String,
    pub conditions: Vec<ListedCondition>,
    pub action: Action,
    pub comment: Option<String>,
    /// Made by the owner's predecessor, as [`ListedRule::Inherited`].
    pub is_inherited: bool,
}

/// The fate of a packet at the end of a base chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    #[default]
    Accept,
    Drop,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListedCondition {
    Known(Match),
    /// `-p` of a protocol that is not TCP and not UDP (`None`), or negated.
    Protocol(Negatable<Option<Protocol>>),
    /// `-m addrtype --dst-type LOCAL`: the destination is an address of this machine.
    DestinationLocal(Negatable<()>),
    /// `-m tcp --tcp-flags`: whether a segment with SYN alone, which starts a connection, fulfils it.
    TcpFlags {
        /// The answer for such a segment; for others it is not known.
        matches_syn: bool,
        text: String,
    },
    /// One of nf_tables: a field has one of these values.
    Nft(field::Condition),
    /// A condition that says nothing, such as a comment.
    Always(String),
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Target(Target),
    /// `-g`: on to a chain whose end is the end of the calling chain too.
    Goto(ChainName),
    /// `jump` of nf_tables, or `goto`, which does not come back: to a chain of any name.
    Call {
        chain: String,
        returns: bool,
    },
    /// Nothing that changes a packet's way: no target at all, `LOG`, `TCPMSS`, ...
    Continue(String),
    /// `REJECT`: ends the packet with an answer.
    Reject,
    /// `REDIRECT` without ports: to this machine, the port as it is.
    RedirectSamePort,
    /// `DNAT` to one address, one range of ports, or both.
    Destination {
        address: Option<IpAddr>,
        ports: Option<PortRange>,
    },
    /// `SNAT` or `MASQUERADE`: the source becomes one that is not followed.
    Source(String),
    /// `NOTRACK`: conntrack, and with it `nat`, never sees the packet.
    Notrack,
    /// A target that changes marks in a way that is not followed.
    UnknownMark(String),
    /// A target that puts connections in a zone that the model can't say, such as one for a single direction.
    UnknownZone(String),
    Unknown(String),
}

impl ListedRule {
    /// True if a rule in a chain that is not the owner's is the owner's all the same.
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

    /// True for the desired rule, and for an inherited one that only lacks the owner's comment.
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

    /// The rule, if the model can say it and it is not inherited.
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
    /// The field that it looks at; `None` if that is none, or is not known.
    pub fn field(&self) -> Option<Field> {
        match self {
            Self::Known(known) => known.field(),
            Self::Nft(condition) => Some(condition.field),
            Self::Protocol(_) => Some(Field::Protocol),
            Self::DestinationLocal(_) | Self::TcpFlags { .. } | Self::Always(_) | Self::Unknown(_) => None,
        }
    }

    /// True if rules may change the answer, as far as that is known.
    pub fn may_change(&self) -> bool {
        matches!(self, Self::Unknown(_))
            || self.field().is_some_and(|field| field.depends_on(WriteSet::ANYTHING))
    }
}

impl Action {
    /// The ports of this machine to which it sends packets of OUTPUT: there, DNAT to loopback is as REDIRECT (`nf_nat_redirect.c`).
    pub fn redirects_to(&self) -> Option<PortRange> {
        const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        match self {
            Self::Target(Target::Redirect(ports)) => Some(*ports),
            Self::Destination { address: Some(address), ports } if LOOPBACK.contains(address) => *ports,
            _ => None,
        }
    }

    /// True if it hands packets to a listener itself.
    pub fn captures(&self) -> bool {
        matches!(self, Self::Target(Target::Tproxy { .. }) | Self::RedirectSamePort)
            || self.redirects_to().is_some()
    }

    /// True if it excludes packets from capture: RETURN ends the mesh's chain, and ACCEPT the table's.
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

    /// A packet's verdict is the same if a rule with this action matches and if it does not.
    pub fn leaves_verdict(&self) -> bool {
        self.surely_continues() || self.sets_zone()
    }

    pub fn sets_zone(&self) -> bool {
        matches!(self, Self::UnknownZone(_) | Self::Target(Target::SetZone(_)))
    }

    /// Routes may be chosen by the type of service.
    pub fn sets_tos(&self) -> bool {
        matches!(self, Self::Continue(text) if text.starts_with("TOS ") || text.starts_with("DSCP "))
    }

    /// The packet goes on to the next rule unchanged: by this alone plans, checks and walks pass a rule by.
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
        // What is ours alone has the comment.
        assert!(!bare.serves_as(&desired(Vec::new())));
    }
}
