//! Configuration files, YAML or JSON, as settings. A list replaces that of an earlier file; a key that is null has no effect.

use super::settings::{Kuma, TABLE};
use crate::InputProblem;
use crate::pod::values;
use crate::settings::{Setting, SettingKind, SettingRow, nearest};
use crate::sources::{Given, Source};
use serde_json::Value;

#[derive(Debug, Default)]
pub struct File {
    pub given: Vec<(Setting, Given)>,
    pub problems: Vec<InputProblem>,
}

/// True for a configuration itself, as the injectors of Kuma 2.9 to 2.13 write it, and not the name of a file.
pub fn is_text(value: &str) -> bool {
    value.contains('\n') || value.contains(": ") || value.trim_start().starts_with('{')
}

/// `source` names one of its keys.
pub fn read(name: &str, text: &str, source: impl Fn(&str) -> Source) -> File {
    let mut file = File::default();
    match values(name, text).as_deref() {
        Err(problems) => file.problems.extend(problems.0.iter().cloned()),
        Ok([]) => {}
        Ok([document]) => walk(&mut file, "", document, &source),
        Ok(_) => file.problems.push(InputProblem::of(name, "holds several documents; expected one")),
    }
    file
}

fn walk(file: &mut File, path: &str, value: &Value, source: &impl Fn(&str) -> Source) {
    let keys = || TABLE.iter().filter_map(|row| Some((row.file_key?, row)));
    let is_within = |key: &str| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    let is_group = path.is_empty() || keys().any(|(key, _)| is_within(key));
    let text = match (keys().find(|(key, _)| *key == path), value) {
        (_, Value::Null) => return,
        (Some((_, row)), value) => match value_of(row, value) {
            Ok(value) => return file.given.push((row.setting, Given { value, source: source(path) })),
            Err(fault) => fault.to_owned(),
        },
        (None, Value::Object(fields)) if is_group => {
            // Other keys of the engine that is not used have no effect.
            for (key, value) in fields.iter().filter(|(key, _)| path != "ebpf" || *key == "enabled") {
                walk(file, format!("{path}.{key}").trim_start_matches('.'), value, source);
            }
            return;
        }
        _ if path.is_empty() => "is not a mapping; expected keys such as redirect and kumaDPUser".to_owned(),
        _ if is_group => "is not a mapping; expected keys and their values".to_owned(),
        _ => match nearest(path, keys().map(|(key, _)| key)) {
            Some(intended) => format!("unknown key; did you mean {intended}?"),
            None => "unknown key (see docs/kuma.md)".to_owned(),
        },
    };
    let place = if path.is_empty() { "the document" } else { path };
    file.problems.push(InputProblem::of(&source(place), text));
}

fn value_of(row: &SettingRow, value: &Value) -> Result<String, &'static str> {
    let takes_list = matches!(row.kind, SettingKind::Value(form) if form.ends_with(".."));
    let items: Option<Vec<String>> = match value {
        Value::Array(items) if takes_list => items.iter().map(scalar).collect(),
        Value::Object(fields) if row.setting == Kuma::Executables => {
            // The chart writes all names, with an empty path for a program that is not set.
            let given = fields.iter().filter(|(_, path)| path.as_str() != Some(""));
            given.map(|(name, path)| Some(format!("{name}:{}", scalar(path)?))).collect()
        }
        other => scalar(other).map(|text| vec![text]),
    };
    items.map(|items| items.join(row.separator.unwrap_or(","))).ok_or(match takes_list {
        true => "is not a list of values; expected one such as [a, b]",
        false => "is a list or a mapping; expected a single value",
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(Setting, &str)], problems: &[&str]) {
        let file = read("tproxy.yaml", text, |key| Source::Key(format!("tproxy.yaml: {key}")));
        let found: Vec<(Setting, &str)> =
            file.given.iter().map(|(setting, given)| (*setting, given.value.as_str())).collect();
        assert_eq!(found, expected, "{text}");
        let found: Vec<String> = file.problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, problems, "{text}");
    }

    #[test]
    fn yaml_and_json_say_settings_by_key() {
        let yaml = "kumaDPUser: 5678\nredirect:\n  inbound:\n    enabled: false\n    excludePorts: [80, \"443\"]\n  \
                    outbound:\n    excludePortsForUIDs:\n      - tcp:1900,1000-2000:106-108\n      - 123\n  vnet: null\n";
        check(
            yaml,
            &[
                (Kuma::ProxyUser, "5678"),
                (Kuma::RedirectInbound, "false"),
                (Kuma::InboundPortsExclude, "80,443"),
                (Kuma::OutboundPortsForUids, "tcp:1900,1000-2000:106-108;123"),
            ],
            &[],
        );
        check(
            r#"{"redirect":{"dns":{"enabled":true,"port":53}}}"#,
            &[(Kuma::RedirectDns, "true"), (Kuma::DnsPort, "53")],
            &[],
        );
        check("redirect: {outbound: {excludePorts: []}}", &[(Kuma::OutboundPortsExclude, "")], &[]);
        check("iptablesExecutables: {iptables: /x}", &[(Kuma::Executables, "iptables:/x")], &[]);
        check(
            "iptablesExecutables: {ip6tables: \"\", iptables: \"\", iptables-save: \"\"}",
            &[(Kuma::Executables, "")],
            &[],
        );
        check("redirect: {inbound: {excludePortsForUIDs: []}}", &[(Kuma::InboundPortsForUids, "")], &[]);
        check("", &[], &[]);
        check("ebpf: {enabled: false, bpffsPath: /run}", &[(Kuma::Ebpf, "false")], &[]);
    }

    #[test]
    fn whatever_is_no_key_or_has_no_fitting_value_is_told_at_once() {
        check(
            "redirect: {inbond: {port: 1}, dns: [], inbound: {port: [1]}}\nverbos: true",
            &[],
            &[
                "tproxy.yaml: redirect.dns: is not a mapping; expected keys and their values",
                "tproxy.yaml: redirect.inbond: unknown key; did you mean redirect.inbound.port?",
                "tproxy.yaml: redirect.inbound.port: is a list or a mapping; expected a single value",
                "tproxy.yaml: verbos: unknown key; did you mean verbose?",
            ],
        );
        check(
            "5",
            &[],
            &["tproxy.yaml: the document: is not a mapping; expected keys such as redirect and kumaDPUser"],
        );
        check("---\n{}\n---\n{}\n", &[], &["tproxy.yaml: holds several documents; expected one"]);
        check(
            "a: [",
            &[],
            &["tproxy.yaml: is not YAML or JSON: line 1, column 4: unclosed bracket '['; close it with ]"],
        );
        check(
            "redirect: {dns: {port: [1]}, outbound: {includePorts: [1, [2]]}}\niptablesExecutables: {iptables: []}\nzzz: 1",
            &[],
            &[
                "tproxy.yaml: iptablesExecutables: is not a list of values; expected one such as [a, b]",
                "tproxy.yaml: redirect.dns.port: is a list or a mapping; expected a single value",
                "tproxy.yaml: redirect.outbound.includePorts: is not a list of values; expected one such as [a, b]",
                "tproxy.yaml: zzz: unknown key (see docs/kuma.md)",
            ],
        );
        check("waitInterval: ~\nretry: ~", &[], &[]);
    }
}
