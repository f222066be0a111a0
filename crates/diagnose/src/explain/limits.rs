//! Limits of a mesh's rules that the packet has run into: what people would expect otherwise, and what helps.

use super::because::reason_of;
use super::{Explanation, Limited};
use rules::simulate::Matched;

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
                    found.push(Limited { code: limit.code.name().to_owned(), text, remedy });
                }
            }
        }
        found
    }
}
