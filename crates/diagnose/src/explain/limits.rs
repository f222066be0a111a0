//! Limits of a mesh's rules that the packet has run into: what people would expect otherwise, and what helps.

use super::Explanation;
use super::because::reason_of;
use rules::simulate::Matched;
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
            let Some(rule) = self.view.rule(step.at) else { continue };
            let Some(reason) = reason_of(rule) else { continue };
            for limit in reason.mesh().reasons().limits() {
                let concerns =
                    limit.reason == reason && (limit.concerns)(self.packet, step.matched == Matched::Yes);
                if concerns && found.iter().all(|known| known.code != limit.code.name()) {
                    let about = self.value(rule).unwrap_or_default();
                    let (text, remedy) = limit.about_items(&about);
                    found.push(Limited { code: limit.code.name(), text, remedy });
                }
            }
        }
        found
    }
}
