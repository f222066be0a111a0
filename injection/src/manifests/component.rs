//! The programs of an installation, and the metadata that their objects share.

use super::Installation;
use serde_json::{Value, json};

/// The programs of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Webhook,
    Operator,
}

/// The labels that select a program's pods.
pub(super) fn selecting(wanted: &Installation, component: Component) -> Value {
    let component = match component {
        Component::Webhook => "webhook",
        Component::Operator => "operator",
    };
    json!({ "app.kubernetes.io/name": "sidecar-injector", "app.kubernetes.io/instance": wanted.name(),
        "app.kubernetes.io/component": component })
}

/// Metadata of an object in the namespace of the installation.
pub(super) fn metadata(wanted: &Installation, name: &str, component: Component) -> Value {
    json!({ "name": name, "namespace": wanted.namespace, "labels": selecting(wanted, component) })
}

/// Metadata of an object in no namespace.
pub(super) fn of_cluster(wanted: &Installation, name: &str, component: Component) -> Value {
    json!({ "name": name, "labels": selecting(wanted, component) })
}
