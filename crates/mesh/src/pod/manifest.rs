//! The pods of a manifest, read for their settings.

use super::facts::Pod;
use super::misplaced;
use super::node::ManifestNode;
use super::shape::ObjectReader;
use super::standard::{ENFORCE, Standard};
use super::walk::{FoundObject, MAX_OBJECTS, describes, template_of, walk};
use super::yaml::documents;
use crate::visible::visible;
use crate::{InputProblem, Problems};
use rules::finding::Finding;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An object that describes pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestObject {
    /// Its kind, namespace and name: `Deployment shop/web`.
    pub title: String,
    pub kind: String,
    /// The number of its document, from 1.
    pub document: usize,
    /// The pod that it is, or that is made from it.
    pub pod: Pod,
    /// What has not the form that Kubernetes wants.
    pub problems: Vec<InputProblem>,
    /// Remarks about keys in places where nothing reads them.
    pub remarks: Vec<Finding>,
    /// The Pod Security Standard that its namespace enforces, where the manifest holds that too.
    pub enforced: Option<Standard>,
}

impl ManifestObject {
    /// How problems name it.
    pub fn full_title(&self) -> String {
        format!("document {}, {}", self.document, self.title)
    }
}

/// The objects of a manifest that describe pods, in their order. `name` is that of the file, for problems.
///
/// # Errors
/// When the text is not YAML, or nothing in it describes a pod.
pub fn objects(name: &str, text: &str) -> Result<Vec<ManifestObject>, Problems> {
    let malformed = |malformed| InputProblem::of(name, format!("is not YAML or JSON: {malformed}"));
    let documents = documents(text).map_err(|error| Problems(vec![malformed(error)]))?;
    of_documents(name, &documents)
}

/// The same of an object that was read already.
///
/// # Errors
/// When nothing in it describes a pod.
pub fn objects_in(name: &str, object: &Value) -> Result<Vec<ManifestObject>, Problems> {
    let node = ManifestNode::deserialize(object)
        .map_err(|error| Problems(vec![InputProblem::of(name, error.to_string())]))?;
    of_documents(name, &[Rc::new(node)])
}

fn of_documents(name: &str, documents: &[Rc<ManifestNode>]) -> Result<Vec<ManifestObject>, Problems> {
    let problem = |text: String| Problems(vec![InputProblem::of(name, text)]);
    let mut found = Found::default();
    for (at, document) in documents.iter().enumerate() {
        found.document = at + 1;
        let mut count = found.count;
        walk(document, &mut count, &mut |met| found.take(&met));
        found.count = count;
    }
    if found.count > MAX_OBJECTS {
        return Err(problem(format!("holds more than {MAX_OBJECTS} objects; give fewer at once")));
    }
    Problems::check(found.problems)?;
    if found.objects.is_empty() {
        found.others.dedup();
        return Err(problem(match &found.others[..] {
            [] => "holds no object; expected a pod, or something that makes pods".to_owned(),
            others => format!("describes no pod, but only {}", others.join(", ")),
        }));
    }
    let Found { mut objects, standards, .. } = found;
    for object in &mut objects {
        object.enforced = standards.get(&object.pod.namespace).copied();
    }
    Ok(objects)
}

#[derive(Default)]
struct Found {
    document: usize,
    count: usize,
    objects: Vec<ManifestObject>,
    /// The titles of what describes no pod.
    others: Vec<String>,
    problems: Vec<InputProblem>,
    /// What namespaces enforce, by their names.
    standards: BTreeMap<String, Standard>,
}

impl Found {
    fn take(&mut self, met: &FoundObject<'_>) {
        match met.kind {
            Some(kind) => self.object(met.node, kind, met.version),
            None => {
                let place = met.node.place.map(|place| format!(", {place}")).unwrap_or_default();
                let text = "is not a Kubernetes object: it has no kind";
                self.problems.push(InputProblem::of(&format!("document {}{place}", self.document), text));
            }
        }
    }

    fn object(&mut self, node: &ManifestNode, kind: &str, version: Option<&str>) {
        let text = |path: &[&str]| node.at(path).and_then(ManifestNode::text);
        let namespace = text(&["metadata", "namespace"]).unwrap_or_default();
        let name = match (text(&["metadata", "name"]), text(&["metadata", "generateName"])) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => format!("{prefix}*"),
            (None, None) => String::new(),
        };
        // It precedes rules, as a comment that must end where it ends.
        let title = visible(&match (namespace, &*name) {
            ("", "") => format!("{kind} without a name"),
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        });
        // Objects without a namespace are not in one without a name.
        if kind == "Namespace" && version == Some("v1") && !name.is_empty() {
            let enforced = Standard::enforced(text(&["metadata", "labels", ENFORCE]));
            self.standards.extend(enforced.map(|standard| (name.clone(), standard)));
        }
        let Some((path, template)) = describes(node, kind, version) else {
            self.others.push(title);
            return;
        };
        let full = format!("document {}, {title}", self.document);
        let mut shape = ObjectReader::new(&full);
        let pod = shape.pod(template, &name, namespace);
        let problems = Problems::first(shape.problems);
        let mut remarks = misplaced::metadata(node, path);
        if version.is_some_and(|version| template_of(kind, version).is_some()) {
            remarks.extend(misplaced::fields(template, path));
        }
        let (kind, document) = (kind.to_owned(), self.document);
        self.objects.push(ManifestObject { title, kind, document, pod, problems, remarks, enforced: None });
    }
}
