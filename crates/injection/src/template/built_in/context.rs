//! Shared parts of the built-in templates: the init container, the placement of the proxy, annotations for a plugin, and access
//! to a pod's metadata and to the values.

use crate::sidecar::{Identity, InitMode, Mode};
use crate::template::context::{TemplateContext, with_network};
use crate::{configuration::selector::is_empty, pipeline::pod::PodSpecItem};
use mesh::InputProblem;
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(super) struct TemplateParts {
    pub(super) labels: Map<String, Value>,
    pub(super) annotations: Map<String, Value>,
    /// The fields of the proxy's container; null for unset ones.
    pub(super) proxy: Value,
    pub(super) volumes: Vec<Value>,
}

pub(super) struct RenderContext<'a> {
    /// Name of the template; `container` names its proxy's container.
    pub(super) template: &'static str,
    pub(super) container: &'static str,
    pub(super) input: &'a TemplateContext<'a>,
    pub(super) problems: Vec<InputProblem>,
}

impl<'a> RenderContext<'a> {
    /// The patch, without empty lists and mappings.
    pub(super) fn patch(&self, parts: TemplateParts) -> Value {
        const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
        let TemplateParts { labels, mut annotations, mut proxy, volumes } = parts;
        let (sidecar, values) = (self.input.sidecar, self.input.values);
        proxy["name"] = self.container.into();
        proxy["imagePullPolicy"] = values.pull_policy.into();
        proxy["resources"] = sidecar.resources.clone();
        proxy["restartPolicy"] = sidecar.native.then_some("Always").into();
        let (mut starting, mut running) = (Vec::from_iter(self.init_container()), Vec::new());
        let list = if sidecar.native { &mut starting } else { &mut running };
        list.push(filled(proxy));
        let secrets: Vec<Value> = values.pull_secrets.iter().map(|name| json!({"name": name})).collect();
        self.put_default(&mut annotations, "annotations", DEFAULT_CONTAINER, self.first_container());
        annotations.extend(self.plugin_annotations());
        let spec = json!({
            "initContainers": starting, "containers": running, "volumes": volumes, "imagePullSecrets": secrets,
        });
        json!({"metadata": filled(json!({"labels": labels, "annotations": annotations})), "spec": filled(spec)})
    }

    fn init_container(&self) -> Option<Value> {
        let sidecar = self.input.sidecar;
        let name = sidecar.init.name()?;
        let sets_rules = sidecar.init == InitMode::Capture;
        let capabilities: &[&str] = if sets_rules { &["NET_ADMIN", "NET_RAW"] } else { &[] };
        let privileged = self.input.values.proxy.privileged;
        let variables: Vec<Value> =
            sidecar.init_variables.iter().map(|(name, value)| variable(name, value.as_str())).collect();
        Some(filled(json!({
            "name": name,
            "image": sidecar.init_image,
            "imagePullPolicy": self.input.values.pull_policy,
            "args": sidecar.arguments(),
            "env": variables,
            "resources": sidecar.init_resources,
            "securityContext": self.security_context(sidecar.identities.init, capabilities, privileged, !sets_rules),
        })))
    }

    fn plugin_annotations(&self) -> Map<String, Value> {
        /// Annotation with the networks that a pod requests from Multus, as JSON or as a list.
        const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
        const PLUGIN: &str = "default/istio-cni";
        let shown = self.input.sidecar.plugin_annotations(self.input.pod).into_iter();
        let mut found: Map<String, Value> = shown.map(|(name, value)| (name, value.into())).collect();
        let values = self.input.values;
        if values.has_plugin && values.has_multus {
            let own = self.metadata("annotations", NETWORKS).unwrap_or_default().to_owned();
            found.insert(NETWORKS.to_owned(), with_network(own, PLUGIN).into());
        }
        found
    }

    pub(super) fn security_context_of_envoy(&self, privileged: bool, read_only: bool) -> Value {
        let sidecar = self.input.sidecar;
        let added =
            [(sidecar.mode == Mode::Tproxy, "NET_ADMIN"), (sidecar.binds_low_ports, "NET_BIND_SERVICE")];
        let added: Vec<&str> = added.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
        self.security_context(sidecar.identities.proxy, &added, privileged, read_only)
    }

