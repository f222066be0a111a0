//! The pods of a manifest: its documents, their kinds, and where each kind holds the template of its pods.

use super::facts::Pod;
use super::node::{Node, Value};
use super::shape::Shape;
use super::yaml::documents;
use crate::{Problem, Problems};
use std::rc::Rc;

/// Kinds of Kubernetes, and where in them a pod is described.
const KINDS: &[(&str, &[&str])] = &[
    ("Pod", &[]),
    ("PodTemplate", &["template"]),
    ("Deployment", TEMPLATE),
    ("StatefulSet", TEMPLATE),
    ("DaemonSet", TEMPLATE),
    ("ReplicaSet", TEMPLATE),
    ("ReplicationController", TEMPLATE),
    ("Job", TEMPLATE),
    ("CronJob", &["spec", "jobTemplate", "spec", "template"]),
];

/// Where most kinds have it, those of others too.
const TEMPLATE: &[&str] = &["spec", "template"];

/// The groups whose kinds are those of [`KINDS`]; others use the same names for something else.
const GROUPS: &[&str] = &["v1", "apps/", "batch/", "extensions/"];

/// The most objects of a manifest: a list may hold aliases.
const MOST_OBJECTS: usize = 10_000;

/// An object that describes pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its kind, namespace and name: `Deployment shop/web`.
    pub title: String,
    /// The number of its document, from 1.
    pub document: usize,
    /// The pod that it is, or that is made from it.
    pub pod: Pod,
    /// What has not the form that Kubernetes wants.
    pub problems: Vec<Problem>,
}

impl Object {
    /// How problems name it.
    pub fn full_title(&self) -> String {
        format!("document {}, {}", self.document, self.title)
    }
}

/// The objects of a manifest that describe pods, in their order. `name` is that of the file, for problems.
///
/// # Errors
/// When the text is no YAML, or nothing in it describes a pod.
pub fn objects(name: &str, text: &str) -> Result<Vec<Object>, Problems> {
    let problem = |text: String| Problems(vec![Problem::of(name, text)]);
    let documents =
        documents(text).map_err(|malformed| problem(format!("is no YAML or JSON: {malformed}")))?;
    let mut found = Found::default();
    for (at, document) in documents.iter().enumerate() {
        found.document = at + 1;
        found.take(document, None, 0);
    }
    if found.count > MOST_OBJECTS {
        return Err(problem(format!("holds more than {MOST_OBJECTS} objects; give fewer at once")));
    }
    if !found.problems.is_empty() {
        return Err(Problems(found.problems));
    }
    if found.objects.is_empty() {
        found.others.dedup();
        return Err(problem(match &found.others[..] {
            [] => "holds no object; expected a pod, or something that makes pods".to_owned(),
            others => format!("describes no pod, but only {}", others.join(", ")),
        }));
    }
    Ok(found.objects)
}

#[derive(Default)]
struct Found {
    document: usize,
    count: usize,
    objects: Vec<Object>,
    /// The titles of what describes no pod.
    others: Vec<String>,
    problems: Vec<Problem>,
}

impl Found {
    /// `kind` is what the list says that its items are.
    fn take(&mut self, node: &Rc<Node>, kind: Option<&str>, depth: usize) {
        /// Lists in lists make no sense, but are read.
        const DEEPEST: usize = 8;
        if node.is_null() || self.count > MOST_OBJECTS {
            return;
        }
        self.count += 1;
        let said = node.get("kind").and_then(|kind| kind.text());
        let Some(kind) = said.or(kind).filter(|_| matches!(node.value, Value::Map(_))) else {
            let place = node.place.map(|place| format!(", {place}")).unwrap_or_default();
            let text = "is no object of Kubernetes: it has no kind";
            self.problems.push(Problem::of(&format!("document {}{place}", self.document), text));
            return;
        };
        if let Some(Value::List(items)) = node.get("items").map(|items| &items.value)
            && let Some(of) = kind.strip_suffix("List")
            && depth < DEEPEST
        {
            let of = (!of.is_empty()).then_some(of);
            items.iter().for_each(|item| self.take(item, of, depth + 1));
            return;
        }
        self.object(node, kind);
    }

    fn object(&mut self, node: &Node, kind: &str) {
        let text = |path: &[&str]| node.at(path).and_then(Node::text);
        let namespace = text(&["metadata", "namespace"]).unwrap_or_default();
        let name = match (text(&["metadata", "name"]), text(&["metadata", "generateName"])) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => format!("{prefix}*"),
            (None, None) => String::new(),
        };
        let title = printable(&match (namespace, &*name) {
            ("", "") => format!("{kind} without a name"),
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        });
        let Some(template) = template(node, kind) else {
            self.others.push(title);
            return;
        };
        let full = format!("document {}, {title}", self.document);
        let mut shape = Shape::new(&full);
        let pod = shape.pod(template, &name, namespace);
        let problems = shape.problems;
        self.objects.push(Object { title, document: self.document, pod, problems });
    }
}

/// A title stands before rules, as a comment that must end where it ends.
fn printable(title: &str) -> String {
    title.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Where an object describes a pod; `None` if it does not.
fn template<'a>(object: &'a Node, kind: &str) -> Option<&'a Node> {
    let version = object.get("apiVersion").and_then(|version| version.text()).unwrap_or("v1");
    let is_kubernetes =
        GROUPS.iter().any(|group| version == *group || (group.ends_with('/') && version.starts_with(group)));
    let known = KINDS.iter().find(|(known, _)| *known == kind && is_kubernetes);
    match known {
        Some((_, [])) => Some(object),
        Some((_, path)) => object.at(path),
        // Rollouts, services of Knative, and what else takes a pod's template where Deployments do.
        None => object.at(TEMPLATE).filter(|template| template.at(&["spec", "containers"]).is_some()),
    }
}
