//! Configuration files, YAML or JSON, as settings. A list replaces that of an earlier file; a key that is null has no effect.

use super::settings::Kuma;
use crate::InputProblem;
use crate::pod::values;
use crate::settings::{Setting, SettingKind, nearest};
use crate::sources::{Given, Source};
use serde_json::Value;

const KEYS: &str = "\
    kumaDPUser ipFamilyMode redirect.inbound.enabled redirect.inbound.port redirect.inbound.includePorts \
    redirect.inbound.excludePorts redirect.inbound.excludePortsForIPs redirect.inbound.excludePortsForUIDs \
    redirect.inbound.insertRedirectInsteadOfAppend redirect.outbound.enabled redirect.outbound.port \
    redirect.outbound.includePorts redirect.outbound.excludePorts redirect.outbound.excludePortsForIPs \
    redirect.outbound.excludePortsForUIDs redirect.outbound.insertRedirectInsteadOfAppend redirect.dns.enabled \
    redirect.dns.captureAll redirect.dns.port redirect.dns.skipConntrackZoneSplit redirect.dns.resolvConfigPath \
    redirect.vnet.networks dropInvalidPackets log.enabled log.level comments.disabled verbose dryRun wait waitInterval \
    retry.maxRetries retry.sleepBetweenRetries iptablesExecutables storeFirewalld cniMode ebpf.enabled";

/// Upstream names a variable after each key: `redirect.dns.captureAll` is `KUMA_TRANSPARENT_PROXY_REDIRECT_DNS_CAPTURE_ALL`.
fn setting(key: &str) -> Option<Setting> {
    KEYS.split(' ').find(|known| *known == key)?;
    let mut variable = "KUMA_TRANSPARENT_PROXY".to_owned();
    for word in key.replace("UIDs", "Uids").replace("IPs", "Ips").replace("DPUser", "DpUser").split('.') {
        variable.push('_');
        for c in word.chars() {
            variable
                .extend(c.is_ascii_uppercase().then_some('_').into_iter().chain([c.to_ascii_uppercase()]));
        }
    }
    let row = super::settings::TABLE.iter().find(|row| row.variables.contains(&&*variable))?;
    Some(row.setting)
}

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
    let documents = match values(name, text) {
        Ok(documents) => documents,
        Err(problems) => return File { problems: problems.0, ..file },
    };
    match &documents[..] {
        [] | [Value::Null] => {}
        [document] => walk(&mut file, "", document, &source),
        _ => file.problems.push(InputProblem::of(name, "holds several documents; expected one")),
    }
    file
}

fn walk(file: &mut File, path: &str, value: &Value, source: &impl Fn(&str) -> Source) {
    if let Some(setting) = setting(path) {
        return add_setting(file, setting, path, value, source);
    }
    let is_of_group = |key: &str| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    let is_group = path.is_empty() || KEYS.split(' ').any(is_of_group);
    match value {
        Value::Null => return,
        Value::Object(fields) if is_group => {
            // Other keys of the engine that is not used have no effect.
            for (key, value) in fields.iter().filter(|(key, _)| path != "ebpf" || *key == "enabled") {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(file, &path, value, source);
            }
            return;
        }
        _ => {}
    }
    let (place, text) = match nearest(path, KEYS.split(' ')) {
        _ if path.is_empty() => {
            ("the document", "is not a mapping; expected keys such as redirect and kumaDPUser".to_owned())
        }
        _ if is_group => (path, "is not a mapping; expected keys and their values".to_owned()),
        Some(intended) => (path, format!("unknown key; did you mean {intended}?")),
        None => (path, "unknown key (see docs/kuma.md)".to_owned()),
    };
    file.problems.push(InputProblem::of(&source(place), text));
}

fn add_setting(
    file: &mut File,
    setting: Setting,
    path: &str,
    value: &Value,
    source: &impl Fn(&str) -> Source,
) {
    let separator = setting.row().separator.unwrap_or(",");
    let takes_list =
        separator == ";" || matches!(setting.row().kind, SettingKind::Value(form) if form.ends_with(",.."));
    let text = match value {
        Value::Null => return,
        Value::Array(items) if takes_list => {
            let items: Option<Vec<String>> = items.iter().map(scalar).collect();
            items.map(|items| items.join(separator))
        }
        Value::Object(fields) if setting == Kuma::Executables => {
            let pair = |(name, path): (&String, &Value)| Some(format!("{name}:{}", scalar(path)?));
            // The chart writes all names, with an empty path for a program that is not set.
            let given = fields.iter().filter(|(_, path)| path.as_str() != Some(""));
            let pairs: Option<Vec<String>> = given.map(pair).collect();
            pairs.map(|pairs| pairs.join(","))
        }
        other => scalar(other),
    };
    let source = source(path);
    match text {
        Some(value) => file.given.push((setting, Given { value, source })),
        None => {
            let text = match takes_list {
                true => "is not a list of values; expected one such as [a, b]",
                false => "is a list or a mapping; expected a single value",
            };
            file.problems.push(InputProblem::of(&source, text));
        }
    }
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
    use std::collections::BTreeSet;

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

    #[test]
    fn every_key_is_a_setting() {
        let settings: BTreeSet<Setting> = KEYS.split(' ').filter_map(setting).collect();
        assert_eq!(settings.len(), KEYS.split(' ').count());
    }
}
