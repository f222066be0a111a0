//! Tokenizer for lines of restore text: words, quotes, commands on chains.

use super::Problem;
use crate::{Hits, Position};

pub(crate) enum Entry<'a> {
    /// Declaration of a chain: `:NAME POLICY [PACKETS:BYTES]` or `-N NAME`.
    Chain { chain: &'a str, drops: bool },
    Rule {
        chain: &'a str,
        position: Position,
        words: Vec<String>,
        text: String,
        /// `iptables-save -c` prints them before the rule.
        hits: Option<Hits>,
    },
}

pub(super) fn entry(text: &str) -> Result<Entry<'_>, Problem> {
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

/// Splits at spaces. Double quotes at the start of a word enclose it; inside them a backslash escapes the next character
/// (`xtables_save_string`). Within any other word, and at the start of a name, a quote is a part of it.
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
