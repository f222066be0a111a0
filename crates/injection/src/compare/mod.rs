//! Changes that this injector would make to a cluster's injected pods. Each pod is reinjected and compared by meaning, ignoring
//! the API server's defaults, the order of fields and variables, and spellings of quantities and JSON strings.

use crate::admission::{AdmissionContext, Namespaces};
use crate::merge::{MOUNT_PATH, SchemaKind, Strategy, clean, identity as key_of};
use crate::pipeline::pod::PodSpecList;
use crate::pipeline::{InjectionOutcome, InjectionStatus, PROXY, inject};
use crate::syntax::{is_more, quantity};
use crate::{configuration::Configuration, configuration::selector::is_empty, decision::DecisionReason};
use mesh::{Problems, visible};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, sync::LazyLock};

#[derive(Clone, Debug)]
pub struct PodComparison {
    pub pod: String,
    pub verdict: ComparisonVerdict,
}

#[derive(Clone, Debug)]
pub enum ComparisonVerdict {
    NotInjected,
    Same,
    Differs(Vec<PodDifference>),
    /// The pod would run without a proxy.
    Skipped(DecisionReason),
    Refused(Problems),
}

impl ComparisonVerdict {
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::NotInjected | Self::Same)
    }
}

pub fn compare(
    pod: &Value,
    namespaces: &Namespaces,
    variables: &[(String, String)],
    configuration: &Configuration,
) -> PodComparison {
    let meta = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let namespace = namespaces.of(meta("namespace"));
    let name = if meta("name").is_empty() { meta("generateName") } else { meta("name") };
    let compared = |verdict| PodComparison { pod: format!("{}/{name}", namespace.name), verdict };
    let Some(status) = InjectionStatus::of_pod(pod) else {
        return compared(ComparisonVerdict::NotInjected);
    };
    let admission = AdmissionContext {
        // The pod shows whether its kubelet runs native sidecars.
        native_sidecars: status.has(PodSpecList::InitContainers, PROXY),
        variables: variables.to_vec(),
        workload: None,
        namespace: namespace.clone(),
        ..AdmissionContext::default()
    };
    match inject(pod, &admission, configuration) {
        Err(problems) => compared(ComparisonVerdict::Refused(problems)),
        Ok(InjectionOutcome::Skipped(decision)) => compared(ComparisonVerdict::Skipped(decision.reason)),
        Ok(InjectionOutcome::Injected(injected)) => {
            let found = differences(&filled(pod), &filled(&injected.pod));
            let is_same = found.is_empty();
            compared(if is_same { ComparisonVerdict::Same } else { ComparisonVerdict::Differs(found) })
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PodDifference {
    /// Such as `spec.containers[istio-proxy].env[A].value`.
    pub path: String,
    /// The running pod's value, if any.
    pub runs: Option<Value>,
    pub made: Option<Value>,
}

impl fmt::Display for PodDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = visible(&self.path);
        match (&self.runs, &self.made) {
            (Some(runs), Some(made)) => write!(f, "{path}: {} would be {}", short(runs), short(made)),
            (Some(runs), None) => write!(f, "{path}: {} would be gone", short(runs)),
            (None, Some(made)) => write!(f, "{path}: would be added: {}", short(made)),
            (None, None) => write!(f, "{path}"),
        }
    }
}

fn short(value: &Value) -> String {
    const MAX_LENGTH: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}..", visible(&text[..end])),
        None => visible(&text),
    }
}

fn differences(runs: &Value, made: &Value) -> Vec<PodDifference> {
    let mut found = Vec::new();
    walk("", runs, made, SchemaKind::Pod, &mut found);
    found
}

fn walk(path: &str, runs: &Value, made: &Value, kind: SchemaKind, found: &mut Vec<PodDifference>) {
    let (Value::Object(runs), Value::Object(made)) = (runs, made) else {
        if !same(path, runs, made) {
            let (path, runs, made) = (path.to_owned(), Some(runs.clone()), Some(made.clone()));
            found.push(PodDifference { path, runs, made });
        }
        return;
    };
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, value) in runs {
        let (strategy, inner) = kind.field(name);
        match (value, made.get(name), strategy) {
            (value, None, _) => found.extend(only(at(name), Some(value), None)),
            (Value::Array(runs), Some(Value::Array(made)), Strategy::Keyed(key)) => {
                items(&at(name), runs, made, key, inner, found);
            }
            (Value::Array(runs), Some(Value::Array(made)), _) if runs.len() == made.len() => {
                for (index, (runs, made)) in runs.iter().zip(made).enumerate() {
                    walk(&format!("{}[{index}]", at(name)), runs, made, inner, found);
                }
            }
            (value, Some(made), _) => walk(&at(name), value, made, inner, found),
        }
    }
    for (name, value) in made.iter().filter(|(name, _)| !runs.contains_key(*name)) {
        found.extend(only(at(name), None, Some(value)));
    }
}

