//! A manifest's pods, each injected by itself, and the text with all of them.

use super::edit::edit;
use crate::admission::{AdmissionContext, Namespaces, Workload, texts};
use crate::configuration::Configuration;
use crate::decision::{Decision, DecisionReason, InjectionPolicy};
use crate::pipeline::{InjectionOutcome, inject};
use mesh::data::Tree;
use mesh::pod::{Document, ManifestObject, kinds};
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
    Skipped {
        kind: String,
        name: String,
        decision: Decision,
    },
    /// An object that holds pods, but is of no kind that is known.
    Unknown {
        at: String,
        what: String,
        suggestion: Option<&'static str>,
    },
    Warning {
        at: String,
        text: String,
    },
    /// A document that could not be edited and was written again, without the comments within it.
    Rewritten {
        at: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped { kind, name, decision } => {
                write!(f, "===> Skipping injection because {} \"{}\" ", visible(kind), visible(name))?;
                match decision.reason {
                    DecisionReason::HostNetwork => f.write_str("has host networking enabled"),
                    DecisionReason::Label | DecisionReason::Annotation => {
                        f.write_str("has sidecar injection disabled")
                    }
                    DecisionReason::SystemNamespace => f.write_str("is in a namespace of the cluster's own"),
                    DecisionReason::NeverSelected => f.write_str("matches a neverInjectSelector"),
                    DecisionReason::OtherSystem
                    | DecisionReason::NoPolicy
                    | DecisionReason::AlwaysSelected
                    | DecisionReason::ByPolicy => {
                        write!(f, "is not changed: {}", decision.reason)
                    }
                }
            }
            Self::Unknown { at, what, suggestion } => {
                let (at, what) = (visible(at), visible(what));
                write!(
                    f,
                    "{at}: {what} holds a pod's template, but is of no kind that is known; left as it is"
                )?;
                suggestion.map_or(Ok(()), |kind| write!(f, "; did you mean {kind}?"))
            }
            Self::Warning { at, text } => write!(f, "{}: {}", visible(at), visible(text)),
            Self::Rewritten { at } => {
                let at = visible(at);
                write!(
                    f,
                    "{at}: could not be edited in place and was written again; the comments within it are lost"
                )
            }
        }
    }
}

