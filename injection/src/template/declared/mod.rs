//! Templates as data, in a small vocabulary: what of a sidecar becomes which part of a pod, without a language to program in.
//!
//! The words are those of the API, as `shape` lists them. Beside them there are references (`text`), conditions
//! (`condition`), parameters (`parameter`), and `capture`, the init container, whose arguments no template writes.

mod capture;
mod condition;
mod fact;
mod node;
mod parameter;
mod reading;
mod shape;
mod text;
mod writing;

use super::Sight;
use crate::sidecar::Sidecar;
use capture::Capture;
use condition::When;
use node::Node;
use parameter::Parameter;
use policy::{Problem, Problems};
use reading::Reader;
use serde_json::{Map, Value};
use shape::{CONTAINER, Form, NAMED, VOLUME};
use std::sync::Arc;
use writing::Scene;

/// A template whose every word is known.
#[derive(Clone, Debug)]
pub struct Template(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    name: String,
    parameters: Vec<Parameter>,
    refusals: Vec<Refusal>,
    labels: Vec<Entry>,
    annotations: Vec<Entry>,
    capture: Option<Capture>,
    /// Containers that run beside the application, as init containers that keep running where the sidecar is native.
    sidecars: Option<Node>,
    containers: Option<Node>,
    init_containers: Option<Node>,
    volumes: Option<Node>,
    pull_secrets: Option<Node>,
}

/// Pods that it can't serve, with the reason.
#[derive(Clone, Debug)]
struct Refusal {
    when: When,
    because: String,
}

/// A label or an annotation.
#[derive(Clone, Debug)]
struct Entry {
    key: String,
    text: Node,
    when: Option<When>,
    /// Whether the pod's own wins.
    keep: bool,
}

/// What a template may say.
const WORDS: [&str; 10] = [
    "parameters",
    "refuse",
    "labels",
    "annotations",
    "capture",
    "sidecars",
    "containers",
    "initContainers",
    "volumes",
    "imagePullSecrets",
];

/// The templates that come with the program, by name, as they are written.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("sidecar", include_str!("built_in/sidecar.yaml")),
    ("envoy", include_str!("built_in/envoy.yaml")),
    ("linkerd", include_str!("built_in/linkerd.yaml")),
];

/// The templates that come with the program.
pub(super) fn built_in() -> Vec<(&'static str, Template)> {
    let read = |(name, text): (&'static str, &str)| {
        let written = policy::pod::values(name, text).expect("our own templates are YAML");
        let written = written.first().expect("our own templates hold a document");
        (name, Template::read(name, written).expect("our own templates use the words that there are"))
    };
    BUILT_IN.into_iter().map(read).collect()
}

impl Template {
    pub(super) fn read(name: &str, written: &Value) -> Result<Self, Problems> {
        let mut reader = Reader::of(name);
        let empty = Map::new();
        let fields = written.as_object().unwrap_or(&empty);
        for word in fields.keys().filter(|word| !WORDS.contains(&word.as_str())) {
            reader.unknown("template", word, WORDS.into_iter());
        }
        // First, as texts refer to them.
        if let Some(written) = fields.get("parameters") {
            reader.parameters = Parameter::read(written, &mut reader);
        }
        let refusals = refusals(fields.get("refuse"), &mut reader);
        let labels = entries(fields.get("labels"), "labels", &mut reader);
        let annotations = entries(fields.get("annotations"), "annotations", &mut reader);
        let capture = fields.get("capture").and_then(|written| Capture::read(written, &mut reader));
        let mut list = |word: &str, form: &'static Form| {
            let node = reader.node(fields.get(word)?, Form::List(form), word);
            if let Some(Node::List(items)) = &node {
                fixed_names(items, word, &mut reader);
            }
            node
        };
        const CONTAINERS: Form = Form::Object(&CONTAINER);
        const VOLUMES: Form = Form::Object(&VOLUME);
        const NAMES: Form = Form::Object(&NAMED);
        let sidecars = list("sidecars", &CONTAINERS);
        let containers = list("containers", &CONTAINERS);
        let init_containers = list("initContainers", &CONTAINERS);
        let volumes = list("volumes", &VOLUMES);
        let pull_secrets = list("imagePullSecrets", &NAMES);
        if fields.keys().all(|word| word == "parameters") {
            reader.problem(
                "template",
                None,
                "does nothing; expected containers, volumes, labels or annotations",
            );
        }
        if !reader.problems.is_empty() {
            return Err(Problems(reader.problems));
        }
        let (name, parameters) = (name.to_owned(), reader.parameters);
        Ok(Self(Arc::new(Parts {
            name,
            parameters,
            refusals,
            labels,
            annotations,
            capture,
            sidecars,
            containers,
            init_containers,
            volumes,
            pull_secrets,
        })))
    }

    /// Makes a sidecar of Istio's the one that the template wants.
    pub(super) fn adapt(&self, sidecar: &mut Sidecar) {
        if let Some(capture) = &self.0.capture {
            capture.adapt(sidecar);
        }
    }

    /// The patch of the pod.
    pub(super) fn render(&self, sight: &Sight<'_>) -> Result<Value, Problems> {
        self.0.render(sight)
    }
}

