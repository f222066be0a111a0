//! Injects a manifest's pods and edits the manifest.

use super::edit::edit;
use crate::admission::{AdmissionContext, Namespaces, Workload};
use crate::configuration::Configuration;
use crate::decision::{DecisionReason, InjectionPolicy};
use crate::pipeline::{InjectionOutcome, inject};
use mesh::pod::{FieldPath, KubernetesObject, ManifestObject, kinds};
use mesh::{InputProblem, Problems, data::document::at, settings::nearest_value, visible};
use serde_json::Value;
use std::{borrow::Cow, fmt};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub namespaces: Namespaces,
    pub variables: Vec<(String, String)>,
    pub native_sidecars: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub text: String,
    pub injected: usize,
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedManifest {
    pub problems: Problems,
    /// Other notes; one may explain the problems.
    pub notes: Vec<Note>,
}

impl From<Problems> for RefusedManifest {
    fn from(problems: Problems) -> Self {
        Self { problems, notes: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Skipped(String),
    Warning(String),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Skipped(text) | Self::Warning(text)) = self;
        f.write_str(text)
    }
}

/// Injects the pods of the file `name` under any policy; documents without an injection keep their bytes. Returns every problem.
pub fn manifest(
    name: &str,
    text: &str,
    around: &Surroundings,
    configuration: &Configuration,
) -> Result<Manifest, RefusedManifest> {
    let mut configuration = configuration.clone();
    configuration.rules.policy = Some(InjectionPolicy::Enabled);
    let objects = KubernetesObject::all(name, text)?;
    let mut values = mesh::pod::values(name, text)?;
    let mut work = ManifestInjection {
        file: name,
        around,
        configuration: &configuration,
        injected: 0,
        notes: Vec::new(),
        problems: Vec::new(),
    };
    for object in &objects {
        work.object(object, &mut values[object.document - 1]);
    }
    if values.iter().all(Value::is_null) {
        work.warn(name, [&"holds no object; nothing is injected".to_owned()]);
    }
    let ManifestInjection { injected, mut notes, problems, .. } = work;
    if let Err(problems) = Problems::check(problems) {
        return Err(RefusedManifest { problems, notes });
    }
    let edited = edit(name, text, &values)?;
    let lost = "could not be edited in place and was rewritten without its comments";
    let at = |number: &usize| format!("{name}: document {}", number + 1);
    notes.extend(edited.rewritten.iter().map(|number| warning(&at(number), lost)));
    Ok(Manifest { text: edited.text, injected, notes })
}

struct ManifestInjection<'a> {
    file: &'a str,
    around: &'a Surroundings,
    configuration: &'a Configuration,
    injected: usize,
    notes: Vec<Note>,
    problems: Vec<InputProblem>,
}

impl ManifestInjection<'_> {
    fn object(&mut self, object: &KubernetesObject, document: &mut Value) {
        let at = format!("{}: document {}", self.file, object.document);
        if object.pointer.is_empty() {
            self.warn(&at, no_object(&object.value).as_ref());
        }
        let unknown = object.unknown_holder().map(|what| {
            let near = suggested_kind(object.kind()).map(|kind| format!("; did you mean {kind}?"));
            let near = near.unwrap_or_default();
            format!("{what} holds a pod template, but its kind is unknown; not changed{near}")
        });
        self.warn(&at, &unknown);
        let Some(subject) = AdmissionSubject::of(object, self.around) else { return };
        let name = subject.name("(no name)");
        let mut origin = subject.described.origin.clone();
        origin.title = format!("{} {name}", object.kind());
        let located = |one: InputProblem| InputProblem { name: origin.named(&one.name), ..one };
        self.problems.extend(subject.described.problems.iter().cloned().map(located));
        let at = format!("{}{}", origin.start(""), origin.title);
        // A patch of another manifest need not have containers.
        if let Some(text) = without_containers(&subject.pod) {
            return self.warn(&at, [&format!("{text}; not changed")]);
        }
        match subject.inject(self.configuration) {
            Err(problems) => {
                // One misspelt name suggests others.
                self.warn(&at, &mesh::pod::unknown_among(subject.described.pod.annotations.keys()));
                self.problems.extend(problems.into_iter().map(located));
            }
            Ok(InjectionOutcome::Skipped(decision)) => {
                self.warn(&at, &decision.warning());
                let why = match decision.reason {
                    DecisionReason::HostNetwork => "has host networking enabled".to_owned(),
                    DecisionReason::Label | DecisionReason::Annotation => {
                        "has sidecar injection disabled".to_owned()
                    }
                    reason => format!("is not changed: {reason}"),
                };
                let (kind, name) = (visible(object.kind()), visible(&name));
                let text = format!("===> Skipping injection because {kind} \"{name}\" {why}");
                self.notes.push(Note::Skipped(text));
            }
            Ok(InjectionOutcome::Injected(injected)) => {
                self.injected += 1;
                self.warn(&at, &injected.warnings);
                subject.put(document.pointer_mut(&object.pointer), injected.pod);
            }
        }
    }

    fn warn<'b>(&mut self, at: &str, warnings: impl IntoIterator<Item = &'b String>) {
        self.notes.extend(warnings.into_iter().map(|text| warning(at, text)));
    }
}

fn warning(at: &str, text: &str) -> Note {
    Note::Warning(format!("{}: {}", visible(at), visible(text)))
}