/// Injects the pods of a manifest whatever the policy; a document that is not injected keeps its text. `name` is that of the file.
///
/// # Errors
/// Every problem of every object.
pub fn manifest(
    name: &str,
    text: &str,
    around: &Surroundings,
    configuration: &Configuration,
) -> Result<Manifest, RefusedManifest> {
    let mut configuration = configuration.clone();
    configuration.rules.policy = Some(InjectionPolicy::Enabled);
    let documents = mesh::pod::holders(name, text)?;
    let mut work = ManifestInjection {
        file: name,
        around,
        configuration: &configuration,
        injected: 0,
        notes: Vec::new(),
        problems: Vec::new(),
    };
    let values: Vec<Value> =
        documents.iter().enumerate().map(|(at, document)| work.document(at, document)).collect();
    let ManifestInjection { injected, mut notes, problems, .. } = work;
    if documents.iter().all(|document| document.value.is_null()) {
        notes.push(Note::Warning {
            at: name.to_owned(),
            text: "holds no object; nothing is injected".to_owned(),
        });
    }
    if let Err(problems) = Problems::check(problems) {
        return Err(RefusedManifest { problems, notes });
    }
    let edited = edit(name, text, &values)?;
    let at = |number: &usize| format!("{name}: document {}", number + 1);
    notes.extend(edited.rewritten.iter().map(|number| Note::Rewritten { at: at(number) }));
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
    fn document(&mut self, number: usize, document: &Document) -> Value {
        let mut value = document.value.clone();
        let at = format!("{}: document {}", self.file, number + 1);
        self.warn(&at, no_object(&value).as_ref());
        for what in &document.strangers {
            let suggestion = suggested_kind(what);
            self.notes.push(Note::Unknown { at: at.clone(), what: what.clone(), suggestion });
        }
        for holder in &document.holders {
            let namespace = self.around.namespaces.of(&holder.namespace);
            let full = format!("{}/{}", namespace.name, holder.called("(no name)"));
            let at = format!("{}: document {}, {} {full}", self.file, number + 1, holder.kind);
            let pod = document.value.pointer(&holder.template).unwrap_or(&Value::Null);
            let admission = AdmissionContext {
                workload: workload(holder, &namespace.name),
                namespace,
                variables: self.around.variables.clone(),
                native_sidecars: self.around.native_sidecars,
                ..AdmissionContext::default()
            };
            let wrong_forms = holder.problems.iter().map(|problem| in_file(self.file, problem));
            self.problems.extend(wrong_forms);
            // A patch of another manifest need not have containers.
            if let Some(text) = without_containers(pod) {
                self.warn(&at, [&format!("{text}; left as it is")]);
                continue;
            }
            // A value that is not a string is a problem already. As a string it lets others come to light.
            let as_texts = (!holder.problems.is_empty()).then(|| as_texts(pod));
            match inject(as_texts.as_ref().unwrap_or(pod), &admission, self.configuration) {
                Err(problems) => {
                    // An author who misspells one name may misspell another.
                    self.warn(&at, &mesh::pod::unknown_among(texts(pod, "annotations").keys()));
                    let new =
                        problems.0.into_iter().filter(|problem| !is_reported(problem, &holder.problems));
                    let pod = tree_at(&document.tree, &holder.template);
                    self.problems.extend(new.map(|problem| located(problem, pod, &at)));
                }
                Ok(InjectionOutcome::Skipped(decision)) => {
                    self.warn(&at, &decision.warning());
                    self.notes.push(Note::Skipped { kind: holder.kind.clone(), name: full, decision });
                }
                Ok(InjectionOutcome::Injected(injected)) => {
                    self.injected += 1;
                    self.warn(&at, &injected.warnings);
                    if let Some(place) = value.pointer_mut(&holder.template) {
                        *place = injected.pod;
                    }
                }
            }
        }
        value
    }

    fn warn<'b>(&mut self, at: &str, warnings: impl IntoIterator<Item = &'b String>) {
        let notes = warnings.into_iter().map(|text| Note::Warning { at: at.to_owned(), text: text.clone() });
        self.notes.extend(notes);
    }
}

fn located(problem: InputProblem, pod: Option<&Tree>, at: &str) -> InputProblem {
    let line = pod.and_then(|pod| line(pod, &problem.name));
    let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
    InputProblem { name: format!("{at}{line}: {}", problem.name), ..problem }
}

/// A pod whose labels and annotations are texts; a null is the empty one, as it is for the API server.
pub(crate) fn as_texts(pod: &Value) -> Value {
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

fn in_file(file: &str, problem: &InputProblem) -> InputProblem {
    InputProblem { name: format!("{file}: {}", problem.name), ..problem.clone() }
}

/// True where the same field has a problem already.
pub(crate) fn is_reported(problem: &InputProblem, others: &[InputProblem]) -> bool {
    let field = |problem: &InputProblem| problem.name.rsplit(": ").next().map(str::to_owned);
    others.iter().any(|other| field(other) == field(problem))
}

/// `None` of a bare pod.
pub(crate) fn workload(holder: &ManifestObject, namespace: &str) -> Option<Workload> {
    let name = match holder.name.as_str() {
        "" => holder.generate_name.trim_end_matches('-'),
        name => name,
    };
    (holder.template != holder.object).then(|| Workload {
        api_version: holder.api_version.clone(),
        kind: holder.kind.clone(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    })
}

fn no_object(document: &Value) -> Option<String> {
    let is_text = |key: &str| document.get(key).is_some_and(Value::is_string);
    let lacks = match (document, is_text("apiVersion"), is_text("kind")) {
        (Value::Null, ..) | (_, true, true) => return None,
        (Value::Object(_), false, false) => "without apiVersion and kind",
        (Value::Object(_), false, true) => "without apiVersion",
        (Value::Object(_), true, false) => "without kind",
        _ => "and no mapping",
    };
    Some(format!("is not a Kubernetes object, {lacks}; left as it is"))
}

/// `what` begins with the kind.
fn suggested_kind(what: &str) -> Option<&'static str> {
    let kind = what.split(' ').next().unwrap_or_default();
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
    let near = near.map(|key| format!("; did you mean it by {key}?")).unwrap_or_default();
    Some(format!("{text}, and the API server refuses a pod without containers{near}"))
}

fn tree_at<'a>(document: &'a Tree, pointer: &str) -> Option<&'a Tree> {
    pointer.split('/').skip(1).try_fold(document, |tree, step| match tree.items() {
        [] => tree.get(step),
        items => items.get(step.parse::<usize>().ok()?).map(AsRef::as_ref),
    })
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

