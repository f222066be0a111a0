//! Which item of Istio's lists has made a rule.

use crate::istio::Reason;
use crate::lint::{Change, LeftOut};
use rules::{Match, Negatable, Origin, Rule};

/// The change that leaves out what made the rule.
pub(super) fn made_by(origin: Origin, rule: &Rule) -> Option<Change> {
    let reason = Reason::named(origin.name)?;
    let [setting] = reason.settings() else { return None };
    let item = rule.matches.iter().find_map(|m| match (reason, m) {
        (Reason::ExcludedNetwork | Reason::OutboundNetwork, Match::Destination(Negatable::Is(cidr))) => {
            Some(LeftOut::Network(*cidr))
        }
        (
            Reason::OutboundPort
            | Reason::ExcludedOutboundPort
            | Reason::InboundPort
            | Reason::ExcludedInboundPort,
            Match::DestinationPort(Negatable::Is(range)),
        ) => Some(LeftOut::Ports(*range)),
        (
            Reason::ExcludedInterface | Reason::VmInterface,
            Match::InInterface(Negatable::Is(name)) | Match::OutInterface(Negatable::Is(name)),
        ) => Some(LeftOut::Interface(name.clone())),
        (Reason::ExcludedGroup, Match::GidOwner(Negatable::Is(gid))) => Some(LeftOut::Group(*gid)),
        _ => None,
    })?;
    Some(Change::without(*setting, item))
}
