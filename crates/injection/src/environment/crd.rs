//! The CustomResourceDefinition of VirtualEnvironment, and what its operator asks of the API server, so that its role can grant exactly
//! that.
//!
//! The same name, group, version and spec as upstream's, so that objects written for upstream are accepted. The status is
//! ours, and has conditions alone. It is a subresource, so writing it changes no generation.

use super::resource::{GROUP, HEADER, KIND, LABEL, PLACEHOLDER, SPLITTER, VERSION};
use serde_json::{Value, json};

pub const PLURAL: &str = "virtualenvironments";

/// The definition, as `kubectl apply` takes it.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND, "listKind": format!("{KIND}List"), "plural": PLURAL, "singular": "virtualenvironment",
                "shortNames": ["ve"],
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Header", "string", ".spec.envHeader.name"),
                    column("Label", "string", ".spec.envLabel.name"),
                    column("Acting", "string", ".status.conditions[?(@.type==\"Acting\")].status"),
                    column("Complete", "string", ".status.conditions[?(@.type==\"Complete\")].reason"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn nonempty_text(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": description})
}

/// Defaults stand in descriptions alone: a default of the schema would be written into every object, and could not be
/// changed any more.
fn schema() -> Value {
    let alias = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": nonempty_text("The header."),
            "pattern": text("A regular expression for its value, with the placeholder in place of the environment; without it, the value is the environment."),
            "placeholder": text(&format!("Placeholder for the environment in the pattern: {PLACEHOLDER} by default.")),
        },
    });
    let header = json!({
        "type": "object",
        "description": "How requests name their environment.",
        "properties": {
            "name": nonempty_text(&format!("The header: {HEADER} by default.")),
            "autoInject": {"type": "boolean", "description": "Whether sidecars add the header to requests that lack it."},
            "aliases": {"type": "array", "items": alias, "description": "Further headers that name it in requests without the header itself; of several the first one counts."},
        },
    });
    let label = json!({
        "type": "object",
        "description": "How pods name their environment.",
        "properties": {
            "name": nonempty_text(&format!("The label: {LABEL} by default.")),
            "splitter": {
                "type": "string", "minLength": 1, "maxLength": 1,
                "description": format!("Separator between an environment and those derived from it: {SPLITTER} by default."),
            },
            "defaultSubset": nonempty_text("The environment of requests that name none; all pods by default."),
        },
    });
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": text("Acting or Complete."),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": text("One word."),
            "message": text("What is done, and what is not."),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    });
    let conditions = json!({
        "type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    });
    json!({
        "type": "object",
        "description": "How requests find the pods of their environment, in a namespace.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {"envHeader": header, "envLabel": label}},
            "status": {"type": "object", "properties": {"conditions": conditions}},
        },
    })
}

/// Where the operator has access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In each namespace that is looked at.
    Watched,
    /// In the namespace of the Lease, by which one operator of several leads.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub group: &'static str,
    /// With `/status` where it is about that.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    pub scope: Scope,
}

const fn watched(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Access {
    Access { group, resource, verbs, scope: Scope::Watched }
}

const READ: &[&str] = &["list", "watch"];
const WRITE: &[&str] = &["list", "watch", "create", "patch", "delete"];
const ISTIO: &str = "networking.istio.io";

pub const OPERATOR: &[Access] = &[
    watched(GROUP, PLURAL, READ),
    watched(GROUP, "virtualenvironments/status", &["patch"]),
    watched("", "services", READ),
    watched("apps", "deployments", READ),
    watched("apps", "statefulsets", READ),
    watched(ISTIO, "virtualservices", WRITE),
    watched(ISTIO, "destinationrules", WRITE),
    watched(ISTIO, "envoyfilters", WRITE),
    Access {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["get", "create", "update"],
        scope: Scope::Own,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema is structural only if all of it has types (Kubernetes, "Specifying a structural schema").
    #[test]
    fn the_schema_is_structural() {
        fn typed(schema: &Value, path: &str) {
            assert!(schema["type"].is_string(), "{path} has no type");
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                typed(field, &format!("{path}.{name}"));
            }
            if schema["type"] == "array" {
                typed(&schema["items"], &format!("{path}[]"));
            }
        }
        let definition = definition();
        assert_eq!(definition["metadata"]["name"], "virtualenvironments.env.alibaba.com");
        typed(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
    }
}
