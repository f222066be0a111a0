//! The one change of a pod that gives its proxy the tag.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The variable that the proxy's filter reads.
pub const VARIABLE: &str = "VIRTUAL_ENVIRONMENT_TAG";
/// The container that gets it.
const PROXY: &str = "istio-proxy";

/// A pod, as far as it matters here.
pub(super) struct Pod {
    /// Null stands for an empty value, as it does for Kubernetes.
    pub(super) labels: BTreeMap<String, Option<String>>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
}

#[derive(Deserialize)]
struct Variable {
    #[serde(default)]
    name: Option<String>,
    /// `None` where there is no such field; the inner one where it is null.
    #[serde(default, deserialize_with = "present")]
    value: Option<Option<String>>,
    #[serde(default, rename = "valueFrom")]
    value_from: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Pod {
    /// Reads the object of a review.
    ///
    /// # Errors
    /// Every field that has not the form of a pod's.
    pub(super) fn read(object: &Value) -> Result<Self, String> {
        if !object.is_object() {
            return Err("the request holds no pod: expected an object".to_owned());
        }
        let mut problems = Vec::new();
        let pod = Self {
            labels: part(object, "metadata.labels", &mut problems),
            containers: part(object, "spec.containers", &mut problems),
            init_containers: part(object, "spec.initContainers", &mut problems),
        };
        if problems.is_empty() {
            Ok(pod)
        } else {
            Err(format!("the pod can't be read: {}", problems.join("; ")))
        }
    }

    /// The proxy's container, the last one of its name, and where it stands.
    fn proxy(&self) -> Option<(String, &Container)> {
        let last = |field: &str, list: &'_ [Container]| {
            let at = list.iter().rposition(|container| container.name.as_deref() == Some(PROXY))?;
            Some((format!("/spec/{field}/{at}"), at))
        };
        if let Some((path, at)) = last("containers", &self.containers) {
            return Some((path, &self.containers[at]));
        }
        let (path, at) = last("initContainers", &self.init_containers)?;
        Some((path, &self.init_containers[at]))
    }
}

/// A field of an object, by its path with dots; empty where there is none.
fn part<T: DeserializeOwned + Default>(object: &Value, path: &str, problems: &mut Vec<String>) -> T {
    let mut value = object;
    let mut passed = String::new();
    for name in path.split('.') {
        match value {
            Value::Null => return T::default(),
            Value::Object(fields) => value = fields.get(name).unwrap_or(&Value::Null),
            _ => {
                let problem = format!("{passed}: expected an object");
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
                return T::default();
            }
        }
        let dot = if passed.is_empty() { "" } else { "." };
        passed = format!("{passed}{dot}{name}");
    }
    Option::<T>::deserialize(value).map(Option::unwrap_or_default).unwrap_or_else(|error| {
        problems.push(format!("{path}: {error}"));
        T::default()
    })
}

/// The operation (RFC 6902) that sets the variable.
///
/// # Errors
/// Why there is nothing to do.
pub(super) fn change(pod: &Pod, tag: &str) -> Result<Value, &'static str> {
    let (path, proxy) = pod.proxy().ok_or("it has no container istio-proxy")?;
    let entry = json!({"name": VARIABLE, "value": tag});
    let Some(variables) = &proxy.env else {
        return Ok(json!({"op": "add", "path": format!("{path}/env"), "value": [entry]}));
    };
    let is_ours = |variable: &Variable| variable.name.as_deref() == Some(VARIABLE);
    let Some(at) = variables.iter().rposition(is_ours) else {
        return Ok(json!({"op": "add", "path": format!("{path}/env/0"), "value": entry}));
    };
    match &variables[at] {
        Variable { value: Some(Some(value)), value_from: None, .. } if value == tag => {
            Err("its proxy has the tag already")
        }
        Variable { value: Some(_), value_from: None, .. } => {
            Ok(json!({"op": "replace", "path": format!("{path}/env/{at}/value"), "value": tag}))
        }
        // A value beside `valueFrom` would be refused; and what is empty has no field that could be replaced.
        Variable { .. } => Ok(json!({"op": "replace", "path": format!("{path}/env/{at}"), "value": entry})),
    }
}
