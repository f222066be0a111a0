//! Checks the alerts and the dashboard in `docker/monitoring` against the page that a program exports: each metric used exists,
//! with the selected labels and values.

use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    Webhook,
    Operator,
    Installer,
    Node,
}

impl Exporter {
    fn of(metric: &str) -> Option<Self> {
        let of = [
            ("sidecar_injection_", Self::Webhook),
            ("sidecar_injector_", Self::Webhook),
            ("sidecar_environment_tag_", Self::Webhook),
            ("sidecar_environment_", Self::Operator),
            ("sidecar_cni_", Self::Installer),
            ("sidecar_node_", Self::Node),
        ];
        of.iter().find(|(start, _)| metric.starts_with(start)).map(|(_, program)| *program)
    }
}

/// Labels that Prometheus adds to a scraped page.
const OF_PROMETHEUS: [&str; 4] = ["instance", "job", "namespace", "pod"];

/// Panics with the metrics and labels that the program's page lacks.
pub fn check(program: Exporter, page: &str) {
    let samples: Vec<(String, Labels)> = page.lines().filter_map(sample).collect();
    let (mut missing, mut count) = (Vec::new(), 0);
    for text in expressions() {
        let expression = Expression::read(&text);
        assert!(!expression.selectors.is_empty(), "{text}: no metric");
        for (metric, matchers) in &expression.selectors {
            let of = Exporter::of(metric).unwrap_or_else(|| panic!("{text}: {metric} belongs to no program"));
            if of != program {
                continue;
            }
            count += 1;
            let own: Vec<&Labels> =
                samples.iter().filter(|(name, _)| name == metric).map(|(_, labels)| labels).collect();
            if !own.iter().any(|labels| matchers.iter().all(|matcher| matcher.holds(labels))) {
                missing.push(format!("{metric} with {matchers:?}, in {text}"));
            }
            let is_there = |label: &&String| {
                OF_PROMETHEUS.contains(&label.as_str())
                    || own.iter().any(|labels| labels.contains_key(*label))
            };
            let absent = expression.grouped.iter().filter(|label| !is_there(label));
            missing.extend(absent.map(|label| format!("{metric} by {label}, in {text}")));
        }
    }
    assert!(count > 0, "{program:?} has no metric in docker/monitoring");
    assert!(missing.is_empty(), "{program:?} does not export\n{}\nbut\n{page}", missing.join("\n"));
}

fn expressions() -> Vec<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder =
        here.ancestors().map(|folder| folder.join("docker/monitoring")).find(|folder| folder.is_dir());
    let folder = folder.expect("docker/monitoring");
    let mut found = Vec::new();
    for name in ["alerts.yaml", "dashboard.json"] {
        let text = fs::read_to_string(folder.join(name)).expect("UTF-8");
        let before = found.len();
        collect(&serde_saphyr::from_str(&text).expect("YAML"), &mut found);
        assert!(found.len() > before, "{name} has no expression");
    }
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if key == "expr" => found.push(text.clone()),
                    Value::String(text) if key == "query" && text.starts_with("label_values(") => {
                        let names =
                            text.split_once("{__name__=~\"").and_then(|(_, rest)| rest.split_once("\"}"));
                        found.push(names.expect("names of metrics").0.replace('|', " or "));
                    }
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

type Labels = BTreeMap<String, String>;

/// Parses a line of a page; `None` for a comment.
fn sample(line: &str) -> Option<(String, Labels)> {
    let (series, _) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let Some((name, labels)) = series.trim_end_matches('}').split_once('{') else {
        return Some((series.to_owned(), Labels::new()));
    };
    let labels = matchers(labels).into_iter().map(|matcher| (matcher.label, matcher.value));
    Some((name.to_owned(), labels.collect()))
}

#[derive(Debug, PartialEq, Eq)]
struct Matcher {
    label: String,
    operator: String,
    value: String,
}

impl Matcher {
    fn holds(&self, labels: &Labels) -> bool {
        let Some(value) = labels.get(&self.label) else { return OF_PROMETHEUS.contains(&&*self.label) };
        match &*self.operator {
            "=" => *value == self.value,
            "!=" => *value != self.value,
            other => panic!("{other} of a program's label is not read here"),
        }
    }
}

/// Parses matchers between braces: `a="b",c!="d"`. Values must not contain a quote.
fn matchers(text: &str) -> Vec<Matcher> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some((head, tail)) = rest.split_once('"') {
        let (value, after) = tail.split_once('"').expect("a quote that ends");
        let head = head.trim_matches([',', ' ']);
        let label = head.trim_end_matches(['=', '!', '~']);
        found.push(Matcher {
            label: label.to_owned(),
            operator: head[label.len()..].to_owned(),
            value: value.to_owned(),
        });
        rest = after;
    }
    found
}

#[derive(Debug, Default)]
struct Expression {
    selectors: Vec<(String, Vec<Matcher>)>,
    grouped: Vec<String>,
}

impl Expression {
    /// Parses the metrics of the project's programs, which share prefixes, and the labels after `by`.
    fn read(text: &str) -> Self {
        let selector = |(at, _)| {
            let (name, rest) = text[at..].split_at(word(&text[at..]));
            let matchers = rest.strip_prefix('{').map(|rest| matchers(inside(rest, '}')));
            (name.to_owned(), matchers.unwrap_or_default())
        };
        let labels = |(at, start): (usize, &str)| inside(&text[at + start.len()..], ')').split(',');
        Self {
            selectors: text.match_indices("sidecar_").map(selector).collect(),
            grouped: text
                .match_indices("by (")
                .flat_map(labels)
                .map(|label| label.trim().to_owned())
                .collect(),
        }
    }
}

fn inside(text: &str, close: char) -> &str {
    text.split_once(close).expect("a closing bracket").0
}

/// Length of the word at the start of a string.
fn word(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.'))).unwrap_or(text.len())
}
