//! What rules have counted, in groups that mean the same.

use super::parts::shown;
use mesh::reason::{About, MeaningRow, Phrase};
use mesh::recognition::RecognizedRule;
use mesh::recognition::summary::{FieldValues, RuleSummary};
use rules::{ByFamily, Hits};
use serde::Serialize;

/// Rules of one meaning and the sum of their counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hit {
    /// The mesh of the rules, a value of `--mesh`.
    pub mesh: &'static str,
    /// The name of the rules, as in comments and log lines.
    #[serde(rename = "rule")]
    pub reason: &'static str,
    /// `captured`, `left_alone`, `dropped`, or `led_on` to other rules.
    pub fate: &'static str,
    /// The text for people.
    pub text: String,
    pub option: Option<String>,
    pub packets: u64,
    pub bytes: u64,
    /// Packets a second, with `--watch`.
    pub per_second: Option<f64>,
    /// The single rules.
    pub rules: Vec<Counted>,
}

/// A rule and its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    pub family: &'static str,
    pub table: String,
    pub chain: String,
    /// Its number in the chain, from 1.
    #[serde(rename = "position")]
    pub rule: usize,
    pub text: String,
    pub packets: u64,
    pub bytes: u64,
}

/// All groups, in the order of their first rules; of both families together.
pub(super) fn counted(recognized: &ByFamily<Vec<RecognizedRule<'_>>>) -> Vec<Hit> {
    let mut groups: Vec<Hit> = Vec::new();
    for (family, recognized) in recognized.iter() {
        for recognized in recognized.iter().filter(|recognized| recognized.is_reached) {
            let (Some(reason), Some(Hits { packets, bytes })) = (recognized.reason, recognized.rule.hits)
            else {
                continue;
            };
            let row = recognized.meaning().unwrap_or(reason.meaning()).row();
            let (fate, text) = (row.effect.word(), counted_as(row, &recognized.summary));
            let rule = Counted {
                family: family.word(),
                table: recognized.chain.table.to_string(),
                chain: recognized.chain.chain.clone(),
                rule: recognized.at.rule + 1,
                text: recognized.rule.text.clone().unwrap_or_default(),
                packets,
                bytes,
            };
            let option = recognized.setting.map(|setting| setting.row().short_option());
            let same = |group: &&mut Hit| {
                (group.reason, &group.text, &group.option) == (reason.name(), &text, &option)
            };
            let at = groups.iter_mut().find(same);
            // A rule for packets of both families is in the views of both.
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
                    mesh: reason.mesh().name(),
                    reason: reason.name(),
                    fate,
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

/// What the packets are that a rule counts.
fn counted_as(row: &MeaningRow, summary: &RuleSummary) -> String {
    let list = |noun: &str, values: Option<&FieldValues>| {
        values.map(|values| {
            let other = if values.negated { " other than" } else { "" };
            format!("{noun}{other} {}", shown(&values.items))
        })
    };
    let ports = || list("port", summary.values(About::Port));
    let owner = || list("user", summary.uid.as_ref()).or_else(|| list("group", summary.gid.as_ref()));
    let items = match row.about {
        About::Nothing => None,
        // All networks but that of loopback need no mention.
        About::Destination => list("to", summary.values(row.about).filter(|values| !values.negated)),
        About::Source => list("from", summary.values(row.about)),
        About::Port => ports(),
        About::Interface => list("interface", summary.values(row.about)),
        About::Owner => owner(),
        About::OwnerAndPorts => Some([owner(), ports()].into_iter().flatten().collect::<Vec<_>>().join(", ")),
    };
    let Phrase { before, all, after } = row.counted;
    match items.unwrap_or_default().as_str() {
        "" => all.to_owned(),
        // The whole list goes by one name.
        _ if before.is_empty() && !all.is_empty() => all.to_owned(),
        items => format!("{before}{items}{after}"),
    }
}