/// A field by a path such as `spec.containers[0].env`, as far as it leads.
fn field<'a>(mut tree: &'a Tree, mut path: &str) -> Option<&'a Tree> {
    let mut found = None;
    loop {
        let of_key = tree.fields().iter().filter_map(|(key, inner)| {
            let rest = path.strip_prefix(key.as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((inner, rest))
        });
        let of_place = || {
            let (number, rest) = path.strip_prefix('[')?.split_once(']')?;
            Some((tree.items().get(number.parse::<usize>().ok()?)?, rest))
        };
        let step = of_key.min_by_key(|(_, rest)| rest.len()).or_else(of_place);
        let Some((inner, rest)) = step else { return found };
        (found, tree, path) = (Some(inner.as_ref()), inner, rest.strip_prefix('.').unwrap_or(rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::pod::holders;
    use serde_json::json;

    #[test]
    fn what_is_no_text_is_read_as_one_or_left_out() {
        let metadata = |labels: Value| json!({"metadata": {"labels": labels, "annotations": labels, "name": 1}, "spec": 2});
        let written = metadata(
            json!({"bool": true, "number": 1.5, "text": "true", "null": null, "list": [1], "map": {"a": "b"}}),
        );
        let expected = metadata(json!({"bool": "true", "number": "1.5", "text": "true", "null": ""}));
        assert_eq!(as_texts(&written), expected);
        assert_eq!(as_texts(&json!({"metadata": {"labels": [1]}})), json!({"metadata": {"labels": [1]}}));
    }

    #[test]
    fn a_field_has_one_problem_wherever_it_is_named() {
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
        let document = holders("file", LIST).expect("YAML").remove(0);
        for (pod, name, expected) in [
            ("/items/0", "annotation a/b", Some(7)),
            ("/items/0", "file: document 1: a/b and é/b.c: says \"x\"", Some(11)),
            ("/items/0", "annotation x.a/bc", None),
            ("/items/0", "annotation x.a/b", None),
            ("/items/0", "annotation a/b-c", None),
            ("/items/0", "annotation x.a/b, beside a/b", Some(7)),
            ("/items/0", "what is short", None),
            ("/items/0", "metadata.annotations.short", Some(13)),
            ("/items/0", "pod: kind", Some(4)),
            ("/items/0", "pod: metadata.labels.app", Some(9)),
            ("/items/0", "pod: metadata.labels.app.of", Some(8)),
            ("/items/0", "pod: spec.containers[0]", Some(16)),
            ("/items/0", "pod: spec.containers[1].env[0].name", Some(20)),
            ("/items/0", "pod: spec.containers[1].env[0].value", Some(20)),
            ("/items/0", "pod: spec.containers[1].envFrom[0].name", Some(18)),
            ("/items/0", "pod: spec.containers[1].environment", Some(17)),
            ("/items/0", "pod: spec.containers[2]", Some(16)),
            ("/items/0", "pod: spec.containers[x]", Some(16)),
            ("/items/0", "pod: spec: containers", None),
            ("/items/1", "pod: kind", Some(21)),
            ("/items/1", "annotation a/b", None),
            ("/items/2", "pod: kind", None),
            ("/items/x", "pod: kind", None),
            ("", "pod: items[0].spec", Some(15)),
            ("/nothing", "pod: kind", None),
        ] {
            let found = tree_at(&document.tree, pod).and_then(|pod| line(pod, name));
            assert_eq!(found, expected, "{pod} {name}");
        }
    }
}
