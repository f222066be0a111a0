//! Settings from YAML or JSON configuration files, by the keys in the settings table. A null key has no effect.

use super::{Given, Source};
use crate::InputProblem;
use crate::data::document::{DocumentReader, mapping, scalar};
use crate::settings::{Setting, SettingKind, SettingRow};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct File {
    pub given: Vec<(Setting, Given)>,
    pub problems: Vec<InputProblem>,
}

/// True for a configuration itself, which the injectors of Kuma 2.9 to 2.13 write instead of a file name.
pub fn is_text(value: &str) -> bool {
    value.contains('\n') || value.contains(": ") || value.trim_start().starts_with('{')
}

pub fn read(rows: &[SettingRow], name: &str, text: &str, source: impl Fn(&str) -> Source) -> File {
    let root = match mapping(name, text) {
        Ok(root) => root,
        Err(problems) => return File { problems: problems.0, ..File::default() },
    };
    let mut reader = DocumentReader::of(name, &root);
    let keyed = || rows.iter().filter_map(|row| Some((row.file_key?, row)));
    let mut groups = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (mut path, _) in keyed() {
        while let Some((group, last)) = path.rsplit_once('.').or((!path.is_empty()).then_some(("", path))) {
            groups.entry(group).or_default().insert(last);
            path = group;
        }
    }
    for (group, known) in groups {
        match group {
            // Keys are not checked: eBPF is unsupported.
            "ebpf" => drop(reader.mapping(group)),
            _ => reader.only(group, &Vec::from_iter(known)),
        }
    }
    let mut given = Vec::new();
    for (key, row) in keyed() {
        let takes_list = matches!(row.kind, SettingKind::Value(form) if form.ends_with(".."));
        let expected = if takes_list { "a list of single values such as [a, b]" } else { "a single value" };
        if let Some(value) = reader.typed(key, expected, |value| value_of(row, takes_list, value)) {
            given.push((row.setting, Given { value, source: source(key) }));
        }
    }
    File { given, problems: reader.finish() }
}

fn value_of(row: &SettingRow, takes_list: bool, value: &Value) -> Option<String> {
    let text = |value: &Value| scalar(value).filter(|_| !value.is_null());
    let items: Option<Vec<String>> = match value {
        Value::Array(items) if takes_list => items.iter().map(text).collect(),
        Value::Object(fields) if row.kind == SettingKind::Value("NAME:PATH,..") => {
            // The chart writes all names, with an empty path for an unset program.
            let given = fields.iter().filter(|(_, path)| path.as_str() != Some(""));
            given.map(|(name, path)| Some(format!("{name}:{}", text(path)?))).collect()
        }
        other => text(other).map(|text| vec![text]),
    };
    Some(items?.join(row.separator.unwrap_or(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuma::Kuma;
    use crate::mesh::Mesh;

    fn check(text: &str, expected: &[(Setting, &str)], problems: &[&str]) {
        let file = read(Mesh::Kuma.settings(), "tproxy.yaml", text, |key| {
            Source::Key(format!("tproxy.yaml: {key}"))
        });
        let found: Vec<(Setting, &str)> =
            file.given.iter().map(|(setting, given)| (*setting, given.value.as_str())).collect();
        assert_eq!(found, expected, "{text}");
        let found: Vec<String> = file.problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, problems, "{text}");
    }

    #[test]
    fn yaml_and_json_give_settings_by_key() {
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
    fn all_unknown_keys_and_invalid_values_are_reported() {
        check(
            "redirect: {inbond: {port: 1}, dns: [], inbound: {port: [1]}}\nverbos: true",
            &[],
            &[
                "tproxy.yaml: verbos: unknown field; did you mean verbose?",
                "tproxy.yaml: redirect.inbond: unknown field; did you mean inbound?",
                "tproxy.yaml: redirect.dns: is a list; expected a mapping",
                "tproxy.yaml: redirect.inbound.port: is a list; expected a single value",
            ],
        );
        check("5", &[], &["tproxy.yaml: is a number; expected a mapping"]);
        check("---\n{}\n---\n{}\n", &[], &["tproxy.yaml: holds several documents; expected one"]);
        check(
            "a: [",
            &[],
            &["tproxy.yaml: is not YAML or JSON: line 1, column 4: unclosed bracket '['; close it with ]"],
        );
        check(
            "redirect: {dns: {port: [1]}, outbound: {includePorts: [1, [2]]}}\niptablesExecutables: {iptables: []}\nebpf: 1\nlog: {zzz: 1}",
            &[],
            &[
                "tproxy.yaml: ebpf: \"1\" is a number; expected a mapping",
                "tproxy.yaml: log.zzz: unknown field; expected one of enabled, level",
                "tproxy.yaml: redirect.outbound.includePorts: is a list; expected a list of single values such as [a, b]",
                "tproxy.yaml: redirect.dns.port: is a list; expected a single value",
                "tproxy.yaml: iptablesExecutables: is a mapping; expected a list of single values such as [a, b]",
            ],
        );
        check("waitInterval: ~\nretry: ~", &[], &[]);
    }
}
