//! Parser of `iptables-save` output and our previews. Rules that the model can't express stay as text ([`crate::Foreign`]).

mod rule;
mod target;

use crate::{
    Chain, Family, Hits, ListedRule, Listing, Ownership, Policy, Position, PrintedRule, RuleSet, State,
    Statement, Table, Target,
};
use std::{borrow::Cow, collections::BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {problem}")]
pub struct ParseError {
    /// Counted from 1.
    pub number: usize,
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("unclosed quote")]
    Quote,
    /// A line that is none of `*TABLE`, `:CHAIN`, a command on a chain, `COMMIT` or a comment.
    #[error("is not a line of iptables-save output: {0:?}; run iptables-save and use its output")]
    Unknown(String),
    #[error("is iptables -L output, which lacks rule conditions; run iptables-save and use its output")]
    HumanListing,
    /// A chain or rule before the first `*TABLE`.
    #[error("has no table; run iptables-save and use its output")]
    NoTable,
    #[error("{0:?} is not the name of a chain")]
    ChainName(String),
    #[error("not a rule of sidecar-init: {0:?}")]
    Foreign(String),
}

/// Parses `iptables-save` output with any program's rules. Chains whose names [`crate::ChainName`] refuses are skipped, and rules
/// that lead to them are unknown. Fails at the first invalid line.
pub fn listing(text: &str, family: Family) -> Result<Listing, ParseError> {
    listing_of(text, family, |_| true)
}