/// Compares lists by key. Order matters for containers, which start in order, but not for variables, ports and mounts.
fn items(
    path: &str,
    runs: &[Value],
    made: &[Value],
    key: &str,
    kind: SchemaKind,
    found: &mut Vec<PodDifference>,
) {
    let name = |item: &Value| match &item[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let own = |item: &Value| key_of(item, key).map(|key| key.to_string()).unwrap_or_default();
    // Ports of different protocols may share a number: items with the same key match only if equal.
    let mut repeated = BTreeSet::new();
    for items in [runs, made] {
        let mut seen = BTreeSet::new();
        let keys = items.iter().map(own);
        repeated.extend(keys.filter(|own| !seen.insert(own.clone())));
    }
    let identity = |item: &Value| {
        let own = own(item);
        let is_repeated = repeated.contains(&own);
        (is_repeated, if is_repeated { item.to_string() } else { own })
    };
    let [of_runs, of_made] =
        [runs, made].map(|items| items.iter().map(|item| (identity(item), item)).collect::<BTreeMap<_, _>>());
    for item in runs {
        let at = format!("{path}[{}]", name(item));
        match of_made.get(&identity(item)) {
            Some(other) => walk(&at, item, other, kind, found),
            None => found.extend(only(at, Some(item), None)),
        }
    }
    for item in made.iter().filter(|item| !of_runs.contains_key(&identity(item))) {
        found.extend(only(format!("{path}[{}]", name(item)), None, Some(item)));
    }
    if kind == SchemaKind::Container {
        let order = |items: &[Value], others: &BTreeMap<(bool, String), &Value>| -> Value {
            let shared = items.iter().filter(|item| others.contains_key(&identity(item)));
            shared.map(|item| item[key].clone()).collect()
        };
        let (runs, made) = (order(runs, &of_made), order(made, &of_runs));
        if runs != made {
            found.push(PodDifference { path: format!("{path}: order"), runs: Some(runs), made: Some(made) });
        }
    }
}

/// A value on one side only. Absent, null, false and an empty list or object are equal.
fn only(path: String, runs: Option<&Value>, made: Option<&Value>) -> Option<PodDifference> {
    runs.or(made).filter(|value| !is_empty(value) && **value != false)?;
    Some(PodDifference { path, runs: runs.cloned(), made: made.cloned() })
}

/// Compares quantities by amount, mount paths after cleaning, and JSON strings as JSON.
fn same(path: &str, runs: &Value, made: &Value) -> bool {
    if runs == made {
        return true;
    }
    if path.ends_with(&format!("].{MOUNT_PATH}")) {
        let path = |value: &Value| value.as_str().map(clean);
        return path(runs) == path(made);
    }
    if path.contains(".resources.limits.") || path.contains(".resources.requests.") {
        let amount = |value: &Value| match value {
            Value::String(text) => quantity(text).ok(),
            Value::Number(number) => quantity(&number.to_string()).ok(),
            _ => None,
        };
        return amount(runs)
            .zip(amount(made))
            .is_some_and(|(one, other)| !is_more(one, other) && !is_more(other, one));
    }
    let json = |value: &Value| {
        let tree: Value = serde_json::from_str(value.as_str()?).ok()?;
        (tree.is_object() || tree.is_array()).then_some(tree)
    };
    let (Some(runs), Some(made)) = (json(runs), json(made)) else { return false };
    let mut found = Vec::new();
    walk("", &runs, &made, SchemaKind::Other, &mut found);
    found.is_empty()
}

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

static DEFAULTS: LazyLock<Value> = LazyLock::new(|| {
    let defaults = mesh::pod::values("defaults.yaml", include_str!("defaults.yaml"));
    defaults.unwrap_or_else(|problems| panic!("{problems}")).remove(0)
});

/// Adds the API server's defaults (Kubernetes' `pkg/apis/core/v1/defaults.go`) for fields that injectors write, and removes
/// its additions to every container.
fn filled(pod: &Value) -> Value {
    let mut spec = Value::Object(pod["spec"].as_object().cloned().unwrap_or_default());
    fill(&mut spec, &DEFAULTS);
    for list in ["containers", "initContainers"] {
        let items = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        items.filter_map(Value::as_object_mut).for_each(fill_container);
    }
    let meta = |field: &str| match &pod["metadata"][field] {
        Value::Null => json!({}),
        texts => texts.clone(),
    };
    json!({"metadata": {"labels": meta("labels"), "annotations": meta("annotations")}, "spec": spec})
}

fn fill(value: &mut Value, defaults: &Value) {
    match (value, defaults) {
        (Value::Array(items), Value::Array(defaults)) => {
            items.iter_mut().for_each(|item| fill(item, &defaults[0]));
        }
        (Value::Object(fields), Value::Object(defaults)) => {
            for (name, default) in defaults {
                match fields.get_mut(name).filter(|value| !value.is_null()) {
                    Some(inner) => fill(inner, default),
                    None if default.is_object() || default.is_array() => {}
                    None => drop(fields.insert(name.clone(), default.clone())),
                }
            }
        }
        _ => {}
    }
}

fn fill_container(fields: &mut Map<String, Value>) {
    if fields.get("imagePullPolicy").is_none_or(Value::is_null) {
        let image = fields.get("image").and_then(Value::as_str).unwrap_or_default();
        let (tagged, has_digest) = image.split_once('@').map_or((image, false), |(tagged, _)| (tagged, true));
        let last = tagged.rsplit('/').next().unwrap_or_default();
        let is_latest = last.ends_with(":latest") || !(has_digest || last.contains(':'));
        fields.insert("imagePullPolicy".to_owned(), if is_latest { "Always" } else { "IfNotPresent" }.into());
    }
    for variable in fields.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if variable.get("valueFrom").is_none() {
            fill(variable, &json!({"value": ""}));
        }
    }
    if let Some(Value::Object(resources)) = fields.get_mut("resources") {
        if let Some(limits @ Value::Object(_)) = resources.get("limits").cloned() {
            fill(resources.entry("requests").or_insert_with(|| json!({})), &limits);
        }
        resources.retain(|_, value| !is_empty(value));
    }
    if let Some(Value::Array(mounts)) = fields.get_mut("volumeMounts") {
        mounts.retain(|mount| mount[MOUNT_PATH].as_str().is_none_or(|path| clean(path) != TOKEN));
    }
    // Empty lists and objects equal absent ones.
    fields.retain(|_, value| !is_empty(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runs: &Value, made: &Value, expected: &[&str]) {
        let spec = |container: &Value| json!({"spec": {"containers": [container]}});
        let found = differences(&spec(runs), &spec(made));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected, "{runs} {made}");
    }

    #[test]
    fn equivalent_forms_are_equal() {
        let runs = json!({"name": "a", "env": [{"name": "A", "value": "{\"a\": 1, \"b\": []}"}, {"name": "B"}],
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}, "args": ["x", "{\"a\":null}"], "volumeMounts": [{"mountPath": "/a/./b/"}]});
        let made = json!({"name": "a", "env": [{"name": "B"}, {"name": "A", "value": "{\"b\":[],\"a\":1}"}],
            "resources": {"limits": {"cpu": "2000m", "memory": "1024Mi"}}, "args": ["x", "{}"], "tty": false,
            "volumeMounts": [{"mountPath": "/a/b"}]});
        check(&runs, &made, &[]);
    }

    #[test]
    fn every_difference_is_reported_with_its_place() {
        check(
            &json!({"name": "a", "image": "x:1", "args": ["a"], "env": [{"name": "A", "value": "1"}]}),
            &json!({"name": "a", "image": "x:2", "args": ["b"], "env": [{"name": "B", "value": "1"}]}),
            &[
                "spec.containers[a].args[0]: \"a\" would be \"b\"",
                "spec.containers[a].env[A]: {\"name\":\"A\",\"value\":\"1\"} would be gone",
                "spec.containers[a].env[B]: would be added: {\"name\":\"B\",\"value\":\"1\"}",
                "spec.containers[a].image: \"x:1\" would be \"x:2\"",
            ],
        );
        let order =
            |names: [&str; 2]| json!({"spec": {"initContainers": names.map(|name| json!({"name": name}))}});
        let found = differences(&order(["a", "b"]), &order(["b", "a"]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "spec.initContainers: order: [\"a\",\"b\"] would be [\"b\",\"a\"]");
    }

    #[test]
    fn lists_of_other_lengths_and_items_without_names_have_their_places() {
        check(
            &json!({"name": "a", "args": ["x"], "ports": [{"containerPort": 80, "protocol": "TCP"}]}),
            &json!({"name": "a", "args": ["x", "y"], "ports": [{"containerPort": 80, "protocol": "UDP"}]}),
            &[
                "spec.containers[a].args: [\"x\"] would be [\"x\",\"y\"]",
                "spec.containers[a].ports[80].protocol: \"TCP\" would be \"UDP\"",
            ],
        );
        check(
            &json!({"name": "a", "stdin": true, "tty": false, "env": [], "command": null, "lifecycle": {}}),
            &json!({"name": "a", "workingDir": "", "privileged": false}),
            &[
                "spec.containers[a].stdin: true would be gone",
                "spec.containers[a].workingDir: would be added: \"\"",
            ],
        );
        check(
            &json!({"name": "a"}),
            &json!({"name": "b"}),
            &[
                "spec.containers[a]: {\"name\":\"a\"} would be gone",
                "spec.containers[b]: would be added: {\"name\":\"b\"}",
            ],
        );
    }

    #[test]
    fn ports_of_one_number_differ_in_their_protocols() {
        let port = |protocol: &&str| json!({"containerPort": 53, "protocol": protocol});
        let with = |protocols: &[&str]| -> Value {
            json!({"name": "a", "ports": protocols.iter().map(port).collect::<Vec<_>>()})
        };
        check(&with(&["TCP", "UDP"]), &with(&["TCP", "UDP"]), &[]);
        check(&with(&["TCP", "UDP"]), &with(&["UDP", "TCP"]), &[]);
        let added =
            "spec.containers[a].ports[53]: would be added: {\"containerPort\":53,\"protocol\":\"UDP\"}";
        check(&with(&["TCP"]), &with(&["TCP", "UDP"]), &[added]);
        let gone = "spec.containers[a].ports[53]: {\"containerPort\":53,\"protocol\":\"TCP\"} would be gone";
        check(&with(&["TCP", "UDP"]), &with(&["UDP"]), &[gone]);
    }

    #[test]
    fn long_lists_are_compared_in_time() {
        let named = |number: usize| json!({"name": format!("A{number}"), "value": "1"});
        let nameless = |number: usize| json!({"value": number.to_string()});
        let with = |items: Vec<Value>| json!({"name": "a", "env": items});
        let numbers = 0..testkit::scope::runs(30_000, 10_000);
        check(
            &with(numbers.clone().map(named).collect()),
            &with(numbers.clone().rev().map(named).collect()),
            &[],
        );
        check(
            &with(numbers.clone().map(nameless).collect()),
            &with(numbers.skip(1).map(nameless).collect()),
            &["spec.containers[a].env[null]: {\"value\":\"0\"} would be gone"],
        );
    }

    #[test]
    fn names_move_no_cursor_and_begin_no_line() {
        let runs = json!({"name": "a", "env": [{"name": "A\u{1b}[2J\n::error::", "value": "\u{9b}1"}]});
        let expected = "spec.containers[a].env[A\\u{1b}[2J\\n::error::]: \
                        {\"name\":\"A\\u001b[2J\\n::error::\",\"value\":\"\\u{9b}1\"} would be gone";
        check(&runs, &json!({"name": "a", "env": []}), &[expected]);
    }

    #[test]
    fn amounts_are_compared_where_amounts_are() {
        let of = |field: &str, value: Value| json!({"name": "a", field: {"limits": {"cpu": value}}});
        for (runs, made, is_same) in [
            (json!("1"), json!(1), true),
            (json!("1000m"), json!(1), true),
            (json!("1"), json!("2"), false),
            (json!("2"), json!("1"), false),
            (json!("1"), json!("one"), false),
            (json!(true), json!("1"), false),
        ] {
            let found = |field| {
                let spec = |value: &Value| json!({"spec": {"containers": [of(field, value.clone())]}});
                differences(&spec(&runs), &spec(&made)).len()
            };
            assert_eq!((found("resources"), found("other")), (usize::from(!is_same), 1), "{runs} {made}");
        }
    }

    #[test]
    fn strings_of_json_are_compared_as_json() {
        for (runs, made, is_same) in [
            ("{\"a\":1}", "{ \"a\" : 1 }", true),
            ("[1,2]", "[1, 2]", true),
            ("[1,2]", "[2,1]", false),
            ("1", "1.0", false),
            ("{\"a\":1}", "x", false),
        ] {
            let found = differences(&json!({"a": runs}), &json!({"a": made})).len();
            assert_eq!(found, usize::from(!is_same), "{runs} {made}");
        }
    }

    #[test]
    fn a_long_value_is_shortened() {
        let difference = |length: usize| PodDifference {
            path: "a".to_owned(),
            runs: None,
            made: Some(Value::from("é".repeat(length))),
        };
        let (most, more) = ("é".repeat(198), "é".repeat(199));
        assert_eq!(difference(198).to_string(), format!("a: would be added: \"{most}\""));
        assert_eq!(difference(199).to_string(), format!("a: would be added: \"{more}.."));
        let neither = PodDifference { runs: None, made: None, path: "a".to_owned() };
        assert_eq!(neither.to_string(), "a");
    }

    const MODE: u32 = 0o644;

    fn filled_container(container: &Value) -> Value {
        filled(&json!({"spec": {"containers": [container]}}))["spec"]["containers"][0].clone()
    }

    #[test]
    fn images_without_a_tag_are_pulled_always() {
        for (image, policy) in [
            ("web", "Always"),
            ("hub:5000/web", "Always"),
            ("hub/web:latest", "Always"),
            ("hub/web:1", "IfNotPresent"),
            ("web@sha256:0", "IfNotPresent"),
            ("hub/web:1@sha256:0", "IfNotPresent"),
            ("hub/web:latest@sha256:0", "Always"),
        ] {
            assert_eq!(filled_container(&json!({"image": image}))["imagePullPolicy"], policy, "{image}");
        }
        assert_eq!(filled_container(&json!({"imagePullPolicy": "Never"}))["imagePullPolicy"], "Never");
    }

    #[test]
    fn containers_and_volumes_get_their_defaults() {
        let field = |version: &Value| json!({"fieldRef": {"apiVersion": version, "fieldPath": "a"}});
        let (absent, v1) = (field(&Value::Null), field(&json!("v1")));
        let cpu =
            |divisor: &Value| json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": divisor}});
        let (undivided, zero) = (cpu(&Value::Null), cpu(&json!("0")));
        let found = filled_container(&json!({
            "image": "a:1",
            "args": [],
            "ports": [{"containerPort": 1}],
            "env": [{"name": "A"}, {"name": "B", "valueFrom": absent}, {"name": "C", "valueFrom": undivided}],
            "volumeMounts": [{"mountPath": TOKEN}, {"mountPath": "/a"}],
            "resources": {"limits": {"cpu": 2, "memory": 1}, "requests": {"cpu": 1}},
            "startupProbe": {"httpGet": {"port": 1}, "periodSeconds": 2},
            "livenessProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1, "scheme": "HTTPS"}}},
        }));
        let expected = json!({
            "image": "a:1",
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 1, "protocol": "TCP"}],
            "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": v1}, {"name": "C", "valueFrom": zero}],
            "volumeMounts": [{"mountPath": "/a"}],
            "resources": {"limits": {"cpu": 2, "memory": 1}, "requests": {"cpu": 1, "memory": 1}},
            "startupProbe": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}, "initialDelaySeconds": 0, "timeoutSeconds": 1,
                "periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3},
            "livenessProbe": {"grpc": {"port": 1, "service": ""}, "initialDelaySeconds": 0, "timeoutSeconds": 1, "periodSeconds": 10,
                "successThreshold": 1, "failureThreshold": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTPS"}}},
        });
        assert_eq!(found, expected);
        assert_eq!(filled_container(&json!({"image": "a:1"})).get("resources"), None);

        let volumes = json!([
            {"secret": {}},
            {"configMap": {"defaultMode": 1}},
            {"downwardAPI": {"items": [absent]}},
            {"projected": {"sources": [{"serviceAccountToken": {}}, {"downwardAPI": {"items": [absent]}}]}},
            {"hostPath": {"path": "/a"}},
        ]);
        let expected = json!([
            {"secret": {"defaultMode": MODE}},
            {"configMap": {"defaultMode": 1}},
            {"downwardAPI": {"items": [v1], "defaultMode": MODE}},
            {"projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3600}}, {"downwardAPI": {"items": [v1]}}],
                "defaultMode": MODE}},
            {"hostPath": {"path": "/a", "type": ""}},
        ]);
        assert_eq!(filled(&json!({"spec": {"volumes": volumes}}))["spec"]["volumes"], expected);
    }
}
