//! Regular expressions of RE2, which Go and Envoy have, for an engine of the same kind: it takes time in proportion to the
//! text.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    Ast, ClassAsciiKind, Flag, Flags, FlagsItemKind, GroupKind, RepetitionKind, RepetitionRange,
};

/// The most levels of nested groups.
const MAX_DEPTH: u32 = 50;

/// The most repetitions of one part; where counts lie in each other, of their product. (RE2: re2/parse.cc,
/// `maximum_repeat_count`; Go: regexp/syntax, `repeatIsValid`.)
const MAX_REPETITIONS: u32 = 1000;

/// `max_size` is in bytes.
///
/// # Errors
/// RE2's reason to refuse it, or its size.
pub(crate) fn compile(expression: &str, max_size: usize) -> Result<Regex, String> {
    let translated = translated(expression)?;
    let mut parser = ParserBuilder::new().nest_limit(MAX_DEPTH).build();
    let ast = parser.parse(&translated).map_err(|error| error.kind().to_string())?;
    check(&ast, MAX_REPETITIONS)?;
    RegexBuilder::new(&translated).size_limit(max_size).build().map_err(|error| {
        // A fault of syntax has lines that show its place in what we translated.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        why.trim_start_matches("error: ").to_owned()
    })
}

/// Refuses what only the engine takes: flags, repetitions of repetitions, and more of them than `most`.
fn check(ast: &Ast, most: u32) -> Result<(), String> {
    match ast {
        Ast::Repetition(repetition) => {
            if matches!(*repetition.ast, Ast::Repetition(_)) {
                return Err("a repetition is repeated; expected a group around the inner one".to_owned());
            }
            let count = match &repetition.op.kind {
                RepetitionKind::Range(
                    RepetitionRange::Exactly(count)
                    | RepetitionRange::AtLeast(count)
                    | RepetitionRange::Bounded(_, count),
                ) => *count,
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
            };
            if count > most {
                return Err(format!("a part is repeated more than {MAX_REPETITIONS} times"));
            }
            check(&repetition.ast, most / count.max(1))
        }
        Ast::Group(group) => {
            if let GroupKind::NonCapturing(flags) = &group.kind {
                check_flags(flags)?;
            }
            check(&group.ast, most)
        }
        Ast::Flags(flags) => check_flags(&flags.flags),
        Ast::Concat(parts) => parts.asts.iter().try_for_each(|part| check(part, most)),
        Ast::Alternation(parts) => parts.asts.iter().try_for_each(|part| check(part, most)),
        _ => Ok(()),
    }
}

fn check_flags(flags: &Flags) -> Result<(), String> {
    let is_own =
        |kind: &FlagsItemKind| matches!(kind, FlagsItemKind::Flag(Flag::IgnoreWhitespace | Flag::CRLF));
    match flags.items.iter().any(|item| is_own(&item.kind)) {
        true => Err("RE2 has no flags but i, m, s and U".to_owned()),
        false => Ok(()),
    }
}

/// The expression as the engine writes it. RE2's classes of characters are ASCII's, brackets within brackets and braces
/// that repeat nothing mean themselves, numbers of characters may be octal, and `\Q` quotes up to `\E`.
fn translated(expression: &str) -> Result<String, String> {
    let mut out = String::with_capacity(expression.len());
    let mut rest = expression;
    let mut in_class = false;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match (first, in_class) {
            ('\\', false) if rest.starts_with('Q') => {
                let (literal, behind) = rest[1..].split_once("\\E").unwrap_or((&rest[1..], ""));
                out.push_str(&quoted(literal));
                rest = behind;
            }
            ('\\', _) => {
                let (meaning, behind) = escape(rest, in_class)?;
                out.push_str(&meaning);
                rest = behind;
            }
            ('[', false) => {
                in_class = true;
                out.push('[');
                if let Some(behind) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = behind;
                }
                if let Some(behind) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = behind;
                }
            }
            ('[', true) => match rest.strip_prefix(':').and_then(|name| name.split_once(":]")) {
                Some((name, behind)) => {
                    let known = ClassAsciiKind::from_name(name.strip_prefix('^').unwrap_or(name));
                    known.ok_or_else(|| format!("RE2 has no class [:{name}:]"))?;
                    out.extend(["[:", name, ":]"]);
                    rest = behind;
                }
                None => out.push_str("\\["),
            },
            (']', true) => {
                in_class = false;
                out.push(']');
            }
            ('&' | '~', true) => out.extend(['\\', first]),
            ('{', false) if !is_repetition(rest) => out.push_str("\\{"),
            _ => out.push(first),
        }
    }
    Ok(out)
}

/// The meaning of an escape, whose backslash was read, and the rest of the text.
fn escape(text: &str, in_class: bool) -> Result<(String, &str), String> {
    let Some(first) = text.chars().next() else {
        return Err(r"a \ at the end escapes nothing; expected \\ for itself".to_owned());
    };
    let mut rest = &text[first.len_utf8()..];
    let meaning = match first {
        'd' | 's' | 'w' if in_class => {
            // A hyphen after a class makes no range.
            match rest.strip_prefix('-') {
                Some(behind) => {
                    rest = behind;
                    format!(r"{}\-", members(first))
                }
                None => members(first).to_owned(),
            }
        }
        'd' | 's' | 'w' => format!("[{}]", members(first)),
        'D' | 'S' | 'W' => format!("[^{}]", members(first.to_ascii_lowercase())),
        'b' | 'B' if !in_class => format!(r"(?-u:\{first})"),
        // Any byte.
        'C' if !in_class => "(?s:.)".to_owned(),
        // The engine would take them for edges of words.
        '<' | '>' => first.to_string(),
        'p' | 'P' | 'x' if rest.starts_with('{') => {
            rest = &rest[1..];
            match (first, rest.strip_prefix('^')) {
                ('p' | 'P', Some(behind)) => {
                    rest = behind;
                    format!(r"\{}{{", if first == 'p' { 'P' } else { 'p' })
                }
                _ => format!(r"\{first}{{"),
            }
        }
        '0'..='7' => {
            let digits = text.bytes().take(3).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
            if digits == 1 && first != '0' {
                return Err(format!(r"RE2 has no backreference \{first}"));
            }
            rest = &text[digits..];
            let number = u32::from_str_radix(&text[..digits], 8).map_err(|error| error.to_string())?;
            format!(r"\x{{{number:x}}}")
        }
        'A' | 'z' if in_class => return Err(format!(r"RE2 has no escape \{first} in a class")),
        _ if !first.is_ascii() || (first.is_alphanumeric() && !"aAfnpPrtvxz".contains(first)) => {
            return Err(format!(r"RE2 has no escape \{first}"));
        }
        _ => format!("\\{first}"),
    };
    Ok((meaning, rest))
}