    /// A security context without capabilities, except `added`.
    fn security_context(
        &self,
        Identity { user, group }: Identity,
        added: &[&str],
        privileged: bool,
        read_only: bool,
    ) -> Value {
        filled(json!({
            "allowPrivilegeEscalation": privileged,
            "privileged": privileged,
            "capabilities": filled(json!({"add": added, "drop": ["ALL"]})),
            "readOnlyRootFilesystem": read_only,
            "runAsGroup": group,
            "runAsNonRoot": user != 0,
            "runAsUser": user,
            "seccompProfile": self.input.values.proxy.seccomp,
        }))
    }

    pub(super) fn proxy_metadata(&self) -> impl Iterator<Item = Value> + use<'a> {
        self.input.sidecar.proxy_metadata.iter().map(|(name, value)| variable(name, value.as_str()))
    }

    /// Sets an entry of `labels` or `annotations` (`of`), unless the pod has it.
    pub(super) fn put_default(
        &self,
        entries: &mut Map<String, Value>,
        of: &str,
        key: &str,
        value: Option<&str>,
    ) {
        let own = self.input.pod["metadata"][of].get(key);
        if let Some(value) = value.filter(|_| own.is_none()) {
            entries.insert(key.to_owned(), value.into());
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        self.metadata("labels", key).and_then(set)
    }

    pub(super) fn metadata(&self, of: &str, key: &str) -> Option<&'a str> {
        self.input.pod["metadata"][of][key].as_str()
    }

    fn containers(&self) -> &'a [Value] {
        self.input.pod["spec"].list("containers")
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.containers().iter().flat_map(|container| container.list("ports"))
    }

    pub(super) fn app_containers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let proxy = self.container;
        let names = self.containers().iter().filter_map(|container| container["name"].as_str());
        names.filter(move |name| *name != proxy)
    }

    pub(super) fn first_container(&self) -> Option<&'a str> {
        self.app_containers().next()
    }

    /// The pod's service name: from its labels, in Istio's telemetry order, else from its workload.
    pub(super) fn canonical_name(&self) -> Option<&'a str> {
        const LABELS: [&str; 3] = ["service.istio.io/canonical-name", "app.kubernetes.io/name", "app"];
        let workload = self.input.admission.workload.as_ref();
        let of_workload = || workload.map(|workload| label_value(&workload.name)).and_then(set);
        LABELS.into_iter().find_map(|key| self.label(key)).or_else(of_workload)
    }

    /// The pod's annotation, even if empty; else the scalar at a path of the values.
    pub(super) fn annotation_or_value(&mut self, annotation: &str, path: &str) -> Option<String> {
        let annotated = self.metadata("annotations", annotation).map(str::to_owned);
        annotated.or_else(|| self.value(path))
    }

    /// The scalar at a path of the values as a string; `None` if unset.
    pub(super) fn value(&mut self, path: &str) -> Option<String> {
        let root = &self.input.values.raw;
        let text = match path.split('.').try_fold(root, |value, key| value.get(key))? {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Array(_) | Value::Object(_) => {
                self.problem(&format!("values: {path}"), None, "is a list or a mapping; expected a string");
                return None;
            }
            scalar => scalar.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    pub(super) fn problem(&mut self, at: &str, item: Option<&str>, text: &str) {
        let name = format!("template {}: {at}", self.template);
        self.problems.push(InputProblem::about(&name, item, text));
    }
}

pub(super) fn is_on(text: &str) -> bool {
    !["false", "0"].contains(&text)
}

pub(super) fn set(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// An object without empty fields: in a patch, a null would remove the pod's value.
fn filled(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !is_empty(value));
    }
    object
}

pub(super) fn variable(name: &str, value: impl Into<String>) -> Value {
    json!({"name": name, "value": value.into()})
}

pub(super) fn pod_field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

pub(super) fn resource_limit(name: &str, resource: &str) -> Value {
    json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource}}})
}

fn label_value(name: &str) -> &str {
    const MAX_LENGTH: usize = 63;
    let end = name.char_indices().nth(MAX_LENGTH).map_or(name.len(), |(end, _)| end);
    name[..end].trim_end_matches(['-', '.', '_'])
}
