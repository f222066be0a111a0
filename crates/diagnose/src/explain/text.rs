//! An explanation for people: the verdict, then each rule met.

use super::{Explanation, Limited, PacketCase, because};
use crate::{Style, fold, plain};
use mesh::visible;
use rules::nft::Field;
use rules::render::listed;
use rules::simulate::{Direction, Matched, Step};
use std::fmt::{self, Display, Write};

/// Where a rule's text begins in its line.
const RULE: usize = 6;

impl Display for Explanation<'_> {
    /// As [`Explanation::text`], without colours and with lines as long as they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.text(usize::MAX)))
    }
}

impl Explanation<'_> {
    /// The explanation in lines of so many columns, where their words allow it. What decides is in colour, and what does
    /// not concern the packet is dim.
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        // A text can always be written to.
        let _ = self.write(&mut text, width);
        text
    }

    fn write(&self, f: &mut String, width: usize) -> fmt::Result {
        if let Some(on) = self.depends_on() {
            f.push_str(&fold(&format!("{}\n", Style::Strong.paint(format!("depends on {on}:"))), 2, width));
            for PacketCase { text, verdict, summary, reason, .. } in &self.cases {
                let words = Style::of_verdict(verdict).paint(summary);
                f.push_str(&fold(&format!("  {text}: {words}, because {reason}\n"), 4, width));
            }
        } else {
            let verdict = self.style().paint(self.verdict());
            f.push_str(&fold(&format!("{verdict}, because {}\n", self.reason()), 2, width));
        }
        writeln!(f, "\n{}", fold(&self.packet_line(), 2, width))?;
        for Limited { text, remedy, .. } in self.limits() {
            f.push_str(&fold(&format!("{}: {text}\n", Style::Strong.paint("note")), RULE, width));
            f.push_str(&fold(&format!("{:RULE$}-> {remedy}\n", ""), RULE + 3, width));
        }
        if self.trace.0.is_empty() {
            return writeln!(f, "It meets no rule.");
        }
        let mut chain = None;
        for step in &self.trace.0 {
            if chain != Some((step.hook, step.at.chain)) {
                chain = Some((step.hook, step.at.chain));
                let chain_rules = &self.view.chains()[step.at.chain];
                let from = match chain_rules.base.is_some() {
                    true => String::new(),
                    false => format!(" (from {})", step.hook.name()),
                };
                let title = visible(&format!("{} {}{from}", chain_rules.table, chain_rules.chain));
                writeln!(f, "\n{}", Style::Strong.paint(title))?;
            }
            f.push_str(&fold(&self.step(step), RULE, width));
        }
        Ok(())
    }

    /// The packet in one line: protocol, ends, sender or interface, mark if it has one, state.
    pub fn packet_line(&self) -> String {
        let packet = self.packet;
        let interface = self.endpoint_names.interface(packet);
        let route = match &packet.direction {
            Direction::Outbound { uid, gid, .. } => {
                let by = interface.map(|name| format!(", leaving by {name}")).unwrap_or_default();
                format!("from user {uid}{}, group {gid}{by}", self.endpoint_names.user_remark)
            }
            Direction::Inbound { .. } => {
                interface.map_or("arriving".to_owned(), |name| format!("arriving at {name}"))
            }
        };
        let state = packet.state.name().to_lowercase();
        let (from, to) = (self.endpoint_names.source(packet), self.endpoint_names.destination(packet));
        let mark = if packet.mark == 0 { String::new() } else { format!(", mark {:#x}", packet.mark) };
        format!("{} {from} -> {to}, {route}{mark}, {state}", packet.protocol)
    }

    fn step(&self, step: &Step) -> String {
        let Some(rule) = self.view.rule(step.at) else { return String::new() };
        let decides = match self.outcome.decided_by == Some(step.at) {
            true => format!(" {}", self.style().paint("<- decides")),
            false => String::new(),
        };
        let (mark, why) = match step.matched {
            Matched::Yes => ("+", String::new()),
            Matched::No(index) => {
                let condition = &rule.conditions[index];
                let instead = because::actual_value(condition, self.packet);
                let instead = instead.filter(|_| {
                    self.endpoint_names.interface(self.packet).is_some()
                        || condition.field() != Some(Field::OutInterface)
                });
                let instead = instead.map(|text| format!(": {text}")).unwrap_or_default();
                (" ", format!("no: {}{instead}", listed::condition(condition)))
            }
            Matched::Unknown(index) => {
                ("?", format!("not known: {}", listed::condition(&rule.conditions[index])))
            }
        };
        let option = rule.origin.map(|origin| self.option_text(origin)).unwrap_or_default();
        let notes: Vec<String> = [why, option].into_iter().filter(|note| !note.is_empty()).collect();
        let notes = if notes.is_empty() { String::new() } else { format!("   # {}", notes.join("; ")) };
        let notes = visible(&notes);
        let line = visible(&format!("{mark} {:>3} {}", step.at.rule + 1, listed::rule(rule)));
        match step.matched {
            Matched::No(_) => format!("{}\n", Style::Quiet.paint(format!("{line}{notes}{decides}"))),
            Matched::Yes | Matched::Unknown(_) => {
                format!("{line}{}{decides}\n", Style::Quiet.paint(notes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PodContext, Sender, explain, usual_packet};
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
        let rule = explained.deciding_rule().expect("the rule");
        for text in [explained.to_string(), explained.sentence(), rule] {
            let names = ["t\\u{7}", "c\\u{1b}[2J", "r\\u{1b}[2J"];
            assert!(names.iter().all(|name| text.contains(name)), "{text:?}");
        }
    }
}
