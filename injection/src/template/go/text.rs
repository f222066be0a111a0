//! The text of a template before it is parsed: what Go calls methods for becomes plain fields, and what it changes in place
//! becomes an assignment.
//!
//! Lines stay as they are, so that problems name the right one.

use policy::Problem;

/// Functions that change their first map in place in Go, where the caller mostly throws the answer away.
const CHANGING: [&str; 4] = ["set", "unset", "merge", "mergeOverwrite"];

/// The text as the engine gets it.
///
/// # Errors
/// Each place where a map is changed that is no variable.
pub(super) fn prepare(name: &str, text: &str) -> Result<String, Vec<Problem>> {
    let mut out = String::with_capacity(text.len());
    let mut problems = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, action) = rest.split_at(start);
        out.push_str(before);
        let end = end_of(action);
        let (action, behind) = action.split_at(end);
        rest = behind;
        let without_methods = without_methods(action);
        match assigned(&without_methods) {
            Ok(assigned) => out.push_str(&assigned),
            Err(problem) => {
                let line = out.matches('\n').count() + 1;
                problems.push(Problem::of(name, format!("line {line}: {problem}")));
            }
        }
    }
    out.push_str(rest);
    if problems.is_empty() { Ok(out) } else { Err(problems) }
}

/// Where an action ends that begins the text: behind its braces, which in texts and comments are none.
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

/// Methods of protobuf's types, which templates call on fields: `X.GetValue` of a wrapper and `X.String` of an enumeration
/// are X here, and `GetX` is X.
fn without_methods(action: &str) -> String {
    let mut out = String::with_capacity(action.len());
    let mut path = String::new();
    for (_, c, is_code) in pieces(action) {
        if is_code && (c.is_alphanumeric() || matches!(c, '.' | '_' | '$')) {
            path.push(c);
        } else {
            out.push_str(&plain_path(&path));
            path.clear();
            out.push(c);
        }
    }
    out.push_str(&plain_path(&path));
    out
}

fn plain_path(path: &str) -> String {
    let mut is_message = false;
    let mut kept: Vec<&str> = Vec::new();
    for name in path.split('.') {
        let before = kept.last().copied().unwrap_or_default();
        let is_getter = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase());
        match name {
            "GetValue" if !before.is_empty() => {}
            "String" if is_message || before == "InterceptionMode" => {}
            _ => kept.push(match name.strip_prefix("Get") {
                Some(field) if is_message && is_getter(field) => field,
                _ => name,
            }),
        }
        is_message |= name == "ProxyConfig" || name == "MeshConfig";
    }
    kept.join(".")
}

/// `$_ := set $map ..`, or `set` alone, as `$map = set $map ..`: values are never changed in place here.
fn assigned(action: &str) -> Result<String, String> {
    let body = action.trim_start_matches("{{");
    let (open, body) = action.split_at(action.len() - body.len());
    let (trim, body) = match body.strip_prefix('-') {
        Some(rest) if rest.starts_with(char::is_whitespace) => ("-", rest),
        _ => ("", body),
    };
    let call = body.trim_start();
    let spaces = &body[..body.len() - call.len()];
    let (target, call) = match call.split_once('=') {
        Some((target, call)) if target.starts_with('$') => {
            (target.trim_end_matches([':', ' ']).trim(), call.trim_start())
        }
        _ => ("", call),
    };
    let mut words = call.split_whitespace();
    let Some(function) = words.next().filter(|word| CHANGING.contains(word)) else {
        return Ok(action.to_owned());
    };
    let map = words.next().unwrap_or_default();
    let is_variable = map.len() > 1 && map.starts_with('$') && !map.contains('.');
    match (target, is_variable) {
        ("$_" | "", true) => Ok(format!("{open}{trim}{spaces}{map} = {call}")),
        // One that is printed or piped on is a value like any other, and so is what another variable is to hold.
        ("", false) if function.starts_with("merge") => Ok(action.to_owned()),
        ("$_" | "", false) => Err(format!(
            "{function} changes {map:?} in place, which only a variable can be; write $x := {map} first, and {function} $x"
        )),
        _ => Ok(action.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_become_fields_and_changes_assignments() {
        let rows = [
            ("{{ .ProxyConfig.InterceptionMode.String }}", "{{ .ProxyConfig.InterceptionMode }}"),
            ("{{or .ProxyConfig.GetConcurrency.GetValue 2}}", "{{or .ProxyConfig.Concurrency 2}}"),
            ("{{ $.MeshConfig.GetDefaultConfig.GetTracing }}", "{{ $.MeshConfig.DefaultConfig.Tracing }}"),
            (
                "{{ .Values.GetThis.String }} .ProxyConfig.GetX",
                "{{ .Values.GetThis.String }} .ProxyConfig.GetX",
            ),
            ("{{ `.ProxyConfig.X.String }}` }}", "{{ `.ProxyConfig.X.String }}` }}"),
            ("{{/* }} \" */}}{{ .ProxyConfig.GetA }}", "{{/* }} \" */}}{{ .ProxyConfig.A }}"),
            ("a\n{{- $_ := set $x \"k\" 1 -}}", "a\n{{- $x = set $x \"k\" 1 -}}"),
            ("{{ set $x `k` 1 }}", "{{ $x = set $x `k` 1 }}"),
            ("{{ $y := set $x `k` 1 }}", "{{ $y := set $x `k` 1 }}"),
            ("{{ $_ := merge $x .Values }}", "{{ $x = merge $x .Values }}"),
            ("{{ merge .Values.a .Values.b | toYaml }}", "{{ merge .Values.a .Values.b | toYaml }}"),
            ("{{ if eq .A \"}}\" }}", "{{ if eq .A \"}}\" }}"),
            ("{{ unfinished", "{{ unfinished"),
        ];
        for (given, expected) in rows {
            assert_eq!(prepare("t", given).as_deref(), Ok(expected));
        }
        let problems = prepare("t", "\n{{ $_ := set .Values `k` 1 }}").expect_err("no variable");
        assert!(problems[0].to_string().starts_with("t: line 2: set changes \".Values\""), "{problems:?}");
    }
}