impl Parts {
    fn render(&self, sight: &Sight<'_>) -> Result<Value, Problems> {
        let mut reader = Reader::of(&format!("template {}", self.name));
        let scene = Scene::of(sight, &self.parameters, self.own()).map_err(|problems| {
            Problems(problems.into_iter().map(|problem| self.named(problem)).collect())
        })?;
        for refusal in self.refusals.iter().filter(|refusal| refusal.when.holds(&scene)) {
            reader.problem("refuse", None, &refusal.because);
        }
        let (sidecar, mut spec) = (sight.sidecar, Map::new());
        let mut items =
            |node: &Option<Node>, word: &str| match node.as_ref()?.write(&scene, &word, &mut reader) {
                Some(Value::Array(items)) => Some(items),
                _ => None,
            };
        let mut inits: Vec<Value> = Vec::new();
        inits.extend(self.capture.as_ref().and_then(|capture| capture.container(&scene)));
        let mut beside = Vec::new();
        for mut container in items(&self.sidecars, "sidecars").into_iter().flatten() {
            if sidecar.native
                && let Value::Object(fields) = &mut container
            {
                fields.insert("restartPolicy".to_owned(), "Always".into());
                inits.push(container);
            } else {
                beside.push(container);
            }
        }
        beside.extend(items(&self.containers, "containers").into_iter().flatten());
        inits.extend(items(&self.init_containers, "initContainers").into_iter().flatten());
        let volumes = items(&self.volumes, "volumes").unwrap_or_default();
        let secrets = items(&self.pull_secrets, "imagePullSecrets").unwrap_or_default();
        let lists = [
            ("initContainers", inits),
            ("containers", beside),
            ("volumes", volumes),
            ("imagePullSecrets", secrets),
        ];
        spec.extend(
            lists
                .into_iter()
                .filter(|(_, items)| !items.is_empty())
                .map(|(word, items)| (word.to_owned(), items.into())),
        );
        let labels = written(&self.labels, "labels", &scene, &mut reader);
        let mut annotations = written(&self.annotations, "annotations", &scene, &mut reader);
        annotations.extend(self.capture.iter().flat_map(|capture| capture.annotations(&scene)));
        if !reader.problems.is_empty() {
            return Err(Problems(reader.problems));
        }
        let metadata = object(
            [("labels", labels), ("annotations", annotations)]
                .into_iter()
                .filter(|(_, entries)| !entries.is_empty()),
        );
        Ok(Value::Object(object([("metadata", metadata), ("spec", spec)].into_iter())))
    }

    /// The containers that it writes itself.
    fn own(&self) -> Vec<&str> {
        let lists = [&self.sidecars, &self.containers, &self.init_containers];
        lists.into_iter().flatten().flat_map(names).collect()
    }

    fn named(&self, problem: Problem) -> Problem {
        Problem { name: format!("template {}: {}", self.name, problem.name), ..problem }
    }
}

