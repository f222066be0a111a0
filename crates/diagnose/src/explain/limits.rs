//! Limits of a mesh's rules that the packet has run into: what people would expect otherwise, and what helps.

use super::Explanation;
use mesh::limit::Limit;
use rules::simulate::{Matched, Step};
use serde::Serialize;

/// A limit that affects the packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limited {
    /// The code of the finding, as in `lint`.
    pub code: &'static str,
    /// The text for people.
    pub text: String,
    /// The remedy.
    pub remedy: String,
}

impl Explanation<'_> {
    /// What the rules that the packet has met do though people expect otherwise.
    pub fn limits(&self) -> Vec<Limited> {
        let mut found: Vec<Limited> = Vec::new();
        for step in &self.trace.0 {
            for (limit, about) in self.limits_of(step) {
                let (text, remedy) = limit.about_items(&about);
                if found.iter().all(|known| known.code != limit.code.name()) {
                    found.push(Limited { code: limit.code.name(), text, remedy });
                }
            }
        }
        found
    }

    fn limits_of(&self, step: &Step) -> Vec<(&'static Limit, String)> {
        let stated = self.stated_reason(step.at).zip(self.view.rule(step.at));
        let Some((reason, rule)) = stated else { return Vec::new() };
        let limits = reason.mesh().reasons().limits().iter();
        let concerns = |limit: &&Limit| {
            limit.reason == reason && (limit.concerns)(self.packet, step.matched == Matched::Yes)
        };
        let about = || self.value(&rule.conditions, reason.meaning()).unwrap_or_default();
        limits.filter(concerns).map(|limit| (limit, about())).collect()
    }
}
