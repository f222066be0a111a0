//! Explanations of verdicts: a walk through rules, explained to people and programs.
//!
//! The walk is [`rules::simulate`]'s. Here it gets words: which option made a rule, which condition failed,
//! whose port it is. Nothing here reads rules or configurations.

mod because;
mod depends;
mod describe;
mod destination;
mod explanation;
mod limits;
mod lists;
mod pod;
mod question;
mod report;
mod routes;
mod rule_view;
#[cfg(test)]
mod tests;
mod text;
mod written;

pub use crate::pod_packets::SOURCE_PORT;
pub use explanation::{Explanation, explain};
pub(crate) use limits::limits_met;
pub(crate) use lists::item_texts;
pub(crate) use pod::declared_addresses;
pub use pod::{ApplicationUser, PodContext, Sender};
pub(crate) use question::default_source;
#[cfg(test)]
#[cfg(test)]
pub(crate) use question::usual_packet;
pub use question::{EndpointNames, PacketQuery, QuestionContext, packet};
pub use report::{
    ExplainedRule, ExplanationReport, Limited, PacketCase, PacketEnd, PacketReport, TraceEntry, VerdictKind,
};
pub use routes::{Arrival, IncomingPacket, LOCAL_PORTS, OutgoingPacket, Route, Routes};
pub use rule_view::RuleView;
pub use written::written;
