//! The text of a template before it is parsed, made into one that the engine knows: methods of Go's values become a function,
//! changes in place become assignments, `else with` becomes a `with` within `else`, texts have no escapes but the plain ones, and
//! a call that can't be made fails where it is made.
//!
//! Lines stay as they are, so that problems name the right one; but a raw text that holds a backslash becomes one line.

/// The function for a method: of a value, and the method's name.
pub(super) const MEMBER: &str = "sidecarMember";
/// The function that fails with the text that it is given.
pub(super) const UNUSABLE: &str = "sidecarUnusable";

/// Functions that change their first map in place in Go, where the caller mostly throws the answer away.
const CHANGING: [&str; 6] = ["set", "unset", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"];
/// Words of the language that are no functions.
const KEYWORDS: [&str; 14] = [
    "block", "break", "continue", "define", "else", "end", "false", "if", "nil", "range", "template", "true",
    "with", "_",
];
/// Methods of protobuf's types and of durations that templates call beside getters (`GetX`).
const METHODS: [&str; 10] = [
    "AsDuration",
    "Hours",
    "Microseconds",
    "Milliseconds",
    "Minutes",
    "Nanos",
    "Nanoseconds",
    "Seconds",
    "String",
    "Value",
];

/// The text as the engine gets it. `lacking` returns the error for a function that does not exist.
pub(super) fn prepare(text: &str, lacking: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    // For each open block, how many more its end closes: one for each `else with`.
    let mut blocks: Vec<usize> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, action) = rest.split_at(start);
        out.push_str(before);
        let (action, behind) = action.split_at(end_of(action));
        rest = behind;
        match TemplateAction::of(action) {
            Some(action) => action.write(&mut out, &mut blocks, lacking),
            None => out.push_str(action),
        }
    }
    out.push_str(rest);
    out
}

/// Where an action ends that begins the text: after its braces, which in texts and comments are none.
fn end_of(action: &str) -> usize {
    let inside = action.trim_start_matches(['{', '-', ' ', '\t', '\r', '\n']);
    if inside.starts_with("/*") {
        return action
            .find("*/")
            .and_then(|at| action[at..].find("}}").map(|end| at + end + 2))
            .unwrap_or(action.len());
    }
    for (at, c, is_code) in pieces(action) {
        if is_code && c == '}' && action[at..].starts_with("}}") {
            return at + 2;
        }
    }
    action.len()
}

/// The characters of an action, and whether each is code and no part of a text.
fn pieces(action: &str) -> impl Iterator<Item = (usize, char, bool)> {
    let mut quote = None;
    let mut is_escaped = false;
    action.char_indices().map(move |(at, c)| match quote {
        None => {
            if matches!(c, '"' | '`' | '\'') {
                quote = Some(c);
            }
            (at, c, !matches!(c, '"' | '`' | '\''))
        }
        Some(mark) => {
            if is_escaped {
                is_escaped = false;
            } else if c == '\\' && mark != '`' {
                is_escaped = true;
            } else if c == mark {
                quote = None;
            }
            (at, c, false)
        }
    })
}

/// An action: its braces, with the signs that trim, and what is between them.
struct TemplateAction<'a> {
    open: &'a str,
    body: &'a str,
    close: &'a str,
}

impl<'a> TemplateAction<'a> {
    /// None of a comment, and of what has no end.
    fn of(action: &'a str) -> Option<Self> {
        let inside = action.strip_prefix("{{")?.strip_suffix("}}")?;
        let body = inside.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace));
        let (open, body) = body.map_or(("{{", inside), |body| ("{{-", body));
        let trimmed = body.strip_suffix('-').filter(|rest| rest.ends_with(char::is_whitespace));
        let (body, close) = trimmed.map_or((body, "}}"), |body| (body, "-}}"));
        (!body.trim_start().starts_with("/*")).then_some(Self { open, body, close })
    }

    fn write(&self, out: &mut String, blocks: &mut Vec<usize>, lacking: &dyn Fn(&str) -> Option<String>) {
        let Self { open, body, close } = self;
        let (first, rest) = first_name(body);
        match (first, first_name(rest).0) {
            ("if" | "with" | "range" | "block" | "define", _) => blocks.push(0),
            ("else", "with") => {
                if let Some(more) = blocks.last_mut() {
                    *more += 1;
                }
                let (before, piped) = body.split_once("with").unwrap_or((body, ""));
                *out += &format!("{open}{before}}}}}{{{{ with{}{close}", code(&texts(piped), lacking));
                return;
            }
            ("end", "") => {
                let more = blocks.pop().unwrap_or(0);
                *out += &format!("{open}{body}{}{close}", "}}{{ end ".repeat(more));
                return;
            }
            _ => {}
        }
        let body = match assigned(body) {
            Ok(body) => code(&texts(&body), lacking),
            Err(why) => format!(" {UNUSABLE} {why:?} "),
        };
        *out += &format!("{open}{body}{close}");
    }
}

