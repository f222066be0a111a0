//! Rule counters, grouped by meaning.

use crate::packets::first_of;
use mesh::reason::{Meaning, Phrase};
use mesh::recognition::{RecognizedRule, items};
use rules::{ByFamily, Hits, field::Field};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Rules of one meaning and the sum of their counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hit {
    /// The mesh of the rules, as a `--mesh` value.
    pub mesh: Cow<'static, str>,
    /// The name of the rules, as in comments and log lines.
    #[serde(rename = "rule")]
    pub reason: Cow<'static, str>,
    /// `captured`, `excluded`, `dropped`, or `continue` (other rules decide).
    pub fate: Cow<'static, str>,
    /// The human-readable text.
    pub text: String,
    pub option: Option<String>,
    pub packets: u64,
    pub bytes: u64,
    /// Packets per second, with `--watch`.
    pub per_second: Option<f64>,
    /// The individual rules.
    pub rules: Vec<Counted>,
}

/// A rule and its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    pub family: Cow<'static, str>,
    pub table: String,
    pub chain: String,
    /// The number in the chain, from 1.
    #[serde(rename = "position")]
    pub rule: usize,
    pub text: String,
    pub packets: u64,
    pub bytes: u64,
}

/// Groups of both families, in the order of their first rules.
pub(super) fn counted(recognized: &ByFamily<Vec<RecognizedRule<'_>>>) -> Vec<Hit> {
    let mut groups: Vec<Hit> = Vec::new();
    for (family, recognized) in recognized.iter() {
        for recognized in recognized.iter().filter(|recognized| recognized.is_reached) {
            let (Some(reason), Some(meaning)) = (recognized.reason, recognized.meaning()) else { continue };
            let Some(Hits { packets, bytes }) = recognized.rule.hits else { continue };
            let (fate, text) = (meaning.row().effect.word(), counted_as(meaning, recognized));
            let rule = Counted {
                family: family.word().into(),
                table: recognized.chain.table.to_string(),
                chain: recognized.chain.chain.clone(),
                rule: recognized.at.rule + 1,
                text: recognized.rule.text.clone().unwrap_or_default(),
                packets,
                bytes,
            };
            let option = recognized.setting.map(|setting| setting.row().short_option());
            let same = |group: &&mut Hit| {
                (&*group.reason, &group.text, &group.option) == (reason.name(), &text, &option)
            };
            let at = groups.iter_mut().find(same);
            // Both families' views contain a shared rule.
            let is_shared = |group: &Hit| {
                let place = |rule: &Counted| (rule.table.clone(), rule.chain.clone(), rule.rule);
                rule.table.starts_with("inet ")
                    && group.rules.iter().any(|known| place(known) == place(&rule))
            };
            match at {
                Some(group) if is_shared(group) => {}
                Some(group) => {
                    // Counters can be set to any number (`iptables-restore -c`).
                    group.packets = group.packets.saturating_add(packets);
                    group.bytes = group.bytes.saturating_add(bytes);
                    group.rules.push(rule);
                }
                None => groups.push(Hit {
                    mesh: reason.mesh().name().into(),
                    reason: reason.name().into(),
                    fate: fate.into(),
                    text,
                    option,
                    packets,
                    bytes,
                    per_second: None,
                    rules: vec![rule],
                }),
            }
        }
    }
    groups
}

fn counted_as(meaning: Meaning, recognized: &RecognizedRule<'_>) -> String {
    let item = recognized.rule.origin.and_then(|origin| origin.item);
    let list = |field: Field| {
        let values = recognized.summary.values(field)?;
        let noun = match field {
            Field::Destination(_) => "to",
            Field::Source(_) => "from",
            Field::DestinationPort => "port",
            Field::Uid => "user",
            Field::Gid => "group",
            _ => "interface",
        };
        let other = if values.negated { " other than" } else { "" };
        Some(format!("{noun}{other} {}", first_of(&items(values), SHOWN)))
    };
    let ports = (meaning == Meaning::ExcludedOwner).then_some(Field::DestinationPort);
    let lists: Vec<String> = item.into_iter().chain(ports).filter_map(list).collect();
    let Phrase { before, all, after } = meaning.row().counted;
    match lists.join(", ").as_str() {
        "" => all.to_owned(),
        _ if before.is_empty() && !all.is_empty() => all.to_owned(),
        items => format!("{before}{items}{after}"),
    }
}

/// Number of list items shown in a sentence.
pub(super) const SHOWN: usize = 6;
