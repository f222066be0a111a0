//! The pattern of an alias: a regular expression of RE2 with places for the environment.
//!
//! The usual mistakes with which Envoy could not compile it are refused here, where they can be named: one such expression
//! keeps it from taking any route at all. All else is left to RE2: crates with a grammar of their own refuse what it takes,
//! such as a literal brace, `{"env":"(@)"}`.

/// The expression, with places for the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasPattern(Vec<String>);

impl AliasPattern {
    /// Reads a text in which the placeholder stands for the environment.
    pub(super) fn read(text: &str, placeholder: &str) -> Result<Self, String> {
        let pattern = Self(text.split(placeholder).map(str::to_owned).collect());
        if pattern.0.len() < 2 {
            return Err(format!(
                "lacks the placeholder {placeholder:?}, so it would fit every environment; expected it in place of \
                 the environment, such as .*;env={placeholder};.*"
            ));
        }
        match check(&pattern.of("dev.red")) {
            Ok(()) => Ok(pattern),
            Err(why) => Err(format!("is not a regular expression of RE2: {why}")),
        }
    }

    /// The expression that an environment fits. Its dots stand for dots.
    pub fn of(&self, environment: &str) -> String {
        self.0.join(&environment.replace('.', "\\."))
    }
}

/// What precedes a place in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingToken {
    Nothing,
    Something,
    /// `*`, `+`, `?` or a count, `{2,3}`.
    Repetition,
    /// One of these and a `?`.
    Lazy,
}

const UNCLOSED: &str = "a ( is not closed; expected \\( for the character itself";

/// Letters that mean something to RE2 behind a backslash. It refuses all others.
const ESCAPES: &str = "AabBCdDEfnpPQrsStvwWxz";

/// Refuses what is out of balance, and what other engines have and RE2 has not.
fn check(expression: &str) -> Result<(), &'static str> {
    let mut open = 0_usize;
    let mut before = PrecedingToken::Nothing;
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        let counted = if first == '{' { after_count(rest) } else { None };
        rest = counted.unwrap_or(rest);
        match first {
            '\\' => {
                rest = escaped(rest)?;
                before = PrecedingToken::Something;
            }
            '[' => {
                rest = after_class(rest)?;
                before = PrecedingToken::Something;
            }
            '(' => {
                if ["?=", "?!", "?<=", "?<!", "?>"].iter().any(|start| rest.starts_with(start)) {
                    return Err(
                        "it looks ahead or behind ((?=, (?!, (?<=, (?<!, (?>), which RE2 does not do",
                    );
                }
                if let Some(flags) = rest.strip_prefix('?') {
                    // Flags and names are nothing that can be repeated.
                    let end = flags.find([':', '>', ')']).ok_or(UNCLOSED)?;
                    rest = &flags[end..];
                    rest = rest.strip_prefix([':', '>']).unwrap_or(rest);
                }
                open += 1;
                before = PrecedingToken::Nothing;
            }
            ')' => {
                open =
                    open.checked_sub(1).ok_or("a ) closes nothing; expected \\) for the character itself")?;
                before = PrecedingToken::Something;
            }
            '|' => before = PrecedingToken::Nothing,
            '?' if before == PrecedingToken::Repetition => before = PrecedingToken::Lazy,
            '{' if counted.is_none() => before = PrecedingToken::Something,
            '*' | '+' | '?' | '{' => match before {
                PrecedingToken::Something => before = PrecedingToken::Repetition,
                PrecedingToken::Nothing => {
                    return Err(
                        "a *, +, ? or count repeats nothing; expected it behind something, such as .*",
                    );
                }
                PrecedingToken::Repetition | PrecedingToken::Lazy => {
                    return Err("a *, +, ? or count repeats another one; expected one of them");
                }
            },
            _ => before = PrecedingToken::Something,
        }
    }
    if open > 0 { Err(UNCLOSED) } else { Ok(()) }
}

/// What follows a count, `{2}`, `{2,}` or `{2,3}`, whose brace was read; `None` for a literal brace.
fn after_count(text: &str) -> Option<&str> {
    let (count, rest) = text.split_once('}')?;
    let (least, most) = count.split_once(',').unwrap_or((count, ""));
    let is_number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
    };
    (!least.is_empty() && is_number(least) && is_number(most)).then_some(rest)
}

/// What follows an escape, whose backslash was read.
fn escaped(text: &str) -> Result<&str, &'static str> {
    let first = text.chars().next().ok_or("a \\ at its end escapes nothing; expected \\\\ for itself")?;
    let rest = &text[first.len_utf8()..];
    match first {
        // An octal number has two digits or three.
        '1'..='7' if rest.starts_with(|next: char| matches!(next, '0'..='7')) => Ok(rest),
        '1'..='9' => Err("a \\ with a digit means what was found before, which RE2 does not do"),
        // All up to \E is literal.
        'Q' => Ok(rest.split_once("\\E").map_or("", |(_, rest)| rest)),
        _ if first.is_ascii_alphabetic() && !ESCAPES.contains(first) => {
            Err("a \\ precedes a letter with which RE2 has no escape, such as \\h or \\Z")
        }
        _ => Ok(rest),
    }
}

/// What follows a class of characters, whose bracket was read.
fn after_class(text: &str) -> Result<&str, &'static str> {
    let unclosed = "a [ is not closed; expected \\[ for the character itself";
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    // First in a class, it is literal.
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let first = rest.chars().next().ok_or(unclosed)?;
        let after = &rest[first.len_utf8()..];
        rest = match first {
            ']' => return Ok(after),
            '\\' => escaped(after)?,
            '[' => {
                after.strip_prefix(':').and_then(|name| name.split_once(":]")).map_or(after, |(_, rest)| rest)
            }
            _ => after,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_re2_are_taken() {
        for text in [
            ".*;env=(@);.*",
            "(@)",
            "(a|b|)(?:c)(?i)(?P<name>d)(?i:e)(@)",
            r"\(\[\*\\(@)",
            r"[](*+?[:alpha:]\]](@)[^]]",
            r#"{"env":"(@)"}"#,
            "a{2,3}b{,4}(@)",
            "a*?b+?c??(@)",
            "a{2}?b{2,}(?:c)*{x}{02}(@)",
            r"\12\pL\x41\z(@)",
            r"\Q(*[\E(@)",
            "é+(@)",
        ] {
            assert_eq!(AliasPattern::read(text, "(@)").map(|_| ()), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_no_engine_of_envoy_takes_is_refused() {
        for (text, expected) in [
            ("env=", "lacks the placeholder"),
            ("((@)", "a ( is not closed"),
            ("(@))", "a ) closes nothing"),
            ("[a(@)", "a [ is not closed"),
            ("(@)\\", "escapes nothing"),
            ("*(@)", "repeats nothing"),
            ("(+(@))", "repeats nothing"),
            ("a|?(@)", "repeats nothing"),
            ("(?:*a)(@)", "repeats nothing"),
            ("(?P<n>+a)(@)", "repeats nothing"),
            ("{2}(@)", "repeats nothing"),
            ("a{2}*(@)", "repeats another one"),
            ("a*{2,}(@)", "repeats another one"),
            (r"a\h(@)", "RE2 has no escape"),
            (r"(@)\Z", "RE2 has no escape"),
            ("a**(@)", "repeats another one"),
            ("a*?*(@)", "repeats another one"),
            ("(?!x)(@)", "looks ahead or behind"),
            ("(?<=x)(@)", "looks ahead or behind"),
            (r"(a)\1(@)", "what was found before"),
        ] {
            let found = AliasPattern::read(text, "(@)").expect_err(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
    }
}