/// The name that begins a text, and what follows it. Brackets and dots end it as spaces do: `if(eq .A 1)`, `with.A`.
fn first_name(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// An action with its texts as the engine reads them, which takes a backslash for an escape in raw texts too.
fn texts(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(start) = rest.find(['"', '`', '\'']) {
        let quote = rest[start..].chars().next().unwrap_or_default();
        let mut is_escaped = false;
        let end = rest[start..].char_indices().skip(1).find_map(|(at, c)| {
            let ends = c == quote && !is_escaped;
            is_escaped = c == '\\' && !is_escaped && quote != '`';
            ends.then_some(start + at + 1)
        });
        let Some(end) = end else { break };
        let literal = &rest[start..end];
        out.push_str(&rest[..start]);
        match unescaped(literal).filter(|_| literal.contains('\\')) {
            Some(text) => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                out += &format!("\"{text}\"");
            }
            None => out.push_str(literal),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// What a literal means; nothing where it is a character, or no literal of Go's.
fn unescaped(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('`') {
        return raw.strip_suffix('`').map(|text| text.replace('\r', ""));
    }
    let mut chars = literal.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut bytes: Vec<u8> = Vec::with_capacity(literal.len());
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let c = chars.next()?;
        let mut code = |first: Option<char>, count: usize, base: u32| {
            let digits: String = first.into_iter().chain(chars.by_ref().take(count)).collect();
            u32::from_str_radix(&digits, base).ok()
        };
        let plain = match c {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '"' => u8::try_from(c).ok()?,
            'x' => u8::try_from(code(None, 2, 16)?).ok()?,
            '0'..='7' => u8::try_from(code(Some(c), 2, 8)?).ok()?,
            'u' | 'U' => {
                let c = char::from_u32(code(None, if c == 'u' { 4 } else { 8 }, 16)?)?;
                bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        bytes.push(plain);
    }
    String::from_utf8(bytes).ok()
}

/// The code of an action with methods and functions as the engine knows them.
fn code(body: &str, lacking: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(body.len());
    let mut word = String::new();
    // Where brackets are open, and where those began that ended just before.
    let (mut open, mut closed) = (Vec::new(), None);
    for (_, c, is_code) in pieces(body).chain([(0, ' ', true)]) {
        if is_code && (c.is_alphanumeric() || matches!(c, '.' | '_' | '$')) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            let receiver = closed.filter(|_| word.starts_with('.')).map(|start| out.split_off(start));
            out.push_str(&written(&word, receiver, lacking));
            word.clear();
        }
        match c {
            '(' if is_code => {
                open.push(out.len());
                closed = None;
            }
            ')' if is_code => closed = open.pop(),
            _ => closed = None,
        }
        out.push(c);
    }
    // The one that ended the last word.
    out.pop();
    out
}

/// A word of code: a path, a function, a keyword or a number. `receiver` is what a path belongs to that begins with a dot.
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
        // `AsDuration.Hours` is a number and not the duration's text.
        let then = if name == "AsDuration" { names.next().map(|next| format!(".{next}")) } else { None };
        let of = if path.is_empty() { "." } else { &path };
        path = format!("({MEMBER} {of} \"{name}{}\")", then.unwrap_or_default());
    }
    path
}

fn is_method(name: &str) -> bool {
    let getter = name.strip_prefix("Get");
    METHODS.contains(&name) || getter.is_some_and(|field| field.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// What follows the last `|` of a pipeline, outside of brackets and texts.
fn last_call(pipeline: &str) -> &str {
    let (mut depth, mut start) = (0, 0);
    for (at, c, is_code) in pieces(pipeline) {
        match c {
            '(' if is_code => depth += 1,
            ')' if is_code => depth -= 1,
            '|' if is_code && depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &pipeline[start..]
}

/// `$_ := set $map ..`, or `set` alone, as `$map = set $map ..`: values are never changed in place here. Another variable that
/// is to hold the answer gets the changed map in a second action.
fn assigned(body: &str) -> Result<String, String> {
    let call = body.trim_start();
    let spaces = &body[..body.len() - call.len()];
    let (assignment, call) = match call.split_once('=') {
        Some((assignment, call)) if assignment.starts_with('$') => (assignment, call.trim_start()),
        _ => ("", call),
    };
    let target = assignment.trim_end_matches([':', ' ']).trim();
    // The last call of an assigned pipeline makes its value. A pipeline that is not assigned may begin with a keyword.
    let last = last_call(call);
    let deciding = if target.is_empty() { call } else { last };
    let mut words = deciding.split_whitespace();
    let Some(function) = words.next().filter(|word| CHANGING.contains(word)) else {
        return Ok(body.to_owned());
    };
    let map = words.next().unwrap_or_default();
    let is_variable = map.len() > 1 && map.starts_with('$') && !map.contains('.');
    match (target, is_variable) {
        // What it answers is handed on, and printed.
        ("", true) if last.len() < call.len() => Ok(body.to_owned()),
        ("$_" | "", true) => Ok(format!("{spaces}{map} = {call}")),
        // The text before the first `=` may also be more than a variable: `$x | default "a=b"`.
        (_, true) if !target.contains(' ') => {
            Ok(format!("{spaces}{map} = {call}}}}}{{{{ {assignment}= {map} "))
        }
        // One that is printed or piped on is a value like any other, and so is what another variable is to hold.
        ("", false) if function.to_lowercase().contains("merge") => Ok(body.to_owned()),
        ("$_" | "", false) => Err(format!(
            "{function} changes {map:?} in place, which only a variable can be; write $x := {map} first, and {function} $x"
        )),
        _ => Ok(body.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: &str) {
        let lacking = |name: &str| (name == "now").then(|| "there is no clock".to_owned());
        let made = prepare(given, &lacking).replace(MEMBER, "M").replace(UNUSABLE, "U");
        assert_eq!(made, expected, "{given}");
    }

    #[test]
    fn escapes_are_those_of_go() {
        for (literal, expected) in [
            (
                r#""\a\b\f\n\r\t\v\\\"\x41\102\u00e9\U0001F600""#,
                Some("\x07\x08\x0c\n\r\t\x0b\\\"AB\u{e9}\u{1f600}"),
            ),
            ("`a\\n\r`", Some("a\\n")),
            (r#""\'""#, None),
            (r#""\xff""#, None),
            (r#""\ud800""#, None),
            ("'a'", None),
        ] {
            assert_eq!(unescaped(literal).as_deref(), expected, "{literal}");
        }
    }

    #[test]
    fn methods_become_a_function() {
        let rows = [
            ("{{ .P.Mode.String }}", "{{ (M .P.Mode \"String\") }}"),
            ("{{or .P.GetA.GetValue 2}}", "{{or (M (M .P \"GetA\") \"GetValue\") 2}}"),
            ("{{ .P.Time.AsDuration.Hours }}", "{{ (M .P.Time \"AsDuration.Hours\") }}"),
            (
                "{{ .Seconds }}{{ $.GetA.B }}{{ $x.GetA }}",
                "{{ (M . \"Seconds\") }}{{ (M $ \"GetA\").B }}{{ (M $x \"GetA\") }}",
            ),
            ("{{ (index (f . 0) 1).A.GetB.C }}", "{{ (M (index (f . 0) 1).A \"GetB\").C }}"),
            ("{{ (f) .GetB }}", "{{ (f) (M . \"GetB\") }}"),
            ("{{ `.P.String }}` .Get .Gets 1.5 }}", "{{ `.P.String }}` .Get .Gets 1.5 }}"),
            ("{{/* }} \" */}}{{ .P.GetA }}", "{{/* }} \" */}}{{ (M .P \"GetA\") }}"),
        ];
        for (given, expected) in rows {
            check(given, expected);
        }
    }

    #[test]
    fn texts_mean_what_they_mean_for_go() {
        let rows = [
            (r"{{ f `\d+ .GetA` `a` }}", r#"{{ f "\\d+ .GetA" `a` }}"#),
            (r#"{{ f "a\"b" "\x41\u00e9\t" 'c' "\q" }}"#, "{{ f \"a\\\"b\" \"Aé\t\" 'c' \"\\q\" }}"),
            (r#"{{ f "open }}"#, r#"{{ f "open }}"#),
        ];
        for (given, expected) in rows {
            check(given, expected);
        }
    }

    #[test]
    fn changes_become_assignments() {
        let rows = [
            ("a\n{{- $_ := set $x \"k\" 1 -}}", "a\n{{- $x = set $x \"k\" 1 -}}"),
            ("{{ set $x `k` 1 }}", "{{ $x = set $x `k` 1 }}"),
            ("{{- $y := set $x `k` 1 -}}", "{{- $x = set $x `k` 1 }}{{ $y := $x -}}"),
            ("{{$y = `v` | set $x `k`}}", "{{$x = `v` | set $x `k`}}{{ $y = $x }}"),
            ("{{ $y := set .A `k` 1 }}", "{{ $y := set .A `k` 1 }}"),
            ("{{ $x | default \"a=b\" }}", "{{ $x | default \"a=b\" }}"),
            ("{{ $_ := mustMerge $x .Values }}", "{{ $x = mustMerge $x .Values }}"),
            ("{{ merge .Values.a .Values.b | toYaml }}", "{{ merge .Values.a .Values.b | toYaml }}"),
            ("{{ merge $x .Values.b | toYaml }}", "{{ merge $x .Values.b | toYaml }}"),
            ("{{ set $x `k` (.A | upper) }}", "{{ $x = set $x `k` (.A | upper) }}"),
            ("{{ $_ := `a|b` | set $x `k` }}", "{{ $x = `a|b` | set $x `k` }}"),
            ("{{ with .A | merge $x }}{{ end }}", "{{ with .A | merge $x }}{{ end }}"),
            ("{{ if eq .A \"}}\" }}", "{{ if eq .A \"}}\" }}"),
            ("{{ unfinished", "{{ unfinished"),
        ];
        for (given, expected) in rows {
            check(given, expected);
        }
    }

    #[test]
    fn a_call_that_can_not_be_made_fails_where_it_is_made() {
        check("{{ now | date `x` }}", "{{ U \"there is no clock\" | date `x` }}");
        check(
            "{{ if .A }}{{ print (now) }}{{ end }}",
            "{{ if .A }}{{ print (U \"there is no clock\") }}{{ end }}",
        );
        check("{{ template `now` .now }}", "{{ template `now` .now }}");
        let made = prepare("{{ $_ := set .Values `k` 1 }}", &|_| None);
        assert!(made.starts_with("{{ sidecarUnusable \"set changes \\\".Values\\\""), "{made}");
    }

    #[test]
    fn else_with_is_a_block_within_else() {
        let rows = [
            (
                "{{- with .A -}}a{{- else with .GetB -}}b{{ else }}c{{- end -}}d",
                "{{- with .A -}}a{{- else }}{{ with (M . \"GetB\") -}}b{{ else }}c{{- end }}{{ end -}}d",
            ),
            (
                "{{ with .A }}{{ else with .B }}{{ if .C }}{{ end }}{{ else with .D }}{{ end }}{{ end }}",
                "{{ with .A }}{{ else }}{{ with .B }}{{ if .C }}{{ end }}{{ else }}{{ with .D }}{{ end }}{{ end }}{{ end }}{{ end }}",
            ),
            (
                "{{with .A}}{{if(.B)}}{{end}}{{else with.C}}{{end}}",
                "{{with .A}}{{if(.B)}}{{end}}{{else }}{{ with.C}}{{end}}{{ end }}",
            ),
            ("{{ if .A }}{{ else if .B }}{{ end }}", "{{ if .A }}{{ else if .B }}{{ end }}"),
        ];
        for (given, expected) in rows {
            check(given, expected);
        }
    }
}
