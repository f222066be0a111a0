//! Resources, their names in a request's path, and discovery for kubectl.

use crate::http::Request;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    pub group: String,
    /// With the subresource, as in `pods/status`.
    pub resource: String,
    pub verb: &'static str,
    /// Empty for all namespaces and for cluster-wide resources.
    pub namespace: String,
    /// Empty if no object is named. A list or a watch names one by `metadata.name`.
    pub name: String,
}

pub type Rule = (String, String, String);

/// `(plural, kind, is_namespaced, has_status)`.
type Row = (&'static str, &'static str, bool, bool);

const BUILT_IN: &[(&str, &str, &[Row])] = &[
    (
        "",
        "v1",
        &[
            ("configmaps", "ConfigMap", true, false),
            ("namespaces", "Namespace", false, true),
            ("nodes", "Node", false, true),
            ("pods", "Pod", true, true),
            ("secrets", "Secret", true, false),
            ("serviceaccounts", "ServiceAccount", true, false),
            ("services", "Service", true, true),
        ],
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        &[("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false, false)],
    ),
    ("apiextensions.k8s.io", "v1", &[("customresourcedefinitions", "CustomResourceDefinition", false, true)]),
    (
        "apps",
        "v1",
        &[
            ("daemonsets", "DaemonSet", true, true),
            ("deployments", "Deployment", true, true),
            ("replicasets", "ReplicaSet", true, true),
            ("statefulsets", "StatefulSet", true, true),
        ],
    ),
    (
        "authorization.k8s.io",
        "v1",
        &[
            ("selfsubjectaccessreviews", "SelfSubjectAccessReview", false, false),
            ("subjectaccessreviews", "SubjectAccessReview", false, false),
        ],
    ),
    ("coordination.k8s.io", "v1", &[("leases", "Lease", true, false)]),
    ("events.k8s.io", "v1", &[("events", "Event", true, false)]),
    ("networking.k8s.io", "v1", &[("networkpolicies", "NetworkPolicy", true, false)]),
    ("policy", "v1", &[("poddisruptionbudgets", "PodDisruptionBudget", true, true)]),
    (
        "rbac.authorization.k8s.io",
        "v1",
        &[
            ("clusterrolebindings", "ClusterRoleBinding", false, false),
            ("clusterroles", "ClusterRole", false, false),
            ("rolebindings", "RoleBinding", true, false),
            ("roles", "Role", true, false),
        ],
    ),
];

#[derive(Debug)]
pub struct Kinds(Vec<Kind>);

impl Default for Kinds {
    fn default() -> Self {
        let all = BUILT_IN.iter().flat_map(|(group, version, rows)| {
            rows.iter().map(|&(plural, kind, namespaced, status)| Kind {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                plural: plural.to_owned(),
                kind: kind.to_owned(),
                namespaced,
                status,
            })
        });
        Self(all.collect())
    }
}

impl Kinds {
    fn of_path(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        self.0.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    pub(crate) fn of_plural(&self, plural: &str) -> Option<&Kind> {
        self.0.iter().find(|kind| kind.plural == plural)
    }

    pub(crate) fn of_object(&self, object: &Value) -> Option<&Kind> {
        self.0.iter().find(|kind| object["apiVersion"] == kind.api_version() && object["kind"] == kind.kind)
    }

    /// Serves each version of a CustomResourceDefinition.
    pub(crate) fn define(&mut self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        for version in spec["versions"].as_array().into_iter().flatten() {
            let kind = Kind {
                group: text(&spec["group"]),
                version: text(&version["name"]),
                plural: text(&spec["names"]["plural"]),
                kind: text(&spec["names"]["kind"]),
                namespaced: spec["scope"] == "Namespaced",
                status: version["subresources"]["status"].is_object(),
            };
            self.0.retain(|known| {
                (&known.group, &known.version, &known.plural) != (&kind.group, &kind.version, &kind.plural)
            });
            self.0.push(kind);
        }
    }

    pub(crate) fn target(&self, path: &str) -> Option<Target> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let owned = |text: &str| text.to_owned();
        let target = |namespace: &str, plural: &str, name: &str, part: &str| {
            let kind = self.of_path(group, version, plural)?.clone();
            (kind.namespaced || namespace.is_empty()).then_some(())?;
            let is_served = match part {
                "" => true,
                "status" => kind.status,
                _ => false,
            };
            is_served.then(|| Target {
                kind,
                namespace: owned(namespace),
                name: owned(name),
                part: owned(part),
            })
        };
        match *rest {
            ["namespaces", namespace, plural] if plural != "status" => target(namespace, plural, "", ""),
            ["namespaces", namespace, plural, name] => target(namespace, plural, name, ""),
            ["namespaces", namespace, plural, name, part] => target(namespace, plural, name, part),
            [plural] => target("", plural, "", ""),
            [plural, name] => target("", plural, name, ""),
            [plural, name, part] => target("", plural, name, part),
            _ => None,
        }
    }

    pub(crate) fn discovery(&self, path: &str) -> Option<Value> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts[..] {
            ["version"] => Some(json!({ "major": "1", "minor": "31", "gitVersion": "v1.31.0" })),
            ["api"] => Some(json!({ "kind": "APIVersions", "versions": ["v1"] })),
            ["apis"] => Some(self.groups()),
            ["api", version] => Some(self.resources("", version)),
            ["apis", group, version] => Some(self.resources(group, version)),
            _ => None,
        }
    }

    fn groups(&self) -> Value {
        let mut groups: Vec<Value> = Vec::new();
        for kind in self.0.iter().filter(|kind| !kind.group.is_empty()) {
            let version = json!({ "groupVersion": kind.api_version(), "version": kind.version });
            match groups.iter_mut().find(|group| group["name"] == kind.group) {
                Some(group) => {
                    let versions = group["versions"].as_array_mut().expect("a list");
                    if !versions.contains(&version) {
                        versions.push(version);
                    }
                }
                None => groups.push(json!({ "name": kind.group, "versions": [version.clone()],
                    "preferredVersion": version })),
            }
        }
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    }

    fn resources(&self, group: &str, version: &str) -> Value {
        let served = self.0.iter().filter(|kind| kind.group == group && kind.version == version);
        let resources: Vec<Value> = served
            .map(|kind| {
                json!({ "name": kind.plural, "singularName": kind.kind.to_lowercase(), "kind": kind.kind,
                    "namespaced": kind.namespaced,
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"] })
            })
            .collect();
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources })
    }
}

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Subresource, such as `status`; empty for the object.
    pub(crate) part: String,
}

impl Target {
    /// Permission needed by a request; `None` for a method that is not served.
    pub(crate) fn access(&self, request: &Request) -> Option<Access> {
        let verb = match (&*request.method, self.name.is_empty()) {
            ("GET", true) if matches!(request.parameter("watch"), Some("true" | "1")) => "watch",
            ("GET", true) => "list",
            ("GET", false) => "get",
            ("POST", true) => "create",
            ("PUT", false) => "update",
            ("PATCH", false) => "patch",
            ("DELETE", false) => "delete",
            _ => return None,
        };
        let selected =
            request.parameter("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
        let name = if self.name.is_empty() { selected.unwrap_or_default() } else { &self.name };
        Some(Access {
            group: self.kind.group.clone(),
            resource: match &*self.part {
                "" => self.kind.plural.clone(),
                part => format!("{}/{part}", self.kind.plural),
            },
            verb,
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        })
    }
}
