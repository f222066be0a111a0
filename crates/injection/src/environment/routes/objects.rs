//! The objects of Istio that routes consist of.

use super::choice::{Choices, subset};
use crate::environment::existing::{DESTINATION_RULE, VIRTUAL_SERVICE};
use crate::environment::inventory::Service;
use crate::environment::resource::EnvironmentSpec;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The routes of a Service, port by port: those of the header, so that it wins; those of its aliases, as they stand in the
/// spec, so that the first of those wins; the default's.
pub(super) fn routes(
    spec: &EnvironmentSpec,
    service: &Service,
    choices: &Choices,
    ports: &[u16],
) -> Vec<Value> {
    let rule = service.rule.clone().unwrap_or_default();
    let mut found = Vec::new();
    for port in ports {
        let mut add = |condition: Value, subset: Option<&str>| {
            let mut matching = condition;
            matching["port"] = json!(port);
            let mut destination = json!({"host": service.name, "port": {"number": port}});
            if let Some(subset) = subset {
                destination["subset"] = json!(subset);
            }
            found.push(rule.with(&matching, &json!({"destination": destination, "weight": 100})));
        };
        for (environment, subset) in &choices.others {
            add(json!({"headers": {&spec.header: {"exact": environment}}}), Some(subset));
        }
        for (at, alias) in spec.aliases.iter().enumerate() {
            let without = without(spec, at);
            for (environment, subset) in &choices.others {
                let condition = match &alias.pattern {
                    Some(pattern) => json!({"regex": pattern.of(environment)}),
                    None => json!({"exact": environment}),
                };
                let mut matching = json!({"headers": {&alias.header: condition}});
                if !without.is_empty() {
                    matching["withoutHeaders"] = json!(without);
                }
                add(matching, Some(subset));
            }
        }
        add(json!({}), choices.default.as_deref());
    }
    found
}

/// What a request must not have for the alias at this place to count: headers before it that hold an environment and nothing
/// else. They name the default's too, for which there is no route. One with a pattern may hold other values.
fn without(spec: &EnvironmentSpec, at: usize) -> Map<String, Value> {
    let before = spec.aliases[..at].iter().filter(|alias| alias.pattern.is_none());
    let before = [&spec.header].into_iter().chain(before.map(|alias| &alias.header));
    let others = before.filter(|header| !header.eq_ignore_ascii_case(&spec.aliases[at].header));
    // An empty condition is whether there is one (Istio, `HTTPMatchRequest.headers`).
    others.map(|header| (header.clone(), json!({}))).collect()
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
    spec: &EnvironmentSpec,
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
