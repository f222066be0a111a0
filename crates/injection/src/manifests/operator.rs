//! The operator that keeps routes of environments: its roles, its pods, and the CRD of the resource that it reads.

use super::{Component, Installation, network, roles, server};
use crate::environment::{
    access::{OPERATOR, Scope},
    crd,
};
use serde_json::{Value, json};

/// The port of metrics and health.
const METRICS: u16 = 8383;

pub(super) fn objects(target: &Installation) -> Vec<Value> {
    let (name, component) = (target.with_revision("sidecar-injector-environment"), Component::Operator);
    let mut objects = vec![crd::definition(), roles::account(target, &name, component)];
    objects.extend(roles::role(target, &name, component, &rules(Scope::Own, &name)));
    objects.extend(roles::cluster_role(target, &name, component, &rules(Scope::Watched, &name)));
    let address = format!("--metrics-address=[::]:{METRICS}");
    let (lease, namespace) = (format!("--lease={name}"), format!("--lease-namespace={}", target.namespace));
    let mut arguments = vec!["environment", "operator", "--all-namespaces", &lease, &namespace, &address];
    let hosts: Vec<&str> = target.allow_hosts.iter().map(|host| &*host.0).collect();
    let hosts = format!("--allow-hosts={}", hosts.join(","));
    arguments.extend((!target.allow_hosts.is_empty()).then_some(&*hosts));
    arguments.push("--log_as_json");
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "metrics" } });
    let container = json!({
        "name": "operator", "image": target.image, "args": arguments,
        "ports": [{ "name": "metrics", "containerPort": METRICS }],
        "readinessProbe": probe("/readyz"), "livenessProbe": probe("/healthz"),
    });
    objects.push(server::deployment(target, &name, component, container, None));
    objects.push(server::budget(target, &name, component));
    objects.extend(network::policy(target, &name, component, &[METRICS]));
    objects
}

/// The rules of one scope. In the operator's own namespace they are limited to the object of this name, except for `create`,
/// which RBAC can't limit by name.
fn rules(scope: Scope, name: &str) -> Value {
    let accesses = OPERATOR.iter().filter(|access| access.scope == scope);
    let rules = accesses.flat_map(|access| {
        let rule = |verbs: Vec<&str>, names: Option<&str>| {
            let mut rule =
                json!({ "apiGroups": [access.group], "resources": [access.resource], "verbs": verbs });
            if let Some(name) = names {
                rule["resourceNames"] = json!([name]);
            }
            (!verbs.is_empty()).then_some(rule)
        };
        let (created, named): (Vec<&str>, Vec<&str>) =
            access.verbs.iter().partition(|verb| **verb == "create");
        match scope {
            Scope::Watched => vec![rule(access.verbs.to_vec(), None)],
            Scope::Own => vec![rule(created, None), rule(named, Some(name))],
        }
    });
    rules.flatten().collect()
}
