//! Parses a pod's annotations one by one and collects all problems. Log levels are checked, since an invalid one makes its
//! program exit at each start.

use crate::admission::strings;
use crate::mesh_config::{excess, listed};
use crate::syntax::{count, quantity};
use mesh::pod::{self, Pod, annotated};
use mesh::settings::mapping::AnnotationForm;
use mesh::sources::{Raw, RemoteHost, Source, boolean};
use mesh::{InputProblem, Problems, Setting, settings::ANNOTATIONS, settings::levels::ScopeLevel};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) struct Annotations<'a> {
    given: BTreeMap<&'a str, &'a str>,
    pub(super) problems: Vec<InputProblem>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Annotations<'a> {
    pub(super) fn of(pod: &'a Value) -> Self {
        let given: BTreeMap<&str, &str> = strings(pod, "annotations").collect();
        let warnings = pod::unknown_among(given.keys());
        Self { given, problems: Vec::new(), warnings }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.given.get(name).copied()
    }

    pub(super) fn problem(&mut self, name: &str, item: &str, text: impl Into<String>) {
        self.problems.push(InputProblem::with_item(name, item, text));
    }

    pub(super) fn warn(&mut self, name: &str, text: &str) {
        let value = self.get(name).unwrap_or_default();
        self.warnings.push(format!("the annotation {name} is {value:?}{text}"));
    }

    pub(super) fn read<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(name)?;
        let parsed = read(value);
        if parsed.is_none() {
            self.problem(name, value, expected);
        }
        parsed
    }

    /// A number of seconds or failures; Istio accepts no sign and no space.
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        self.read(name, "is not a number; expected one from 0 to 2147483647, without a sign", |text| {
            count(text).filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
        })
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        self.read(name, "is not a boolean; expected true or false", boolean)
    }

    pub(super) fn quantity(&mut self, name: &str) -> Option<(&'a str, f64)> {
        let value = self.get(name)?;
        let amount = quantity(value).map_err(|text| self.problem(name, value, text)).ok()?;
        Some((value, amount))
    }

    /// A word that becomes part of an argument or an image name, which Go templates insert into YAML unescaped.
    pub(super) fn word(&mut self, name: &str) -> Option<&'a str> {
        let value = self.get(name)?;
        let fits = |c: char| c.is_ascii_graphic() && !"\"'`\\{}#".contains(c);
        if !value.chars().all(fits) {
            let text = "contains a space, a quote or another invalid character; remove it";
            self.problem(name, value, text);
            return None;
        }
        Some(value)
    }

    pub(super) fn list(&mut self, name: &str, form: AnnotationForm) -> Option<String> {
        let text = self.get(name)?;
        if let Some(excess) = excess(text) {
            self.problems.push(InputProblem::of(name, excess));
            return None;
        }
        let list = listed(text, form).map_err(|faults| {
            faults.into_iter().for_each(|(item, text)| self.problem(name, item, text));
        });
        list.ok()
    }
}

/// Settings from the annotations `sidecar-init/FLAG`, which override Istio's, parsed by the plugin's policy.
pub(super) fn own_settings(annotations: &Annotations<'_>) -> Result<BTreeMap<Setting, String>, Problems> {
    let ours = annotations.given.iter().filter(|(name, _)| name.starts_with(ANNOTATIONS));
    let ours: BTreeMap<String, String> =
        ours.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Problems::check(ours.iter().filter_map(|(name, value)| Some(InputProblem::of(name, excess(value)?))))?;
    if ours.is_empty() {
        return Ok(BTreeMap::new());
    }
    let read = annotated(&Pod::annotated("", "", ours), "", &Raw::default());
    read.resolve(&RemoteHost::Open)?;
    let is_own =
        |source: &Source| matches!(source, Source::Annotation(name) if name.starts_with(ANNOTATIONS));
    let own = read.raw.iter().filter(|(_, given)| is_own(&given.source));
    Ok(own.map(|(setting, given)| (setting, bare(&given.value))).collect())
}

/// Removes spaces around items, because arguments are also printed on one line.
fn bare(value: &str) -> String {
    value.split(',').map(|item| item.trim_matches([' ', '\t'])).collect::<Vec<_>>().join(",")
}

/// The items that a program refuses, with reasons.
pub(super) type LevelFaults = fn(&str) -> Vec<(&str, String)>;

const OF_ENVOY: [&str; 8] = ["trace", "debug", "info", "warning", "warn", "error", "critical", "off"];
const ENVOYS: &str = "trace, debug, info, warning, error, critical or off";

/// `--log_output_level` of the init container and of Istio's agent.
pub(super) fn of_agent(text: &str) -> Vec<(&str, String)> {
    let items = text.split(',').filter(|item| !item.is_empty());
    let faults = items.filter_map(|item| Some((item, item.parse::<ScopeLevel>().err()?)));
    faults.take(Problems::MAX_ITEMS).collect()
}

