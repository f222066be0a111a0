//! Ports of probes and Services that no proxy captures.

use super::inventory::{DescribedPod, Inventory};
use super::{capture::PodCapture, findings::FindingGroups};
use crate::pipeline::pod::{NETWORK_ACTIONS, PROBES, port_number};
use mesh::{Mesh, pod::KubernetesObject, settings::mapping::TABLE};
use rules::finding::{Code, Finding};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn judge(
    pod: &DescribedPod<'_>,
    capture: &PodCapture,
    inventory: &Inventory<'_>,
    groups: &mut FindingGroups,
) {
    for container in pod.containers().filter(|container| capture.is_application(container)) {
        for probe in PROBES {
            let handler =
                NETWORK_ACTIONS.iter().map(|name| &container[probe][name]).find(|one| !one.is_null());
            // If given, the kubelet calls `host`, not the pod.
            let handler = handler.filter(|one| one["host"].as_str().unwrap_or_default().is_empty());
            let port = handler.and_then(|one| port_number(&one["port"], None, [container]));
            if let Some(port) = port.filter(|port| is_uncaptured(*port, pod, capture)) {
                groups.about(of_probe(probe, container, port, capture), pod);
            }
        }
    }
    let namespace = &pod.namespace.name;
    let mut uncaptured = BTreeSet::new();
    for service in inventory.services.get(namespace).into_iter().flatten() {
        if !selects(service, pod) {
            continue;
        }
        for port in service.value["spec"]["ports"].as_array().into_iter().flatten() {
            if !matches!(port["protocol"].as_str(), None | Some("TCP")) {
                continue;
            }
            let target = port.get("targetPort").filter(|target| !target.is_null()).unwrap_or(&port["port"]);
            let target = port_number(target, Some("TCP"), pod.containers());
            if let Some(target) = target.filter(|target| is_uncaptured(*target, pod, capture)) {
                groups.about_object(of_service(target, capture), service, namespace);
                uncaptured.insert(target);
            }
        }
    }
    // Even if several Services share a port, the pod counts once.
    for target in uncaptured {
        groups.about(of_service(target, capture), pod);
    }
}

impl PodCapture {
    fn is_application(&self, container: &Value) -> bool {
        self.applications.iter().any(|application| application.container == container["name"])
    }
}

/// True if a port bypasses the proxy. The rules exclude the proxy's own ports on purpose.
fn is_uncaptured(port: u16, pod: &DescribedPod<'_>, capture: &PodCapture) -> bool {
    let declares = |container: &Value| {
        container["ports"].as_array().into_iter().flatten().any(|item| item["containerPort"] == port)
    };
    let of_application = pod.containers().any(|one| capture.is_application(one) && declares(one));
    let of_proxy = || {
        let fixed = TABLE.iter().flat_map(|row| row.always).any(|always| *always == port.to_string());
        (capture.mesh() == Mesh::Istio && fixed)
            || pod.containers().any(|one| !capture.is_application(one) && declares(one))
    };
    (of_application || !of_proxy()) && !capture.has_port(port)
}

fn selects(service: &KubernetesObject, pod: &DescribedPod<'_>) -> bool {
    let has = |(key, value): (&String, &Value)| pod.labels.get(key).is_some_and(|own| value == own.as_str());
    let selector = service.value["spec"]["selector"].as_object();
    selector.is_some_and(|selector| !selector.is_empty() && selector.iter().all(has))
}

fn of_probe(probe: &str, container: &Value, port: u16, capture: &PodCapture) -> Finding {
    let (option, why) = capture.why_not(port);
    let name = container["name"].as_str().unwrap_or_default();
    let text = format!("{why}: {probe} of container {name} calls port {port} and bypasses the proxy");
    let remedy = "capture the port if the probe should take the same path as callers";
    Finding::note(Code::ProbeUncaptured, &option, text, remedy)
}

fn of_service(port: u16, capture: &PodCapture) -> Finding {
    let (option, why) = capture.why_not(port);
    let text =
        format!("{why}: callers of a Service on port {port} bypass the proxy, its encryption and policies");
    let remedy = "capture the port, or remove it from the Service";
    Finding::warning(Code::ServicePortUncaptured, &option, text, remedy)
}