/// True if the brace before this text repeats something, as `{2}`, `{2,}` and `{2,4}` do. Any other means itself.
fn is_repetition(text: &str) -> bool {
    let Some((counts, _)) = text.split_once('}') else { return false };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let is_number = |number: &str| {
        number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'))
    };
    !least.is_empty() && is_number(least) && is_number(most)
}

fn members(class: char) -> &'static str {
    match class {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        _ => "0-9A-Za-z_",
    }
}

/// A text as an expression that means it.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Google's own library takes and refuses the same.
    #[test]
    fn what_re2_takes_is_taken() {
        for expression in [
            "(a|b|)(?:c)(?i)(?P<name>d)(?<other>e)(?i:f)",
            r"\(\[\*\\",
            r"[](*+?[:alpha:]\]][^]][[:^digit:]_][[:a][a&&b]",
            r#"{"env":"red"}"#,
            "a{2,3}b{,4}{x}{02}a{1000,}",
            "a*?b+?c??a{2}?b{2,}(?:c)*(a{2}?)*(?:)*^*",
            r"\12\pL\p{^Lu}\x41\x{1F600}\z\C\_\<",
            r"\Q(*[\E",
            "é+",
        ] {
            assert_eq!(compile(expression, 10 << 20).map(|_| ()), Ok(()), "{expression}");
        }
    }

    #[test]
    fn what_re2_refuses_is_refused() {
        for (expression, expected) in [
            ("(a", "unclosed group"),
            ("a)", "unopened group"),
            ("[a", "unclosed character class"),
            ("[b-a]", "invalid character class range, the start must be <= the end"),
            ("[[:foo:]]", "RE2 has no class [:foo:]"),
            ("a\\", r"a \ at the end escapes nothing; expected \\ for itself"),
            ("*", "repetition operator missing expression"),
            ("(?P<n>+a)", "repetition operator missing expression"),
            ("(?i)*", "repetition operator missing expression"),
            ("(+(b))", "repetition operator missing expression"),
            ("a|?", "repetition operator missing expression"),
            ("a|{2}", "repetition operator missing expression"),
            ("(?:*a)", "repetition operator missing expression"),
            ("{2}", "repetition operator missing expression"),
            ("a**", "a repetition is repeated; expected a group around the inner one"),
            ("a*?*", "a repetition is repeated; expected a group around the inner one"),
            ("a{2}*", "a repetition is repeated; expected a group around the inner one"),
            ("a*{2,}", "a repetition is repeated; expected a group around the inner one"),
            ("a{2}{3}", "a repetition is repeated; expected a group around the inner one"),
            ("a{1001}", "a part is repeated more than 1000 times"),
            ("(a{100}|b){11}", "a part is repeated more than 1000 times"),
            ("(?=a)", "look-around, including look-ahead and look-behind, is not supported"),
            ("(?!a)", "look-around, including look-ahead and look-behind, is not supported"),
            ("(?<=a)", "look-around, including look-ahead and look-behind, is not supported"),
            ("(?x)a", "RE2 has no flags but i, m, s and U"),
            ("(?x:a)", "RE2 has no flags but i, m, s and U"),
            (r"(a)\1", r"RE2 has no backreference \1"),
            (r"\8", r"RE2 has no escape \8"),
            (r"\Z", r"RE2 has no escape \Z"),
            (r"a\h", r"RE2 has no escape \h"),
            (r"\é", r"RE2 has no escape \é"),
            (r"[\Qa\E]", r"RE2 has no escape \Q"),
            (r"[\z]", r"RE2 has no escape \z in a class"),
            (r"\p{Foo}", "Unicode property not found"),
        ] {
            assert_eq!(compile(expression, 10 << 20).expect_err(expression), expected, "{expression}");
        }
    }

    #[test]
    fn expressions_mean_what_they_mean_for_re2() {
        let rows = [
            (r"\w+\b", r"[0-9A-Za-z_]+(?-u:\b)"),
            (r"[^\d&&[x]", r"[^0-9\&\&\[x]"),
            (r"[]a][[:alpha:]_]x]", r"[\]a][[:alpha:]_]x]"),
            (r"\Qa.b\Ec.", r"a\.bc."),
            (r"\S\\", r"[^\t\n\f\r ]\\"),
            (r"[\w-.]", r"[0-9A-Za-z_\-.]"),
            (r"\<a{,2}{3}\p{Greek}{4,}{", r"<a\{,2}{3}\p{Greek}{4,}\{"),
            (r"\012\1018", r"\x{a}\x{41}8"),
        ];
        for (given, expected) in rows {
            assert_eq!(translated(given).as_deref(), Ok(expected), "{given}");
        }
    }
}
