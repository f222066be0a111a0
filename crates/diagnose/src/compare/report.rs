//! The differences between two configurations, by packets and by rules, as a document.

use super::Comparison;
use rules::drift::{Compared, DifferingPart};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The differences between two configurations.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffReport {
    /// The first configuration in words; null where the pod is in the second file alone.
    pub from: Option<String>,
    /// The second configuration; null where the pod is in the first file alone.
    pub to: Option<String>,
    /// Whether nothing differs, no foreign rule decides before ours, and no other mesh captures.
    pub equal: bool,
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The backend that holds our live rules, or would hold them; null for two settings.
    pub backend: Option<String>,
    /// The difference of live rules, in short; null where none differs.
    pub summary: Option<String>,
    /// Differing parts of the rules: chains of iptables, parts of our nf_tables table, and routing.
    pub parts: Vec<PartReport>,
    /// Foreign rules that decide before ours.
    pub before: Vec<String>,
    /// Other meshes that capture in this namespace.
    pub others: Vec<OtherMesh>,
}

/// A differing part of the rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartReport {
    /// The name of the part.
    pub part: String,
    /// All its rules or elements, including equal ones.
    pub rules: Vec<RuleReport>,
}

/// A rule of one side or of both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleReport {
    /// The side: both, from or to.
    pub side: Cow<'static, str>,
    /// The text.
    pub text: String,
    /// The reason of the difference; null if equal.
    pub reason: Option<String>,
}

/// Another program that captures in the namespace: `apply` would refuse, whatever our rules are like.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherMesh {
    /// The mesh, a value of `--mesh`.
    pub mesh: Cow<'static, str>,
    /// The evidence for it.
    pub text: String,
    /// The command that removes it.
    pub remedy: String,
}

impl PartReport {
    pub fn of(DifferingPart { name, lines }: &DifferingPart) -> Self {
        let rule = |Compared { side, line, reason }: &Compared<String>| RuleReport {
            side: side.name().into(),
            text: line.clone(),
            reason: reason.map(|reason| reason.to_string()),
        };
        Self { part: name.clone(), rules: lines.iter().map(rule).collect() }
    }
}
