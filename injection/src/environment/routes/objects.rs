//! The objects of Istio that routes consist of.

use super::choice::{Choices, subset};
use crate::environment::spec::{GROUP, KIND, Spec, VERSION, VirtualEnvironment};
use crate::environment::world::Service;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const VIRTUAL_SERVICE: &str = "VirtualService";
pub const DESTINATION_RULE: &str = "DestinationRule";
pub const ENVOY_FILTER: &str = "EnvoyFilter";

/// What all that we make carries: whose it is, so that it goes with it, and who has made it.
pub(in crate::environment) fn metadata(environment: &VirtualEnvironment, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "namespace": environment.namespace,
        "labels": {"app.kubernetes.io/managed-by": "sidecar-injector"},
    });
    if let Some(owner) = owner(environment) {
        metadata["ownerReferences"] = json!([owner]);
    }
    metadata
}

/// The VirtualEnvironment as an owner; `None` where it comes from no API server.
pub(in crate::environment) fn owner(environment: &VirtualEnvironment) -> Option<Value> {
    let uid = environment.uid.as_ref()?;
    let version = format!("{GROUP}/{VERSION}");
    Some(
        json!({"apiVersion": version, "kind": KIND, "name": environment.name, "uid": uid, "controller": true}),
    )
}

/// The routes of a Service, port by port: those of the header, so that it wins; those of its aliases; the default's.
pub(super) fn routes(spec: &Spec, service: &Service, choices: &Choices, ports: &[u16]) -> Vec<Value> {
    let rule = service.rule.clone().unwrap_or_default();
    let mut found = Vec::new();
    for port in ports {
        let mut add = |condition: Option<(&str, Value)>, subset: Option<&str>| {
            let mut matching = json!({"port": port});
            if let Some((header, condition)) = condition {
                matching["headers"] = json!({header: condition});
            }
            let mut destination = json!({"host": service.name, "port": {"number": port}});
            if let Some(subset) = subset {
                destination["subset"] = json!(subset);
            }
            found.push(rule.with(&matching, &json!({"destination": destination, "weight": 100})));
        };
        for (environment, subset) in &choices.others {
            add(Some((&spec.header, json!({"exact": environment}))), Some(subset));
        }
        for (environment, subset) in &choices.others {
            for alias in &spec.aliases {
                let condition = match &alias.pattern {
                    Some(pattern) => json!({"regex": pattern.of(environment)}),
                    None => json!({"exact": environment}),
                };
                add(Some((&alias.header, condition)), Some(subset));
            }
        }
        add(None, choices.default.as_deref());
    }
    found
}

pub(super) fn virtual_service(version: &str, metadata: &Value, service: &Service, http: &[Value]) -> Value {
    let hosts: Vec<&String> = [&service.name].into_iter().chain(&service.hosts).collect();
    let gateways: Vec<&str> =
        ["mesh"].into_iter().chain(service.gateways.iter().map(String::as_str)).collect();
    json!({
        "apiVersion": format!("networking.istio.io/{version}"), "kind": VIRTUAL_SERVICE, "metadata": metadata,
        "spec": {"hosts": hosts, "gateways": gateways, "http": http},
    })
}

pub(super) fn destination_rule(
    version: &str,
    metadata: &Value,
    spec: &Spec,
    service: &Service,
    own: &BTreeSet<&str>,
) -> Value {
    let of = |value: &&str| json!({"name": subset(value), "labels": {&spec.label: value}});
    let subsets: Vec<Value> = own.iter().map(of).collect();
    json!({
        "apiVersion": format!("networking.istio.io/{version}"), "kind": DESTINATION_RULE, "metadata": metadata,
        "spec": {"host": service.name, "subsets": subsets},
    })
}
