//! Limits of a mesh's rules that the packet has run into: effects that people would not expect, and remedies.

use super::because::reason_of;
use super::{Explanation, Limited};
use mesh::limit::Limit;
use rules::simulate::{Matched, Packet, Step, View, ViewRule};

/// The limits that a packet runs into by the rules that it has met, each with its rule.
pub(crate) fn limits_met<'a>(
    view: &'a View,
    packet: &'a Packet,
    steps: &'a [Step],
) -> impl Iterator<Item = (&'static Limit, &'a ViewRule)> {
    steps.iter().filter_map(|step| Some((step, view.rule(step.at)?))).flat_map(move |(step, rule)| {
        let reason = reason_of(rule);
        let limits = reason.map(|reason| reason.mesh().entry().limits).unwrap_or_default();
        let concerns = move |limit: &&Limit| {
            Some(limit.reason) == reason && (limit.concerns)(packet, step.matched == Matched::Yes)
        };
        limits.iter().filter(concerns).map(move |limit| (limit, rule))
    })
}

impl Explanation<'_> {
    pub fn limits(&self) -> Vec<Limited> {
        let mut found: Vec<Limited> = Vec::new();
        for (limit, rule) in limits_met(self.view, self.packet, &self.trace.0) {
            if found.iter().all(|known| known.code != limit.code.name()) {
                let (text, remedy) = limit.about_items(&self.value(rule).unwrap_or_default());
                found.push(Limited { code: limit.code.name().to_owned(), text, remedy });
            }
        }
        found
    }
}
