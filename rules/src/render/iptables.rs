//! The language of iptables: restore text, single commands, and the script of a change.
//!
//! [`restore`] prints what upstream prints, letter for letter, so that a diff of previews stays readable to
//! people who know it.

use crate::{
    Chain, Checked, Family, ListedRule, Mark, Match, Negatable, Position, Rule, Statement, Table,
    TableChange, Target,
};
use std::fmt::{Display, Write};

/// Restore text of the whole rule set, for an empty namespace. A table without rules is left out.
pub fn restore(rules: &Checked) -> String {
    let mut text = String::new();
    for table in Table::LISTED.into_iter().filter(|&table| rules.rules().of_table(table).next().is_some()) {
        line(&mut text, format_args!("* {table}"));
        for name in rules.rules().user_chains(table) {
            line(&mut text, format_args!("-N {name}"));
        }
        for statement in rules.rules().of_table(table) {
            line(&mut text, self::statement(statement));
        }
        line(&mut text, "COMMIT");
    }
    text
}

/// The same as commands for a shell, one a line, in the same order.
pub fn commands(rules: &Checked) -> String {
    let program = match rules.rules().family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    let mut text = String::new();
    for table in Table::LISTED {
        for name in rules.rules().user_chains(table) {
            line(&mut text, format_args!("{program} -t {table} -N {name}"));
        }
        for statement in rules.rules().of_table(table) {
            line(&mut text, format_args!("{program} -t {table} {}", self::statement(statement)));
        }
    }
    text
}

/// The script that makes one change when `iptables-restore --noflush` reads it: one table, one commit.
pub fn change(change: &TableChange) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("*{}", change.table));
    for (chain, _) in &change.replace {
        // Creates the chain, or empties the one that is there.
        line(&mut text, format_args!(":{chain} - [0:0]"));
    }
    for (chain, rule) in &change.delete {
        line(&mut text, format_args!("-D {chain} {}", self::line_text(rule)));
    }
    for (chain, rules) in &change.replace {
        for rule in rules {
            line(&mut text, format_args!("-A {chain} {}", self::fitting_text(rule)));
        }
    }
    for (chain, number, rule) in &change.insert {
        line(&mut text, format_args!("-I {chain} {number} {}", self::fitting_text(rule)));
    }
    for verb in ["-F", "-X"] {
        for chain in &change.remove {
            line(&mut text, format_args!("{verb} {chain}"));
        }
    }
    line(&mut text, "COMMIT");
    text
}

/// The most words of a rule that `iptables-restore` takes: its array of 255 (`MAX_ARGC` in xshared.h) also holds its own
/// name, `-t TABLE`, `-I CHAIN NUMBER` and an end.
const MAX_WORDS: usize = 248;

/// Whether a rule has more words than `iptables-restore` takes. [`change`] makes do with fewer; in [`restore`] they are
/// upstream's.
pub fn exceeds(rules: &Checked) -> bool {
    rules.rules().statements.iter().any(|statement| is_too_long(&statement.rule))
}

fn is_too_long(rule: &Rule) -> bool {
    // No match and no target takes more than five.
    (rule.matches.len() + 1) * 5 > MAX_WORDS && self::rule(rule).split_ascii_whitespace().count() > MAX_WORDS
}

/// One statement: `-A CHAIN ...` or `-I CHAIN N ...`.
pub fn statement(statement: &Statement) -> String {
    let Statement { chain, position, rule, .. } = statement;
    match position {
        Position::Append => format!("-A {chain} {}", self::rule(rule)),
        Position::Insert(number) => format!("-I {chain} {number} {}", self::rule(rule)),
    }
}

/// A line of a chain as an append, for people to read: `-A CHAIN ...`.
pub fn appended(chain: &Chain, line: &ListedRule) -> String {
    format!("-A {chain} {}", line_text(line))
}

/// The conditions and the target of a rule.
pub fn rule(rule: &Rule) -> String {
    let mut text = String::new();
    for m in &rule.matches {
        matched(&mut text, m);
    }
    target(&mut text, &rule.target);
    text
}

/// One condition, as it stands in a rule.
pub fn condition(m: &Match) -> String {
    let mut text = String::new();
    matched(&mut text, m);
    text.truncate(text.trim_end().len());
    text
}

/// A target, as it stands in a rule.
pub fn target_text(target: &Target) -> String {
    let mut text = String::new();
    self::target(&mut text, target);
    text
}

