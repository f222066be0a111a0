//! A manifest's pods, each injected by itself, and the text with all of them.

use super::edit::edit;
use super::subject::AdmissionSubject;
use crate::admission::Namespaces;
use crate::configuration::Configuration;
use crate::decision::{DecisionReason, InjectionPolicy};
use crate::pipeline::InjectionOutcome;
use mesh::data::Tree;
use mesh::data::document::field;
use mesh::pod::{KubernetesObject, kinds};
use mesh::settings::nearest_value;
use mesh::{InputProblem, Problems, visible};
use serde_json::Value;
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub namespaces: Namespaces,
    /// Variables that a webhook's path would set.
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
    /// Further notes; one may be the cause.
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

/// Injects the pods of a manifest whatever the policy; a document that is not injected keeps its text. `name` is that of the file.
/// Refused with every problem of every object.
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
        // An object that holds pods, but is of no kind that is known.
        let unknown = object.unknown_holder().map(|what| {
            let near = suggested_kind(object.kind()).map(|kind| format!("; did you mean {kind}?"));
            let near = near.unwrap_or_default();
            format!("{what} holds a pod template, but its kind is unknown; not changed{near}")
        });
        self.warn(&at, &unknown);
        let Some(subject) = AdmissionSubject::of(object, self.around) else { return };
        let name = subject.name("(no name)");
        let at = format!("{}: document {}, {} {name}", self.file, object.document, object.kind());
        let form = subject.described.problems.iter().cloned();
        self.problems.extend(form.map(|one| InputProblem { name: format!("{at}: {}", one.name), ..one }));
        // A patch of another manifest need not have containers.
        if let Some(text) = without_containers(&subject.pod) {
            return self.warn(&at, [&format!("{text}; not changed")]);
        }
        match subject.inject(self.configuration) {
            Err(problems) => {
                // An author who misspells one name may misspell another.
                self.warn(&at, &mesh::pod::unknown_among(subject.described.pod.annotations.keys()));
                let pod = object.places(subject.path);
                self.problems.extend(problems.into_iter().map(|problem| located(problem, pod, &at)));
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

fn located(problem: InputProblem, pod: Option<&Tree>, at: &str) -> InputProblem {
    let line = pod.and_then(|pod| line(pod, &problem.name));
    let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
    InputProblem { name: format!("{at}{line}: {}", problem.name), ..problem }
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
    // A known kind belongs to another group.
    if known.contains(&kind) { None } else { nearest_value(kind, &known) }
}

fn without_containers(pod: &Value) -> Option<String> {
    let Value::Object(spec) = pod.get("spec")? else { return None };
    let written = spec.get("containers");
    let text = match written {
        Some(Value::Array(items)) if items.is_empty() => "spec.containers is empty",
        None | Some(Value::Null) => "spec.containers is missing",
        // What has another form is a problem already.
        Some(_) => return None,
    };
    let is_near = |key: &&String| *key != "containers" && nearest_value(key, &["containers"]).is_some();
    let near = spec.keys().find(is_near);
    let near = near.map(|key| format!("; did you mean {key}?")).unwrap_or_default();
    Some(format!("{text}, and the API server refuses a pod without containers{near}"))
}

/// The line that a problem's name leads to; `None` if it leads nowhere.
fn line(pod: &Tree, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let of = |field| pod.at(&["metadata", field]).into_iter().flat_map(Tree::fields);
    let named = ["annotations", "labels"].into_iter().flat_map(of).filter(|(key, _)| {
        // Without a slash a name may be any word.
        key.contains('/') && name.split(|c| !is_part(c)).any(|word| word == key)
    });
    // Of several annotations or labels that it speaks of, the longest.
    let named = named.max_by_key(|(key, _)| key.len()).map(|(_, tree)| tree.as_ref());
    let tree = named.or_else(|| field(pod, name.rsplit(": ").next()?))?;
    tree.place.map(|place| place.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata:
    labels:
      a/b: x
      app.of: x
      app: web
    annotations:
      é/b.c: 'y
        z'
      short: w
  spec:
    containers:
    - name: a
    - name: b
      envFrom: []
      env:
      - name: x
- kind: Other
";

    #[test]
    fn a_problem_stands_where_as_much_of_its_path_as_there_is_leads() {
        let objects = KubernetesObject::all("file", LIST).expect("YAML");
        for (pod, name, expected) in [
            (0, "annotation a/b", Some(7)),
            (0, "file: document 1: a/b and é/b.c: says \"x\"", Some(11)),
            (0, "annotation x.a/bc", None),
            (0, "annotation x.a/b", None),
            (0, "annotation a/b-c", None),
            (0, "annotation x.a/b, beside a/b", Some(7)),
            (0, "what is short", None),
            (0, "metadata.annotations.short", Some(13)),
            (0, "pod: kind", Some(4)),
            (0, "pod: metadata.labels.app", Some(9)),
            (0, "pod: metadata.labels.app.of", Some(8)),
            (0, "pod: spec.containers[0]", Some(16)),
            (0, "pod: spec.containers[1].env[0].name", Some(20)),
            (0, "pod: spec.containers[1].env[0].value", Some(20)),
            (0, "pod: spec.containers[1].envFrom[0].name", Some(18)),
            (0, "pod: spec.containers[1].environment", Some(17)),
            (0, "pod: spec.containers[2]", Some(16)),
            (0, "pod: spec.containers[x]", Some(16)),
            (0, "pod: spec: containers", None),
            (1, "pod: kind", Some(21)),
            (1, "annotation a/b", None),
        ] {
            let found = objects[pod].places(&[]).and_then(|pod| line(pod, name));
            assert_eq!(found, expected, "{pod} {name}");
        }
    }
}
