//! Rewrites a template for the engine before it is parsed: methods of Go's values become a function, changes in place become
//! assignments, `else with` becomes a `with` within `else`, raw strings become quoted ones, and calls to unsupported functions
//! fail when made. Line numbers stay, for problems; but a raw string with a backslash becomes one line.

use super::functions::durations::is_method;
use std::iter;

/// Function that calls a value's method by name.
pub(super) const MEMBER: &str = "sidecarMember";
/// Function that fails with its argument as the error.
pub(super) const UNUSABLE: &str = "sidecarUnusable";

const KEYWORDS: [&str; 14] = [
    "block", "break", "continue", "define", "else", "end", "false", "if", "nil", "range", "template", "true",
    "with", "_",
];

/// Rewrites a template; `lacking` returns the error of an unsupported function.
pub(super) fn prepare(text: &str, lacking: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    // For each open block, how many further blocks its end closes: one for each `else with`.
    let mut blocks: Vec<usize> = Vec::new();
    let mut rest = text;
    while let Some((before, action)) = rest.split_once("{{") {
        let Some((body, behind)) = divided(action) else { break };
        let marked = body.strip_prefix('-').filter(|body| body.starts_with(char::is_whitespace));
        let (open, body) = marked.map_or(("{{", body), |body| ("{{-", body));
        let marked = body.strip_suffix('-').filter(|body| body.ends_with(char::is_whitespace));
        let (body, close) = marked.map_or((body, "}}"), |body| (body, "-}}"));
        out.extend([before, open]);
        let (first, more) = first_name(body);
        match (first, first_name(more)) {
            ("else", ("with", pipeline)) => {
                if let Some(more) = blocks.last_mut() {
                    *more += 1;
                }
                let before = body.strip_suffix(pipeline).and_then(|before| before.strip_suffix("with"));
                out += &format!("{}}}}}{{{{ with{}", before.unwrap_or_default(), code(pipeline, lacking));
            }
            ("end", ("", _)) => out += &format!("{body}{}", "}}{{ end ".repeat(blocks.pop().unwrap_or(0))),
            _ => {
                if matches!(first, "if" | "with" | "range" | "block" | "define") {
                    blocks.push(0);
                }
                out += &assigned(body)
                    .map_or_else(|why| format!(" {UNUSABLE} {why:?} "), |body| code(&body, lacking));
            }
        }
        out.push_str(close);
        rest = behind;
    }
    out + rest
}

/// The body of an action, and the rest after its braces; braces within literals don't count. `None` for an unterminated action.
fn divided(action: &str) -> Option<(&str, &str)> {
    let (end, _) = pieces(action).find(|(at, _)| action[*at..].starts_with("}}"))?;
    Some((&action[..end], &action[end + 2..]))
}

