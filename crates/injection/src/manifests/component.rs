//! The programs of an installation, and the metadata that their objects share.

use super::Installation;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Webhook,
    Operator,
}

/// The labels that select a program's pods.
pub(super) fn selecting(target: &Installation, component: Component) -> Value {
    let component = match component {
        Component::Webhook => "webhook",
        Component::Operator => "operator",
    };
    json!({ "app.kubernetes.io/name": "sidecar-injector", "app.kubernetes.io/instance": target.name(),
        "app.kubernetes.io/component": component })
}

/// Metadata of an object in the namespace of the installation.
pub(super) fn metadata(target: &Installation, name: &str, component: Component) -> Value {
    json!({ "name": name, "namespace": target.namespace, "labels": selecting(target, component) })
}

pub(super) fn of_cluster(target: &Installation, name: &str, component: Component) -> Value {
    json!({ "name": name, "labels": selecting(target, component) })
}
