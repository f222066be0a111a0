//! The text of `iptables-save`, and our own previews, back into the model.
//!
//! What the model can't say stays as text ([`crate::Foreign`]); nothing is guessed and nothing is lost.

mod line;
mod listing;
mod loose;
mod rule;

pub use listing::listing;

use crate::{Chain, ChainState, Family, Foreign, Line, Position, RuleSet, State, Statement, Table};
use line::Entry;

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {problem}")]
pub struct ParseError {
    /// Counted from 1.
    pub number: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A quote that does not close.
    #[error("a quote is not closed")]
    Quote,
    /// A line that is none of `*TABLE`, `:CHAIN`, a command on a chain, `COMMIT` or a comment.
    #[error("is no line of iptables-save: {0:?}")]
    Unknown(String),
    /// A chain or rule before the first `*TABLE`.
    #[error("no table has started")]
    NoTable,
    /// A chain name that the kernel would not take.
    #[error("{0:?} is no name of a chain")]
    ChainName(String),
    /// A rule, in a preview of ours, that the model can't say.
    #[error("not a rule that we make: {0:?}")]
    Foreign(String),
}

/// What `iptables-save` of this family printed. Tables other than [`Table`]'s are passed over, and so are
/// chains of names that we would never give.
///
/// # Errors
/// The first line that can't be read.
pub fn save(text: &str, family: Family) -> Result<State, ParseError> {
    let mut state = State::default();
    read(text, |table, entry| {
        let Some(table) = table else { return Ok(()) };
        let (Entry::Chain { chain: name, .. } | Entry::Rule { chain: name, .. }) = entry;
        let Ok(chain) = chain(name) else { return Ok(()) };
        let ours = chain.is_ours();
        let ChainState { lines } = state.tables.entry(table).or_default().entry(chain).or_default();
        match entry {
            Entry::Chain { .. } => {}
            Entry::Rule { position, words, text, .. } => {
                // Chains of ours go as a whole; from others a rule is deleted by what it says.
                let line = match rule::rule(&words, family) {
                    Some(rule) if ours || rule::is_as_we_write_it(&rule, &words) => {
                        Line::Typed(rule.canonical())
                    }
                    _ => Line::Foreign(foreign(&words, text)),
                };
                match position {
                    Position::Append => lines.push(line),
                    Position::Insert(number) => lines.insert((number - 1).min(lines.len()), line),
                }
            }
        }
        Ok(())
    })?;
    Ok(state)
}

/// A preview of ours, statement by statement, in the order and spelling in which it was written.
///
/// # Errors
/// The first line that can't be read, or that the model can't say.
pub fn restore(text: &str, family: Family) -> Result<RuleSet, ParseError> {
    let mut rules = RuleSet::empty(family);
    read(text, |table, entry| {
        let Entry::Rule { chain, position, words, text } = entry else { return Ok(()) };
        let (Some(table), Some(rule)) = (table, rule::rule(&words, family)) else {
            return Err(Problem::Foreign(text));
        };
        let chain = self::chain(chain)?;
        rules.statements.push(Statement { table, chain, position, rule, origin: None });
        Ok(())
    })?;
    Ok(rules)
}

fn foreign(words: &[String], text: String) -> Foreign {
    let after = |options: &[&str]| {
        words.windows(2).find(|pair| options.contains(&pair[0].as_str())).map(|pair| pair[1].clone())
    };
    let ours = crate::Comment::ours();
    Foreign {
        text,
        target: after(&["-j", "-g"]),
        carries_our_comment: after(&["--comment"]).is_some_and(|comment| comment == ours.as_str()),
    }
}

/// Walks the lines; `visit` gets each entry with its table, `None` for a table that we do not know.
fn read(
    text: &str,
    visit: impl FnMut(Option<Table>, Entry<'_>) -> Result<(), Problem>,
) -> Result<(), ParseError> {
    read_tables(text, |name| Table::ALL.into_iter().find(|table| table.name() == name), visit)
}

/// The same with tables of another kind.
fn read_tables<T: Copy>(
    text: &str,
    named: impl Fn(&str) -> Option<T>,
    mut visit: impl FnMut(Option<T>, Entry<'_>) -> Result<(), Problem>,
) -> Result<(), ParseError> {
    let mut table: Option<Option<T>> = None;
    for (index, text) in text.lines().enumerate() {
        let at = |problem| ParseError { number: index + 1, problem };
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(name) = text.strip_prefix('*') {
            table = Some(named(name.trim()));
        } else if text == "COMMIT" {
            table = None;
        } else {
            let entry = line::entry(text).map_err(at)?;
            let table = table.ok_or_else(|| at(Problem::NoTable))?;
            visit(table, entry).map_err(at)?;
        }
    }
    Ok(())
}

/// The chain that a word names.
fn chain(word: &str) -> Result<Chain, Problem> {
    word.parse().map_err(|_| Problem::ChainName(word.to_owned()))
}