fn line_text(line: &ListedRule) -> String {
    match line {
        ListedRule::Typed(typed) | ListedRule::Inherited(typed) => rule(typed),
        ListedRule::Foreign(foreign) => foreign.text.clone(),
    }
}

/// In the usual words, or in fewer where there are too many: `-mowner ! --gid-owner=1` says the same as
/// `-m owner ! --gid-owner 1`. Nothing but a list of users or groups makes a rule so long.
fn fitting_text(line: &ListedRule) -> String {
    let rule = match line {
        ListedRule::Typed(rule) | ListedRule::Inherited(rule) if is_too_long(rule) => rule,
        ListedRule::Typed(_) | ListedRule::Inherited(_) | ListedRule::Foreign(_) => return line_text(line),
    };
    let mut text = String::new();
    for m in &rule.matches {
        match m {
            Match::UidOwner(uid) => owner(&mut text, "--uid-owner", uid),
            Match::GidOwner(gid) => owner(&mut text, "--gid-owner", gid),
            other => matched(&mut text, other),
        }
    }
    target(&mut text, &rule.target);
    text
}

fn owner<T: Display>(text: &mut String, name: &str, value: &Negatable<T>) {
    word(text, format_args!("-mowner {}{name}={} ", value.sign(), value.value()));
}

fn matched(text: &mut String, m: &Match) {
    if let Some(module) = m.module() {
        word(text, format_args!("-m {module} "));
    }
    match m {
        Match::Source(cidr) => option(text, "-s", cidr),
        Match::Destination(cidr) => option(text, "-d", cidr),
        Match::InInterface(name) => option(text, "-i", name),
        Match::OutInterface(name) => option(text, "-o", name),
        Match::Protocol(protocol) => word(text, format_args!("-p {protocol} ")),
        Match::SourcePort(port) => option(text, "--sport", port),
        Match::DestinationPort(port) => option(text, "--dport", port),
        Match::DestinationPorts(ports) => option(text, "--dports", ports),
        Match::UidOwner(uid) => option(text, "--uid-owner", uid),
        Match::GidOwner(gid) => option(text, "--gid-owner", gid),
        Match::ConnState(states) => option(text, "--ctstate", states),
        Match::Mark(mark) => option(text, "--mark", mark),
        Match::Connmark(mark) => option(text, "--mark", mark),
        Match::ProtocolModule(_) => {}
        Match::Comment(comment) => word(text, format_args!("--comment \"{comment}\" ")),
    }
}

fn option<T: Display>(text: &mut String, name: &str, value: &Negatable<T>) {
    word(text, format_args!("{}{name} {} ", value.sign(), value.value()));
}

fn target(text: &mut String, target: &Target) {
    match target {
        Target::Accept => word(text, "-j ACCEPT"),
        Target::Drop => word(text, "-j DROP"),
        Target::Return => word(text, "-j RETURN"),
        Target::Jump(chain) | Target::JumpForeign(chain) => word(text, format_args!("-j {chain}")),
        Target::Redirect(ports) => word(text, format_args!("-j REDIRECT --to-ports {}", ports.dashed())),
        Target::Tproxy { port, mark: Mark { value, mask } } => {
            word(text, format_args!("-j TPROXY --tproxy-mark {value}/{mask:#x} --on-port {port}"));
        }
        Target::SetMark(mark) if mark.is_whole() => word(text, format_args!("-j MARK --set-mark {mark}")),
        Target::SetMark(mark) => word(text, format_args!("-j MARK --set-xmark {mark}")),
        Target::SetConnmark(Mark { value, mask }) => {
            word(text, format_args!("-j CONNMARK --set-xmark {value:#x}/{mask:#x}"));
        }
        Target::SaveMark => word(text, "-j CONNMARK --save-mark"),
        Target::RestoreMark => word(text, "-j CONNMARK --restore-mark"),
        Target::SetZone(zone) => word(text, format_args!("-j CT --zone {zone}")),
        Target::Nflog { group, prefix } => {
            word(text, format_args!("-j NFLOG --nflog-prefix \"{prefix}\" --nflog-group {group}"));
        }
        Target::Log { prefix, level } => {
            let quote = if prefix.is_word() { "" } else { "\"" };
            let level = level.number();
            word(text, format_args!("-j LOG --log-prefix {quote}{prefix}{quote} --log-level {level}"));
        }
    }
}

fn line(text: &mut String, content: impl Display) {
    writeln!(text, "{content}").expect("writing to a string can't fail");
}

fn word(text: &mut String, content: impl Display) {
    write!(text, "{content}").expect("writing to a string can't fail");
}
