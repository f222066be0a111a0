//! An explanation for people: the verdict, then each rule met.

use super::{Explanation, because, condition_text, rule_text};
use rules::simulate::{Direction, Matched, Step};
use std::fmt::{self, Display};

impl Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence())?;
        writeln!(f, "\n{}", self.packet_line())?;
        if self.trace.0.is_empty() {
            return writeln!(f, "It meets no rule.");
        }
        let mut chain = None;
        for step in &self.trace.0 {
            if chain != Some((step.hook, step.at.chain)) {
                chain = Some((step.hook, step.at.chain));
                let held = &self.view.chains()[step.at.chain];
                let from = match held.base.is_some() {
                    true => String::new(),
                    false => format!(" (from {})", step.hook.name()),
                };
                writeln!(f, "\n{} {}{from}", held.table, held.chain)?;
            }
            self.step(f, step)?;
        }
        Ok(())
    }
}

impl Explanation<'_> {
    /// The packet in one line: protocol, ends, sender or interface, state.
    pub fn packet_line(&self) -> String {
        let packet = self.packet;
        let way = match &packet.direction {
            Direction::Outbound { interface, uid, gid } => {
                format!("from user {uid}, group {gid}, leaving by {interface}")
            }
            Direction::Inbound { interface, .. } => format!("arriving at {interface}"),
        };
        let state = packet.state.name().to_lowercase();
        let from = match packet.source.port() {
            0 => packet.source.ip().to_string(),
            _ => packet.source.to_string(),
        };
        format!("{} {from} -> {}, {way}, {state}", packet.protocol, packet.destination)
    }

    fn step(&self, f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
        let Some(rule) = self.view.rule(step.at) else { return Ok(()) };
        let decides = if self.outcome.decided_by == Some(step.at) { " <- decides" } else { "" };
        let (mark, why) = match step.matched {
            Matched::Yes => ("+", String::new()),
            Matched::No(index) => {
                let condition = &rule.conditions[index];
                let instead = because::instead(condition, self.packet);
                let instead = instead.map(|text| format!(": {text}")).unwrap_or_default();
                (" ", format!("no: {}{instead}", condition_text(condition)))
            }
            Matched::Unknown(index) => {
                ("?", format!("not known: {}", condition_text(&rule.conditions[index])))
            }
        };
        let option = rule.origin.map(|origin| match self.dialect.of_option(origin.option) {
            Some(name) => name.to_owned(),
            None => origin.option_text(),
        });
        let option = option.unwrap_or_default();
        let notes: Vec<String> = [why, option].into_iter().filter(|note| !note.is_empty()).collect();
        let notes = if notes.is_empty() { String::new() } else { format!("   # {}", notes.join("; ")) };
        writeln!(f, "{mark} {:>3} {}{notes}{decides}", step.at.rule + 1, rule_text(rule))
    }
}