/// `--proxyLogLevel`. The agent passes Envoy the last level without a component, and all component levels.
pub(super) fn of_proxy(text: &str) -> Vec<(&str, String)> {
    let whole = text.split(',').rfind(|item| !item.contains(':')).filter(|item| !item.is_empty());
    let components = text.split(',').filter(|item| item.matches(':').count() == 1);
    let faults = whole.into_iter().chain(components).filter(|item| !has_level(item));
    let faults = faults.map(|item| (item, format!("is not an Envoy level; expected {ENVOYS}")));
    faults.take(Problems::MAX_ITEMS).collect()
}

/// `--proxyComponentLogLevel`, passed to Envoy unchanged. Components depend on Envoy's version.
pub(super) fn of_components(text: &str) -> Vec<(&str, String)> {
    let items = text.split(',').filter(|_| !text.is_empty());
    let faults = items.filter(|item| item.matches(':').count() != 1 || !has_level(item));
    let faults = faults
        .map(|item| (item, format!("is not COMPONENT:LEVEL, such as misc:error; expected level {ENVOYS}")));
    faults.take(Problems::MAX_ITEMS).collect()
}

fn has_level(item: &str) -> bool {
    item.rsplit(':').next().is_some_and(|level| OF_ENVOY.contains(&level))
}

/// Volumes and mounts that a pod adds to its proxy: a JSON list, or mapping by name. They become part of a patch, so they must
/// not contain merge directives. `needs` are an item's required string fields.
pub(super) fn volumes(annotations: &mut Annotations<'_>, name: &str, needs: &[&str]) -> Vec<Value> {
    let Some(text) = annotations.get(name).filter(|text| !text.trim().is_empty()) else { return Vec::new() };
    let items = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(Value::Object(named)) => Ok(named.into_iter().map(named_item).collect()),
        Ok(_) => Err("is neither a mapping nor a list".to_owned()),
        Err(error) => Err(format!("is not JSON: {error}")),
    };
    let items: Vec<Value> = items.unwrap_or_else(|fault| {
        let expected =
            "a mapping by names or a list, such as {\"cache\": {..}} or [{\"name\": \"cache\", ..}]";
        annotations.problem(name, text, format!("{fault}; expected {expected}"));
        Vec::new()
    });
    for item in &items {
        let lacks = |field: &&&str| item.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
        if !item.is_object() {
            annotations.problem(name, &item.to_string(), "is not a mapping; expected one");
        } else if let Some(field) = needs.iter().find(lacks) {
            annotations.problem(name, &item.to_string(), format!("lacks {field}, a string"));
        } else if let Some(word) = directive(item) {
            let text = format!("has {word}, a merge directive; remove it");
            annotations.problem(name, &item.to_string(), text);
        }
    }
    items
}

/// A key's value, named after the key unless already named.
fn named_item((name, mut item): (String, Value)) -> Value {
    if let Value::Object(fields) = &mut item {
        fields.entry("name").or_insert(name.into());
    }
    item
}

fn directive(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => {
            let own = fields.keys().map(String::as_str).find(|key| key.starts_with('$'));
            own.or_else(|| fields.values().find_map(directive))
        }
        Value::Array(items) => items.iter().find_map(directive),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::istio::annotations::of_injection;

    #[test]
    fn each_annotation_is_documented() {
        let document = include_str!("../../../../docs/injection.md");
        for name in of_injection() {
            assert!(document.contains(&format!("`{name}`")), "docs/injection.md does not name {name}");
        }
    }

    fn check(faults: LevelFaults, text: &str, expected: &[&str]) {
        let found: Vec<&str> = faults(text).into_iter().map(|(item, _)| item).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn levels_are_refused_if_their_program_would_exit() {
        for right in ["", "debug", "default:info,ads:none", "all:fatal", "no-such:trace", "info,"] {
            check(of_agent, right, &[]);
        }
        check(of_agent, "loud,ads:info,ads:warning,a:b:info", &["loud", "ads:warning", "a:b:info"]);
        for right in
            ["", "warning", "warn", "off,http:critical", "loud,info", "info,a:b:c", "http:debug", "loud,"]
        {
            check(of_proxy, right, &[]);
        }
        check(of_proxy, "info,loud,http:fatal,x:", &["loud", "http:fatal", "x:"]);
        for right in ["", "misc:error", "upstream:debug,no-such:trace"] {
            check(of_components, right, &[]);
        }
        check(of_components, "misc,a:b:info,misc:loud,", &["misc", "a:b:info", "misc:loud", ""]);
    }

    #[test]
    fn of_many_faults_the_first_are_reported() {
        let text = "x,".repeat(100_000);
        assert_eq!(of_agent(&text).len(), Problems::MAX_ITEMS);
        assert_eq!(of_components(&text).len(), Problems::MAX_ITEMS);
    }
}
