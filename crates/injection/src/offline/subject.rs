//! A manifest's pod in the form that the webhook would get.

use super::Surroundings;
use crate::admission::{AdmissionContext, Workload};
use crate::configuration::Configuration;
use crate::pipeline::{InjectionOutcome, inject};
use mesh::data::document::at;
use mesh::pod::{FieldPath, KubernetesObject, ManifestObject};
use mesh::{InputProblem, Problems};
use serde_json::Value;
use std::borrow::Cow;

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

    /// `NAMESPACE/NAME`.
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