fn no_object(document: &Value) -> Option<String> {
    let is_absent = |key: &&str| !document.get(key).is_some_and(Value::is_string);
    let absent: Vec<&str> = ["apiVersion", "kind"].into_iter().filter(is_absent).collect();
    let is_one = document.is_null() || absent.is_empty();
    let text = || format!("is not a Kubernetes object: it has no {}; not changed", absent.join(" and "));
    (!is_one).then(text)
}

fn suggested_kind(kind: &str) -> Option<&'static str> {
    let known: Vec<&'static str> = kinds().collect();
    // A known kind here belongs to another group.
    if known.contains(&kind) { None } else { nearest_value(kind, &known) }
}

fn without_containers(pod: &Value) -> Option<String> {
    let Value::Object(spec) = pod.get("spec")? else { return None };
    let written = spec.get("containers");
    let text = match written {
        Some(Value::Array(items)) if items.is_empty() => "spec.containers is empty",
        None | Some(Value::Null) => "spec.containers is missing",
        // Other types are already a problem.
        Some(_) => return None,
    };
    let is_near = |key: &&String| *key != "containers" && nearest_value(key, &["containers"]).is_some();
    let near = spec.keys().find(is_near);
    let near = near.map(|key| format!("; did you mean {key}?")).unwrap_or_default();
    Some(format!("{text}, and the API server refuses a pod without containers{near}"))
}

/// A manifest's pod as the webhook would receive it.
pub(crate) struct AdmissionSubject<'a> {
    pub(crate) object: &'a KubernetesObject,
    pub(crate) path: FieldPath,
    pub(crate) described: ManifestObject,
    /// Values that are not strings, each already a problem, are converted to strings, so that further problems are found.
    pub(crate) pod: Cow<'a, Value>,
    pub(crate) admission: AdmissionContext,
}

impl<'a> AdmissionSubject<'a> {
    /// `None` for an object without pods, or of an unknown kind.
    pub(crate) fn of(object: &'a KubernetesObject, around: &Surroundings) -> Option<Self> {
        let (path, described) = (object.template()?, object.pod()?);
        let written = at(&object.value, path)?;
        let pod = match described.problems.is_empty() {
            true => Cow::Borrowed(written),
            false => Cow::Owned(as_texts(written)),
        };
        let namespace = around.namespaces.of(object.meta("namespace"));
        let admission = AdmissionContext {
            workload: workload(object, &namespace.name),
            namespace,
            is_namespace_assumed: object.meta("namespace").is_empty(),
            variables: around.variables.clone(),
            native_sidecars: around.native_sidecars,
            ..AdmissionContext::default()
        };
        Some(Self { object, path, described, pod, admission })
    }

    pub(crate) fn name(&self, unnamed: &str) -> String {
        let name = self.object.called().unwrap_or_else(|| unnamed.to_owned());
        format!("{}/{name}", self.admission.namespace.name)
    }

    /// Injects the pod. Problems of malformed fields are omitted: `described` already has them.
    pub(crate) fn inject(
        &self,
        configuration: &Configuration,
    ) -> Result<InjectionOutcome, Vec<InputProblem>> {
        inject(&self.pod, &self.admission, configuration).map_err(|Problems(mut found)| {
            found.retain(|problem| !is_reported(problem, &self.described.problems));
            found
        })
    }

    pub(crate) fn put(&self, object: Option<&mut Value>, pod: Value) {
        if let Some(place) = self.path.iter().fold(object, |place, key| place?.get_mut(key)) {
            *place = pod;
        }
    }
}

/// A pod with labels and annotations as strings; a null becomes empty, as for the API server.
fn as_texts(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for pointer in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(Value::Object(fields)) = pod.pointer_mut(pointer) {
            fields.retain(|_, value| !value.is_object() && !value.is_array());
            for value in fields.values_mut().filter(|value| !value.is_string()) {
                *value = if value.is_null() { "".into() } else { value.to_string().into() };
            }
        }
    }
    pod
}

fn is_reported(problem: &InputProblem, others: &[InputProblem]) -> bool {
    let field = |problem: &InputProblem| problem.name.rsplit(": ").next().map(str::to_owned);
    others.iter().any(|other| field(other) == field(problem))
}

/// `None` for a bare pod.
fn workload(object: &KubernetesObject, namespace: &str) -> Option<Workload> {
    let name = match object.meta("name") {
        "" => object.meta("generateName").trim_end_matches('-'),
        name => name,
    };
    (object.kind() != "Pod").then(|| Workload {
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_strings_or_are_left_out() {
        let metadata = |labels: Value| json!({"metadata": {"labels": labels, "annotations": labels, "name": 1}, "spec": 2});
        let written = metadata(
            json!({"bool": true, "number": 1.5, "text": "true", "null": null, "list": [1], "map": {"a": "b"}}),
        );
        let expected = metadata(json!({"bool": "true", "number": "1.5", "text": "true", "null": ""}));
        assert_eq!(as_texts(&written), expected);
        assert_eq!(as_texts(&json!({"metadata": {"labels": [1]}})), json!({"metadata": {"labels": [1]}}));
    }

    #[test]
    fn a_field_has_one_problem() {
        let problem = |name: &str| InputProblem::of(name, "is wrong");
        let others = ["file: document 1: metadata.labels.a", "b"].map(problem);
        for (name, expected) in [
            ("metadata.labels.a", true),
            ("pod: metadata.labels.a", true),
            ("file: b", true),
            ("labels.a", false),
            ("file", false),
        ] {
            assert_eq!(is_reported(&problem(name), &others), expected, "{name}");
        }
    }
}
