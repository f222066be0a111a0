//! An explanation for people, from its document: the verdict, then each rule met.

use super::{ExplainedRule, ExplanationReport, Limited, PacketCase, PacketEnd, PacketReport, TraceEntry};
use crate::{Style, TextLine, painted};
use mesh::visible;
use std::fmt::{self, Display};

/// The column at which a rule's text begins.
const RULE: usize = 6;

impl PacketReport {
    /// The explanation in lines of so many columns, where their words allow it.
    pub fn text(&self, width: usize) -> String {
        painted(&[self.head(), vec![TextLine::default()], self.explained.way()].concat(), width)
    }

    /// The reason why no such packet can exist; `None` if it can.
    pub fn note(&self) -> Option<String> {
        self.unsent.as_ref().map(|why| format!("{why}; by the rules alone:"))
    }

    pub fn head(&self) -> Vec<TextLine> {
        let note = self.note().map(|note| TextLine::hanging(2).styled(Style::Dropped, note));
        note.into_iter().chain(self.explained.head()).collect()
    }

    /// True if a listener gets the packet; `None` if that is unknown, or no such packet can exist.
    pub fn is_captured(&self) -> Option<bool> {
        self.explained.end.verdict.is_captured().filter(|_| self.unsent.is_none())
    }
}

impl PacketEnd {
    pub fn words(&self) -> String {
        format!("{}: {}", self.verdict.word(), self.summary)
    }

    /// The verdict and its reason in one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        format!("{}, because {}", self.words(), self.reason)
    }

    /// The sentence in a line after its title.
    pub(crate) fn line(&self, title: TextLine) -> TextLine {
        title.styled(self.verdict.style(), self.words()).plain(format!(", because {}", self.reason))
    }
}

impl ExplanationReport {
    /// The verdict and its reason in one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        let case = |PacketCase { text, end, .. }: &PacketCase| format!("{text} {}", end.sentence());
        visible(&match &self.depends_on {
            Some(on) => {
                format!("depends on {on}: {}", self.cases.iter().map(case).collect::<Vec<_>>().join("; "))
            }
            None => self.end.sentence(),
        })
    }

    /// The verdict and its reason; of several, each in a line after their title.
    pub fn head(&self) -> Vec<TextLine> {
        let Some(on) = &self.depends_on else { return vec![self.end.line(TextLine::hanging(2))] };
        let case = |PacketCase { text, end, .. }: &PacketCase| {
            end.line(TextLine::hanging(4).plain(format!("  {text}: ")))
        };
        let title = TextLine::hanging(2).styled(self.end.verdict.style(), format!("depends on {on}:"));
        [title].into_iter().chain(self.cases.iter().map(case)).collect()
    }

    /// The packet, and each rule that it meets. The rule that decides is marked, and rules that do not match are dim.
    pub fn way(&self) -> Vec<TextLine> {
        let mut lines = vec![TextLine::hanging(2).plain(&self.example)];
        for Limited { text, remedy, .. } in &self.limits {
            lines.push(TextLine::hanging(RULE).styled(Style::Strong, "note").plain(format!(": {text}")));
            lines.push(TextLine::hanging(RULE + 3).plain(format!("{:RULE$}-> {remedy}", "")));
        }
        if self.trace.is_empty() {
            lines.push(TextLine::default().plain("It meets no rule."));
        }
        let mut before = None;
        for entry in &self.trace {
            let TraceEntry { rule: ExplainedRule { table, chain, .. }, hook, .. } = entry;
            if before.replace((table, chain, hook)) != Some((table, chain, hook)) {
                let from = hook.as_ref().map(|hook| format!(" (from {hook})")).unwrap_or_default();
                let title = format!("{table} {chain}{from}");
                lines.extend([TextLine::default(), TextLine::default().styled(Style::Strong, title)]);
            }
            lines.push(self.entry_line(entry));
        }
        lines
    }

    fn entry_line(&self, TraceEntry { rule, matched, unmet, .. }: &TraceEntry) -> TextLine {
        let (mark, style, word) = match matched {
            Some(true) => ("+", None, ""),
            Some(false) => (" ", Some(Style::Quiet), "no: "),
            None => ("?", None, "not known: "),
        };
        let unmet = unmet.as_ref().map(|unmet| format!("{word}{unmet}"));
        let option = rule.option.as_ref().map(|option| match &**option {
            "" => "always there".to_owned(),
            option => option.to_owned(),
        });
        let notes: Vec<String> = unmet.into_iter().chain(option).collect();
        let text = format!("{mark} {:>3} {}", rule.position.unwrap_or_default(), rule.text);
        let mut line = TextLine::hanging(RULE).piece(style, text);
        if !notes.is_empty() {
            line = line.styled(Style::Quiet, format!("   # {}", notes.join("; ")));
        }
        let verdict = self.cases.first().map_or(self.end.verdict, |case| case.end.verdict);
        match self.decided_by.as_ref() == Some(rule) {
            true => line.plain(" ").styled(verdict.style(), "<- decides"),
            false => line,
        }
    }
}

impl ExplainedRule {
    pub fn decision(&self) -> String {
        match self.position {
            Some(_) => format!("decided by {self}: {}", visible(&self.text)),
            None => format!("decided by {self}"),
        }
    }
}

/// The place of the rule, such as `rule 2 of OUTPUT in table nat`.
impl Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, chain) = (visible(&self.table), visible(&self.chain));
        match self.position {
            Some(position) => write!(f, "rule {position} of {chain} in table {table}"),
            None => write!(f, "the policy of {chain} in table {table}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PodContext, Sender, explain, usual_packet};
    use crate::painted;
    use rules::nft::{Base, Kind, LiveBase, LiveChain, LiveRule, LiveTable};
    use rules::simulate::{Routing, View};
    use rules::{Action, Family, Hook, Policy, Protocol, Target};

    /// The owner of a table chooses the names of its chains, and the comments in it.
    #[test]
    fn names_and_texts_of_others_move_no_cursor() {
        let rule = LiveRule {
            text: "drop comment \"r\u{1b}[2J\"".to_owned(),
            conditions: Vec::new(),
            first: Vec::new(),
            action: Action::Target(Target::Drop),
            comment: String::new(),
            hits: None,
        };
        let base = Base { kind: Kind::Filter, hook: Hook::Output, priority: 0 };
        let base = Some(LiveBase { base, policy: Policy::Accept });
        let chain = LiveChain { name: "c\u{1b}[2J".to_owned(), base, rules: vec![rule] };
        let table = LiveTable { family: None, name: "inet t\u{7}".to_owned(), chains: vec![chain] };
        let mut view = View::empty(Family::V4);
        view.add_nftables(table);
        let pod = PodContext::new(["10.1.0.9".parse().expect("an address")], None);
        let to = "192.0.2.1:80".parse().expect("an address");
        let packet = usual_packet(Sender::App, &pod, &pod, Protocol::Tcp, to).expect("a packet");
        let explained = explain(&view, &Routing::default(), &packet);
        let report = explained.report();
        let way = painted(&report.way(), usize::MAX);
        for text in [painted(&report.head(), usize::MAX), way, report.sentence()] {
            let names = ["t\\u{7}", "c\\u{1b}[2J", "r\\u{1b}[2J"];
            assert!(names.iter().all(|name| text.contains(name)), "{text:?}");
        }
    }
}
