//! The differences between two configurations, by packets and by rules, as a document.

use super::{Change, Comparison};
use crate::explain::{PacketEnd, VerdictKind};
use crate::{Style, TextLine, painted};
use rules::drift::{Compared, DifferingPart};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::HashSet};

/// The differences between two configurations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiffReport {
    /// The first configuration in words; null if only the second file has the pod.
    pub from: Option<String>,
    /// The second configuration; null if only the first file has the pod.
    pub to: Option<String>,
    /// True if nothing differs, no foreign rule decides before ours, and no other mesh captures.
    pub equal: bool,
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The backend that holds or would hold our live rules; null for two configurations.
    pub backend: Option<String>,
    /// The live rules' differences, in short; null if none differ.
    pub summary: Option<String>,
    /// Differing parts of the rules: iptables chains, parts of our nf_tables table, and routing.
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
    /// The part's rules or elements, including equal ones.
    pub rules: Vec<RuleReport>,
}

/// A rule of one side or of both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleReport {
    /// The side: `both`, `from` or `to`.
    pub side: Cow<'static, str>,
    /// The text.
    pub text: String,
    /// The reason for the difference; null if equal.
    pub reason: Option<String>,
}

/// Another program that captures in the namespace, so `apply` would fail.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherMesh {
    /// The mesh, as a `--mesh` value.
    pub mesh: Cow<'static, str>,
    /// The evidence.
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

    fn lines(&self) -> Vec<TextLine> {
        let rule = |RuleReport { side, text, reason }: &RuleReport| {
            let (sign, style) = match &**side {
                "from" => ("-", Some(Style::Passing)),
                "to" => ("+", Some(Style::Captured)),
                _ => (" ", None),
            };
            let line = TextLine::hanging(4).piece(style, format!("{sign}{text}"));
            match reason {
                Some(reason) => line.plain("  ").styled(Style::Quiet, format!("# {reason}")),
                None => line,
            }
        };
        let title = TextLine::hanging(4).styled(Style::Strong, format!("@@ {}", self.part));
        [title].into_iter().chain(self.rules.iter().map(rule)).collect()
    }
}

const OUTCOME_COLUMN: usize = 9;

impl DiffReport {
    /// Renders the differences in lines of `width` columns; `lists_rules` adds all rules of differing parts.
    pub fn text(&self, width: usize, lists_rules: bool) -> String {
        let Self { from, to, equal, comparison, backend, summary, parts, .. } = self;
        let line = |text: String| TextLine::hanging(2).plain(text);
        let (Some(from), Some(to)) = (from, to) else {
            let only = from.iter().chain(to).map(|name| line(format!("only {name}")));
            return painted(&only.collect::<Vec<_>>(), width);
        };
        let mut lines = vec![TextLine::hanging(2).styled(Style::Quiet, format!("from {from} to {to}:"))];
        lines.extend(match backend {
            Some(backend) if *equal => vec![line(format!("Rules are in place ({backend})"))],
            Some(_) if parts.is_empty() && comparison.changes.is_empty() => {
                vec![line("No rule differs".to_owned())]
            }
            _ => comparison.lines(),
        });
        lines.extend(summary.as_ref().map(|summary| {
            let line = TextLine::hanging(2).styled(Style::Strong, format!("Rules differ: {summary}"));
            if lists_rules { line } else { line.plain(" (--rules prints them)") }
        }));
        if lists_rules {
            lines.extend(parts.iter().flat_map(PartReport::lines));
        }
        painted(&lines, width)
    }
}

impl Comparison {
    pub fn has_known_change(&self) -> bool {
        let is_known = |change: &Change| {
            [&change.before, &change.after].iter().all(|end| end.verdict != VerdictKind::Unknown)
        };
        self.changes.iter().any(|change| is_known(change) && !change.packets.is_unusual())
    }

    pub fn lines(&self) -> Vec<TextLine> {
        let mut lines = Vec::new();
        let (shown, omitted) = self.shown();
        for change in shown {
            lines.push(change.line());
            for (name, end) in [("before", &change.before), ("after", &change.after)] {
                let text = format!("  {name:<7}{}", end.sentence());
                lines.push(TextLine::hanging(OUTCOME_COLUMN).styled(Style::Quiet, text));
            }
        }
        let omitted = omitted.map(|text| format!("{text}; --output json lists them."));
        lines.extend(omitted.map(|text| TextLine::default().plain(text)));
        let known = match (self.complete, self.changes.is_empty()) {
            (true, true) => "No verdict changes.",
            (true, false) => return lines,
            (false, true) => {
                "Too many rules to compare all packets: no change was found, but some may exist."
            }
            (false, false) => {
                "Too many rules to compare all packets: the listed changes are right, but others may be missing."
            }
        };
        lines.push(TextLine::default().plain(known));
        lines
    }

    /// Changes to print, without duplicate lines, and a sentence about changes of unusual packets if these are omitted.
    pub fn shown(&self) -> (Vec<&Change>, Option<String>) {
        let (unusual, usual): (Vec<&Change>, Vec<&Change>) =
            self.changes.iter().partition(|change| change.packets.is_unusual());
        let (mut shown, omitted) = if usual.is_empty() { (unusual, 0) } else { (usual, unusual.len()) };
        let mut lines = HashSet::new();
        shown.retain(|change| lines.insert(change.line()));
        let noun = if omitted == 1 { "change concerns" } else { "changes concern" };
        let which = "packets with marks, from unusual sources or in unusual connection states";
        (shown, (omitted > 0).then(|| format!("{omitted} more {noun} {which}")))
    }
}

impl Change {
    pub fn line(&self) -> TextLine {
        let outcomes =
            |with_port| [&self.before, &self.after].map(|outcome| outcome.verdict_words(with_port));
        let [before, after] = outcomes(false);
        let [before, after] = if before == after { outcomes(true) } else { [before, after] };
        let line = TextLine::hanging(2).styled(Style::Strong, &self.text).plain(": ");
        let line = line.styled(self.before.verdict.style(), before).plain(" -> ");
        line.styled(self.after.verdict.style(), after)
    }
}

impl PacketEnd {
    pub fn verdict_words(&self, with_port: bool) -> String {
        let Self { verdict, transparent, port, last_port, .. } = *self;
        let word = verdict.word();
        let by = if transparent == Some(true) { " (TPROXY)" } else { "" };
        match (&self.translated, port, last_port) {
            (Some(to), ..) if with_port => format!("{word}, sent to {to}"),
            (_, Some(first), Some(last)) if with_port => format!("{word} at {first}-{last}{by}"),
            (_, Some(port), None) if with_port => format!("{word} at {port}{by}"),
            _ => word.to_owned(),
        }
    }
}
