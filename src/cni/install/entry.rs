//! Our entry in a network configuration, validated by the plugin's own parser before it is installed.

use crate::cni::protocol::{
    ANNOTATIONS, CniError, CniVersion, KEYS, PartialConfiguration, Places, PluginFields,
};
use crate::cni::{PLUGIN, decision::resolve};
use mesh::{InputProblem, settings::nearest};
use serde_json::{Map, Value, json};
use std::{net::Ipv4Addr, path::PathBuf};

/// Builds the entry from keys given by flags (with the flag's name) and an object of keys (`--entry`).
pub(crate) fn entry(
    flags: &[(&str, &'static str, Value)],
    object: Option<&str>,
) -> Result<String, Vec<InputProblem>> {
    let mut problems = Vec::new();
    let mut keys = Map::new();
    keys.extend(object.map(|text| keys_of(text, &mut problems)).unwrap_or_default());
    for (flag, key, value) in flags {
        if keys.insert((*key).to_owned(), value.clone()).is_some() {
            let text = format!("is also given as {key:?} in --entry; give it once");
            problems.push(InputProblem::of(&format!("--{flag}"), text));
        }
    }
    if problems.is_empty() {
        problems = refusals(&keys);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let named = keys.iter().map(|(key, value)| format!(",{}:{value}", Value::from(key.as_str())));
    let named: String = named.collect();
    let capability = json!({ ANNOTATIONS: true });
    Ok(format!("{{\"type\":\"{PLUGIN}\",\"capabilities\":{capability}{named}}}"))
}

pub(super) fn state_directory(entry: &str) -> PathBuf {
    PartialConfiguration::of(entry.as_bytes()).map_or_else(|_| Places::default(), |read| read.places).state
}

fn keys_of(text: &str, problems: &mut Vec<InputProblem>) -> Vec<(String, Value)> {
    let mut blame = |text: String| problems.push(InputProblem::of("--entry", text));
    let wrong = |error: serde_json::Error| {
        format!("is not a JSON object: {error}; expected one such as {{\"backend\":\"iptables-nft\"}}")
    };
    let Ok(fields) = PluginFields::parse(text).map_err(|error| blame(wrong(error))) else {
        return Vec::new();
    };
    fields.doubles().for_each(|name| blame(format!("has the key {name:?} twice; remove one")));
    let ours = KEYS.map(|key| key.name);
    for (name, _) in fields.iter().filter(|(name, _)| !ours.contains(name)) {
        let hint = match nearest(name, ours.into_iter()) {
            Some(similar) => format!("did you mean {similar:?}?"),
            None => format!("expected one of {}", ours.join(", ")),
        };
        blame(format!("has the unknown key {name:?}; {hint}"));
    }
    let value = |(name, raw): (&str, &serde_json::value::RawValue)| {
        Some((name.to_owned(), serde_json::from_str(raw.get()).ok()?))
    };
    fields.iter().filter_map(value).collect()
}

fn refusals(keys: &Map<String, Value>) -> Vec<InputProblem> {
    let mut whole = keys.clone();
    whole.insert("cniVersion".to_owned(), CniVersion::LATEST.name().into());
    whole.insert("name".to_owned(), "any".into());
    whole.insert("type".to_owned(), PLUGIN.into());
    let text = Value::Object(whole).to_string();
    let (capture, defaults) = match PartialConfiguration::of(text.as_bytes()).and_then(|read| read.whole) {
        Ok(configuration) => (configuration.capture, configuration.defaults),
        Err(fault) => return problems(&fault),
    };
    let both = capture.clone().map(|capture| capture.over(defaults.clone()));
    let resolved = |raw| resolve(raw, Vec::new(), &[Ipv4Addr::new(192, 0, 2, 1).into()]).err();
    let faults = [capture, Some(defaults), both].into_iter().flatten().filter_map(resolved);
    let mut found = Vec::new();
    for problem in faults.flat_map(|fault| problems(&fault)) {
        if !found.contains(&problem) {
            found.push(problem);
        }
    }
    found
}

fn problems(fault: &CniError) -> Vec<InputProblem> {
    let lines = if fault.details.is_empty() { &fault.msg } else { &fault.details };
    lines.lines().map(|line| InputProblem::of("--entry", line)).collect()
}
