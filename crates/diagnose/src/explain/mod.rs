//! Explanations of the verdicts of [`rules::simulate`]: the option behind a rule, the failed condition, the owner of a port.

mod because;
mod destination;
mod explanation;
mod pod;
mod question;
mod report;
#[cfg(test)]
mod tests;

pub use crate::pod_packets::SOURCE_PORT;
pub(crate) use because::{item_texts, limits_met, option};
pub use destination::{authority, written};
pub use explanation::{Explanation, explain};
pub use pod::{
    ApplicationUser, Arrival, IncomingPacket, LOCAL_PORTS, OutgoingPacket, PodContext, Route, Routes,
    RuleView, Sender,
};
pub(crate) use pod::{declared_addresses, tproxy_mark};
pub(crate) use question::default_source;
#[cfg(test)]
pub(crate) use question::usual_packet;
pub use question::{EndpointNames, PacketQuery, QuestionContext, packet};
pub use report::{
    ExplainedRule, ExplanationReport, Limited, PacketCase, PacketEnd, PacketReport, TraceEntry, VerdictKind,
};