/// The pieces of an action with their offsets: words, quoted literals, comments, and single other characters.
fn pieces(action: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    iter::from_fn(move || {
        let rest = &action[at..];
        let first = rest.chars().next()?;
        let length = match first {
            '/' if rest.starts_with("/*") => rest.find("*/").map(|end| end + 2),
            '"' | '\'' | '`' => {
                let mut is_escaped = false;
                let mut ends = rest.char_indices().skip(1).filter(|(_, c)| {
                    let ends = *c == first && !is_escaped;
                    is_escaped = *c == '\\' && !is_escaped && first != '`';
                    ends
                });
                ends.next().map(|(at, _)| at + 1)
            }
            _ if is_of_word(first) => rest.find(|c| !is_of_word(c)),
            _ => Some(first.len_utf8()),
        };
        let piece = &rest[..length.unwrap_or(rest.len())];
        at += piece.len();
        Some((at - piece.len(), piece))
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '$')
}

/// The name at the start of an action's code, and the rest. Names end at spaces, brackets and dots: `if(eq .A 1)`, `with.A`.
fn first_name(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// An action's code, with methods, functions and literals rewritten for the engine.
fn code(body: &str, lacking: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(body.len());
    // The starts of open brackets, and of the pair that has just been closed.
    let (mut open, mut closed) = (Vec::new(), None);
    for (_, piece) in pieces(body) {
        let before = closed.take();
        match piece.chars().next() {
            Some('(') => open.push(out.len()),
            Some(')') => closed = open.pop(),
            // The engine reads a backslash as an escape in raw strings too.
            Some('`') if piece.contains('\\') => {
                let text = piece.trim_matches('`').replace('\r', "").replace('\\', "\\\\");
                out += &format!("\"{}\"", text.replace('"', "\\\"").replace('\n', "\\n"));
                continue;
            }
            Some(first) if is_of_word(first) => {
                let receiver = before.filter(|_| first == '.').map(|start| out.split_off(start));
                out += &written(piece, receiver, lacking);
                continue;
            }
            _ => {}
        }
        out.push_str(piece);
    }
    out
}

/// Rewrites a word; `receiver` is the owner of a path that begins with a dot.
fn written(word: &str, receiver: Option<String>, lacking: &dyn Fn(&str) -> Option<String>) -> String {
    let mut names = word.split('.').peekable();
    let first = names.next().unwrap_or_default();
    let is_name = first.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if is_name && names.peek().is_none() && !KEYWORDS.contains(&first) {
        return lacking(first).map_or_else(|| first.to_owned(), |why| format!("{UNUSABLE} {why:?}"));
    }
    let mut path = receiver.unwrap_or_else(|| first.to_owned());
    while let Some(name) = names.next() {
        if is_name || !is_method(name) {
            path = format!("{path}.{name}");
            continue;
        }
        // `AsDuration.Hours` is a number, not the duration's string.
        let then = if name == "AsDuration" { names.next().map(|next| format!(".{next}")) } else { None };
        let of = if path.is_empty() { "." } else { &path };
        path = format!("({MEMBER} {of} \"{name}{}\")", then.unwrap_or_default());
    }
    path
}

/// Rewrites `$_ := set $map ..`, or a bare `set`, to `$map = set $map ..`: values are never changed in place here, unlike in Go,
/// where callers mostly discard the result. Another variable for the result gets the changed map in a second action.
fn assigned(body: &str) -> Result<String, String> {
    let call = body.trim_start();
    let spaces = &body[..body.len() - call.len()];
    let (assignment, call) = match call.split_once('=') {
        Some((assignment, call)) if assignment.starts_with('$') => (assignment, call.trim_start()),
        _ => ("", call),
    };
    let target = assignment.trim_end_matches([':', ' ']).trim();
    let (mut depth, mut last) = (0, call);
    for (at, piece) in pieces(call) {
        match piece {
            "(" => depth += 1,
            ")" => depth -= 1,
            "|" if depth == 0 => last = &call[at + 1..],
            _ => {}
        }
    }
    // The last call of an assigned pipeline yields its value. An unassigned pipeline may begin with a keyword.
    let mut words = if target.is_empty() { call } else { last }.split_whitespace();
    let function = words.next().unwrap_or_default();
    let merges = matches!(function, "merge" | "mergeOverwrite" | "mustMerge" | "mustMergeOverwrite");
    let map = words.next().unwrap_or_default();
    let is_variable = map.len() > 1 && map.starts_with('$') && !map.contains('.');
    Ok(match (target, is_variable) {
        _ if !merges && !["set", "unset"].contains(&function) => body.to_owned(),
        // Its result is piped, and printed.
        ("", true) if last.len() < call.len() => body.to_owned(),
        ("$_" | "", true) => format!("{spaces}{map} = {call}"),
        // The text before the first `=` may also be more than a variable: `$x | default "a=b"`.
        (_, true) if !target.contains(' ') => {
            format!("{spaces}{map} = {call}}}}}{{{{ {assignment}= {map} ")
        }
        // A merged map that is printed, piped, or assigned to another variable is an ordinary value.
        ("", false) if merges => body.to_owned(),
        ("$_" | "", false) => {
            return Err(format!(
                "{function} changes only variables in place, not {map:?}; write $x := {map} first, then {function} $x"
            ));
        }
        _ => body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[(&str, &str)]) {
        let lacking = |name: &str| (name == "now").then(|| "no clock".to_owned());
        let action = |body: &str| format!("a\n{{{{{body}}}}}");
        for (given, expected) in rows {
            let made = prepare(&action(given), &lacking).replace(MEMBER, "M").replace(UNUSABLE, "U");
            assert_eq!(made, action(expected), "{given}");
        }
    }

    #[test]
    fn methods_and_unsupported_calls_become_functions() {
        check(&[
            (" .P.Mode.String ", " (M .P.Mode \"String\") "),
            ("or .P.GetA.GetValue 2", "or (M (M .P \"GetA\") \"GetValue\") 2"),
            (" .P.Time.AsDuration.Hours ", " (M .P.Time \"AsDuration.Hours\") "),
            (" .Seconds $.GetA.B $x.GetA ", " (M . \"Seconds\") (M $ \"GetA\").B (M $x \"GetA\") "),
            (" (index (f . 0) 1).A.GetB.C ", " (M (index (f . 0) 1).A \"GetB\").C "),
            (" (f) .GetB ", " (f) (M . \"GetB\") "),
            (" `{{ .P.String }}` .Get .Gets 1.5 ", " `{{ .P.String }}` .Get .Gets 1.5 "),
            ("/* {{ }} \" */}}{{ .P.GetA ", "/* {{ }} \" */}}{{ (M .P \"GetA\") "),
            (" now | date `x` ", " U \"no clock\" | date `x` "),
            (" if .A }}{{ print (now) }}{{ end ", " if .A }}{{ print (U \"no clock\") }}{{ end "),
            (" template `now` .now ", " template `now` .now "),
        ]);
    }

    #[test]
    fn strings_are_read_as_in_go() {
        check(&[
            (r" f `\d+ .GetA` `a` ", r#" f "\\d+ .GetA" `a` "#),
            (r#" "a\"b" 'c' "\q" "#, r#" "a\"b" 'c' "\q" "#),
            (r#" f "open "#, r#" f "open "#),
        ]);
    }

    #[test]
    fn changes_become_assignments() {
        check(&[
            ("- $_ := set $x \"k\" 1 -", "- $x = set $x \"k\" 1 -"),
            (" set $x `k` 1 ", " $x = set $x `k` 1 "),
            ("- $y := set $x `k` 1 -", "- $x = set $x `k` 1 }}{{ $y := $x -"),
            ("$y = `v` | set $x `k`", "$x = `v` | set $x `k`}}{{ $y = $x "),
            (" $y := set .A `k` 1 ", " $y := set .A `k` 1 "),
            (" $x | default \"a=b\" ", " $x | default \"a=b\" "),
            (" $_ := mustMerge $x .Values ", " $x = mustMerge $x .Values "),
            (" merge .Values.a .Values.b | toYaml ", " merge .Values.a .Values.b | toYaml "),
            (" merge $x .Values.b | toYaml ", " merge $x .Values.b | toYaml "),
            (" set $x `k` (.A | upper) ", " $x = set $x `k` (.A | upper) "),
            (" $_ := `a|b` | set $x `k` ", " $x = `a|b` | set $x `k` "),
            (" with .A | merge $x }}{{ end ", " with .A | merge $x }}{{ end "),
        ]);
        let made = prepare("{{ $_ := set .Values `k` 1 }}", &|_| None);
        assert!(
            made.starts_with("{{ sidecarUnusable \"set changes only variables in place, not \\\".Values\\\""),
            "{made}"
        );
    }

    #[test]
    fn else_with_is_a_block_within_else() {
        check(&[
            (
                "- with .A -}}a{{- else with .GetB -}}b{{ else }}c{{- end -",
                "- with .A -}}a{{- else }}{{ with (M . \"GetB\") -}}b{{ else }}c{{- end }}{{ end -",
            ),
            (
                " with .A }}{{ else with .B }}{{ if .C }}{{ end }}{{ else with .D }}{{ end }}{{ end ",
                " with .A }}{{ else }}{{ with .B }}{{ if .C }}{{ end }}{{ else }}{{ with .D }}{{ end }}{{ end }}{{ end }}{{ end ",
            ),
            (
                "with .A}}{{if(.B)}}{{end}}{{else with.C}}{{end",
                "with .A}}{{if(.B)}}{{end}}{{else }}{{ with.C}}{{end}}{{ end ",
            ),
            (" if .A }}{{ else if .B }}{{ end ", " if .A }}{{ else if .B }}{{ end "),
        ]);
    }
}