/// The names of a list's items.
fn names(list: &Node) -> Vec<&str> {
    let Node::List(items) = list else { return Vec::new() };
    items.iter().filter_map(name).collect()
}

fn name(item: &Node) -> Option<&str> {
    match item {
        Node::Object(fields, _) => {
            fields.iter().find(|(field, _)| field.word == "name").and_then(|(_, node)| node.literal())
        }
        Node::When(_, node) => name(node),
        _ => None,
    }
}

/// Patches merge by names, so that two items of one name would become one. Alternatives may share theirs.
fn fixed_names(items: &[Node], at: &str, reader: &mut Reader) {
    let mut known: Vec<&str> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match name(item) {
            Some(name) if known.contains(&name) && !matches!(item, Node::When(..)) => {
                reader.problem(&format!("{at}[{index}].name"), Some(name), "stands twice");
            }
            Some(name) => known.push(name),
            None => {}
        }
    }
}

fn refusals(written: Option<&Value>, reader: &mut Reader) -> Vec<Refusal> {
    const FIELDS: [&str; 2] = ["when", "because"];
    let items = match written {
        None => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            reader.problem("refuse", None, "is no list; expected items of when and because");
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("refuse[{index}]");
        let Some(fields) = reader.entries(item, &at) else { continue };
        for word in fields.keys().filter(|word| !FIELDS.contains(&word.as_str())) {
            reader.unknown(&at, word, FIELDS.into_iter());
        }
        let when = fields.get("when").map(|when| When::read(when, &format!("{at}.when"), reader));
        let because = fields.get("because").and_then(Value::as_str);
        if when.is_none() {
            reader.problem(&at, None, "lacks when, the condition");
        }
        match (when, because) {
            (Some(when), Some(because)) => found.push(Refusal { when, because: because.to_owned() }),
            (_, None) => reader.problem(&at, None, "lacks because, a text that tells why"),
            (None, Some(_)) => {}
        }
    }
    found
}

fn entries(written: Option<&Value>, at: &str, reader: &mut Reader) -> Vec<Entry> {
    const FIELDS: [&str; 3] = ["text", "when", "keep"];
    let Some(fields) = written.and_then(|written| reader.entries(written, at)) else { return Vec::new() };
    let mut found = Vec::new();
    for (key, written) in fields {
        let at = format!("{at}.{key}");
        let (mut text, mut when, mut keep) = (written, None, false);
        if let Value::Object(fields) = written
            && !fields.contains_key("choose")
        {
            for word in fields.keys().filter(|word| !FIELDS.contains(&word.as_str())) {
                reader.unknown(&at, word, FIELDS.into_iter());
            }
            text = fields.get("text").unwrap_or(&Value::Null);
            when = fields.get("when").map(|when| When::read(when, &format!("{at}.when"), reader));
            match fields.get("keep") {
                None => {}
                Some(Value::Bool(is)) => keep = *is,
                Some(_) => reader.problem(&format!("{at}.keep"), None, "is neither true nor false"),
            }
        }
        let text = reader.node(text, Form::Text, &at);
        found.extend(text.map(|text| Entry { key: key.clone(), text, when, keep }));
    }
    found
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, Map<String, Value>)>) -> Map<String, Value> {
    fields.map(|(field, value)| (field.to_owned(), Value::Object(value))).collect()
}

/// Labels or annotations of the patch.
fn written(entries: &[Entry], at: &str, scene: &Scene<'_>, reader: &mut Reader) -> Map<String, Value> {
    let own = scene.sight.pod.get("metadata").and_then(|metadata| metadata.get(at));
    let mut found = Map::new();
    for entry in entries {
        let kept = entry.keep && own.is_some_and(|own| own.get(&entry.key).is_some());
        if kept || entry.when.as_ref().is_some_and(|when| !when.holds(scene)) {
            continue;
        }
        let value = entry.text.write(scene, &format_args!("{at}.{}", entry.key), reader);
        found.extend(value.map(|value| (entry.key.clone(), value)));
    }
    found
}

#[cfg(test)]
mod tests;