/// Like [`listing`], for tables selected by number, from 0.
pub(crate) fn listing_of(
    text: &str,
    family: Family,
    is_read: impl Fn(usize) -> bool,
) -> Result<Listing, ParseError> {
    let mut listing = Listing::empty(family);
    read(text, |block, table, entry| {
        if !is_read(block) {
            return Ok(());
        }
        let (Entry::Chain { chain: name, .. } | Entry::Rule { chain: name, .. }) = &entry;
        let (Some(table), Ok(chain)) = (table, chain(name)) else { return Ok(()) };
        let content = listing.chains.entry((table, chain)).or_default();
        match entry {
            Entry::Chain { drops, .. } => content.policy = if drops { Policy::Drop } else { Policy::Accept },
            Entry::Rule { position, words, text, hits, .. } => {
                let rule::Read { line, is_our_spelling } = rule::read(&words, &text, family);
                let listed = PrintedRule { text, line, is_our_spelling, hits };
                match position {
                    Position::Append => content.rules.push(listed),
                    Position::Insert(number) => {
                        content.rules.insert((number - 1).min(content.rules.len()), listed);
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(listing)
}

pub fn save(text: &str, family: Family, ownership: &Ownership) -> Result<State, ParseError> {
    listing(text, family).map(|listing| listing.state(ownership))
}

/// Parses one of our previews, statement by statement, in its order and spelling. Jumps to chains that it does not make are
/// foreign. Fails at the first line that can't be read, or that the model can't express.
pub fn restore(text: &str, family: Family) -> Result<RuleSet, ParseError> {
    let mut rules = RuleSet::empty(family);
    let mut made: BTreeSet<(Table, String)> = BTreeSet::new();
    read(text, |_, table, entry| {
        let (Entry::Chain { chain: name, .. } | Entry::Rule { chain: name, .. }) = &entry;
        made.extend(table.map(|table| (table, (*name).to_owned())));
        let Entry::Rule { chain, position, words, text, .. } = entry else { return Ok(()) };
        let (Some(table), ListedRule::Typed(rule)) = (table, rule::read(&words, &text, family).line) else {
            return Err(Problem::Foreign(text));
        };
        let chain = self::chain(chain)?;
        rules.statements.push(Statement { table, chain, position, rule, origin: None });
        Ok(())
    })?;
    for Statement { table, rule, .. } in &mut rules.statements {
        if let Target::Jump(name) = &rule.target
            && !made.contains(&(*table, name.as_str().to_owned()))
        {
            rule.target = Target::JumpForeign(name.clone());
        }
    }
    Ok(rules)
}

pub(crate) struct TableBlock {
    pub(crate) family: Option<Family>,
    /// `None` for a table that iptables does not have.
    pub(crate) table: Option<Table>,
    /// True for `iptables -S`, which names no table.
    pub(crate) is_of_commands: bool,
}

/// Walks the lines; `visit` gets each entry with its block's number and its table.
pub(crate) fn read(
    text: &str,
    mut visit: impl FnMut(usize, Option<Table>, Entry<'_>) -> Result<(), Problem>,
) -> Result<Vec<TableBlock>, ParseError> {
    let (mut blocks, mut family) = (Vec::<TableBlock>::new(), None);
    let (mut is_open, mut follows_policy) = (false, false);
    let mut lines = text.lines().enumerate();
    while let Some((index, text)) = lines.next() {
        let at = |problem| ParseError { number: index + 1, problem };
        let text = whole(text.trim_start(), &mut lines);
        let text = text.trim_end();
        let is_policy = text.starts_with("-P ");
        let is_of_commands = !is_open || blocks.last().is_some_and(|block| block.is_of_commands);
        if let Some(name) = text.strip_prefix('*') {
            let table = Table::ALL.into_iter().find(|table| table.name() == name.trim());
            blocks.push(TableBlock { family, table, is_of_commands: false });
            is_open = true;
        } else if is_policy && !follows_policy && is_of_commands {
            let policies = [text].into_iter().chain(lines.clone().map(|(_, line)| line));
            let table = table_with(policies.map_while(|line| line.strip_prefix("-P ")?.split(' ').next()));
            blocks.push(TableBlock {
                family,
                table: Some(table.ok_or_else(|| at(Problem::NoTable))?),
                is_of_commands,
            });
            is_open = true;
        }
        follows_policy = is_policy;
        if let Some(program) = text.strip_prefix("# Generated by ip") {
            family = Some(if program.starts_with('6') { Family::V6 } else { Family::V4 });
        } else if text == "COMMIT" {
            is_open = false;
        } else if !text.is_empty() && !text.starts_with(['#', '*']) {
            let entry = entry(text).map_err(at)?;
            let block = blocks.last().filter(|_| is_open).ok_or_else(|| at(Problem::NoTable))?;
            visit(blocks.len() - 1, block.table, entry).map_err(at)?;
        }
    }
    Ok(blocks)
}

/// The table with exactly these base chains; `filter` rather than `security`.
fn table_with<'a>(names: impl Iterator<Item = &'a str>) -> Option<Table> {
    let names: BTreeSet<&str> = names.collect();
    let has_these = |table: &Table| {
        table.hooks().len() == names.len() && table.hooks().iter().all(|hook| names.contains(hook.name()))
    };
    Table::ALL.into_iter().find(has_these)
}

/// A line with its continuation lines: quoted text may hold line breaks, which iptables prints unescaped.
fn whole<'a>(line: &'a str, lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Cow<'a, str> {
    // A comment has at most 255 characters.
    const MAX_LINES: usize = 255;
    let mut text = Cow::Borrowed(line);
    let is_open = |text: &str| {
        line.contains('"') && line.starts_with(['-', '[']) && matches!(entry(text), Err(Problem::Quote))
    };
    for _ in 0..MAX_LINES {
        if !is_open(&text) {
            break;
        }
        let Some((_, next)) = lines.next() else { break };
        text = Cow::Owned(format!("{text}\n{next}"));
    }
    text
}

fn chain(word: &str) -> Result<Chain, Problem> {
    word.parse().map_err(|_| Problem::ChainName(word.to_owned()))
}

pub(crate) enum Entry<'a> {
    /// Declaration of a chain: `:NAME POLICY [PACKETS:BYTES]` or `-N NAME`.
    Chain { chain: &'a str, drops: bool },
    Rule {
        chain: &'a str,
        position: Position,
        words: Vec<String>,
        text: String,
        /// Printed before the rule by `iptables-save -c`.
        hits: Option<Hits>,
    },
}

fn entry(text: &str) -> Result<Entry<'_>, Problem> {
    let whole = text;
    let unknown = || Problem::Unknown(whole.to_owned());
    if let Some(declared) = text.strip_prefix(':') {
        let mut words = declared.split(' ');
        let chain = words.next().unwrap_or_default();
        return Ok(Entry::Chain { chain, drops: words.next() == Some("DROP") });
    }
    if text.starts_with("Chain ") {
        return Err(Problem::HumanListing);
    }
    let (hits, text) = counted(text);
    let (verb, rest) = text.split_once(' ').ok_or_else(unknown)?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (position, text) = match verb {
        "-N" | "-P" => return Ok(Entry::Chain { chain: name, drops: rest.starts_with("DROP") }),
        "-A" => (Position::Append, rest),
        "-I" => match rest.split_once(' ').map(|(number, rest)| (number.parse(), rest)) {
            Some((Ok(number @ 1..), rest)) => (Position::Insert(number), rest),
            _ => (Position::Insert(1), rest),
        },
        _ => return Err(unknown()),
    };
    Ok(Entry::Rule { chain: name, position, words: words(text)?, text: text.to_owned(), hits })
}

/// `iptables-save -c` puts `[PACKETS:BYTES]` before each rule.
fn counted(text: &str) -> (Option<Hits>, &str) {
    let Some((counts, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) else {
        return (None, text);
    };
    let hits = counts.split_once(':').and_then(|(packets, bytes)| {
        Some(Hits { packets: packets.parse().ok()?, bytes: bytes.parse().ok()? })
    });
    (hits, rest)
}

/// Splits at spaces. A word that starts with a double quote is quoted: a backslash escapes the next character
/// (`xtables_save_string`). Elsewhere in a word, and at the start of a name, a quote is an ordinary character.
fn words(text: &str) -> Result<Vec<String>, Problem> {
    let precedes_name = |word: &String| matches!(word.as_str(), "-i" | "-o" | "-j" | "-g");
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted => quoted = false,
            '"' if word.is_none() && !words.last().is_some_and(precedes_name) => {
                quoted = true;
                word = Some(String::new());
            }
            '\\' if quoted => word.get_or_insert_default().extend(characters.next()),
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quoted { Err(Problem::Quote) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hook;

    /// `iptables-save` prints comments and chain names unescaped.
    #[test]
    fn foreign_text_ends_no_line_and_opens_no_quote() {
        let text = "*nat\n:OUTPUT ACCEPT [0:0]\n:a\"b - [0:0]\n[1:2] -A OUTPUT -m comment --comment \"a \n-A OUTPUT -j \
                    DROP\nCOMMIT\nb\\\"c\" -j RETURN\n-A OUTPUT -j a\"b\nCOMMIT\n";
        let listing = listing(text, Family::V4).expect("a listing");
        let rules = &listing.chains[&(Table::Nat, Chain::Base(Hook::Output))].rules;
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        let comment = "-m comment --comment \"a \n-A OUTPUT -j DROP\nCOMMIT\nb\\\"c\" -j RETURN";
        assert_eq!(texts, [comment, "-j a\"b"]);
    }

    #[test]
    fn unclosed_quote_is_an_error() {
        let text =
            format!("*nat\n-A OUTPUT -m comment --comment \"a\n{}COMMIT\n", "-A OUTPUT\n".repeat(1000));
        let error = listing(&text, Family::V4).expect_err("it does not close");
        assert_eq!((error.number, error.problem), (2, Problem::Quote));
    }

    fn check(text: &str, expected: Result<&[&str], Problem>) {
        let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
        assert_eq!(words(text), expected, "{text:?}");
    }

    #[test]
    fn words_follow_the_quoting_of_iptables_save() {
        check("-p tcp  -j X", Ok(&["-p", "tcp", "-j", "X"]));
        check(r#"--comment "a \"b\" c" -j X"#, Ok(&["--comment", "a \"b\" c", "-j", "X"]));
        check(r#"--comment "" -j X"#, Ok(&["--comment", "", "-j", "X"]));
        check(r#"--comment "a"#, Err(Problem::Quote));
        check(
            r#"-j a"b -m comment --comment "c d""#,
            Ok(&["-j", "a\"b", "-m", "comment", "--comment", "c d"]),
        );
        check(r#"-i "eth0 --comment "c d" -j "a"#, Ok(&["-i", "\"eth0", "--comment", "c d", "-j", "\"a"]));
        check("", Ok(&[]));
        check("-d 10.0.0.1 -j a\"b -m x", Ok(&["-d", "10.0.0.1", "-j", "a\"b", "-m", "x"]));
    }
}
