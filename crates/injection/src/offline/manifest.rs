//! Injection of a manifest's pods, and the edited manifest.

use super::edit::edit;
use super::subject::AdmissionSubject;
use crate::admission::Namespaces;
use crate::configuration::Configuration;
use crate::decision::{DecisionReason, InjectionPolicy};
use crate::pipeline::InjectionOutcome;
use mesh::pod::{KubernetesObject, kinds};
use mesh::settings::nearest_value;
use mesh::{InputProblem, Problems, visible};
use serde_json::Value;
use std::fmt;

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
    /// Other notes, one of which may be the cause.
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
