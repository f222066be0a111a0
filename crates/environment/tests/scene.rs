//! A sample namespace: three Services with workloads in several environments.

use environment::inventory::{InventoryWorkload, Service};
use environment::resource::VirtualEnvironment;
use environment::routes::{Plan, RouteDisposition, plan};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) environment: Value,
    pub(crate) services: Vec<Value>,
    pub(crate) workloads: Vec<Value>,
}

/// Environments: cart has base and base.red; pay has base, base.blue and base.red.x; mail has base. All serve HTTP on port 80.
pub(crate) fn shop() -> Scene {
    let mut scene = Scene {
        environment: environment(&json!({"envLabel": {"defaultSubset": "base"}})),
        services: Vec::new(),
        workloads: Vec::new(),
    };
    for (service, values) in [
        ("cart", &["base.red", "base"][..]),
        ("pay", &["base.red.x", "base", "base.blue"]),
        ("mail", &["base"]),
    ] {
        scene.services.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": "shop"},
            "spec": {"selector": {"app": service}, "ports": [{"name": "http", "port": 80}]},
        }));
        values.iter().for_each(|value| scene.workload(service, value));
    }
    scene
}

pub(crate) fn environment(spec: &Value) -> Value {
    json!({
        "apiVersion": "env.alibaba.com/v1alpha2", "kind": "VirtualEnvironment",
        "metadata": {"name": "demo", "namespace": "shop", "uid": "u-demo", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    })
}

impl Scene {
    pub(crate) fn workload(&mut self, service: &str, value: &str) {
        self.workloads.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("{service}-{value}"), "namespace": "shop"},
            "spec": {"template": {"metadata": {"labels": {"app": service, "virtual-env": value, "x": "y"}}}},
        }));
    }

    /// Merges a patch into the object of this name. Null removes it, and an unknown name, SERVICE-VALUE, adds a workload.
    pub(crate) fn change(&mut self, name: &str, change: &Value) {
        if name == "demo" {
            return json_patch::merge(&mut self.environment, change);
        }
        let is_it = |object: &Value| object["metadata"]["name"] == name;
        for list in [&mut self.services, &mut self.workloads] {
            if let Some(at) = list.iter().position(is_it) {
                match change {
                    Value::Null => drop(list.remove(at)),
                    change => json_patch::merge(&mut list[at], change),
                }
                return;
            }
        }
        let (service, value) = name.split_once('-').expect("SERVICE-VALUE");
        self.workload(service, value);
    }

    pub(crate) fn read(&self) -> VirtualEnvironment {
        VirtualEnvironment::read(&self.environment, "")
    }

    pub(crate) fn plan(&self) -> Plan {
        let services: Vec<Service> =
            self.services.iter().filter_map(|object| Service::read(object, "")).collect();
        let workloads: Vec<InventoryWorkload> =
            self.workloads.iter().filter_map(|object| InventoryWorkload::read(object, "")).collect();
        let (services, workloads): (Vec<_>, Vec<_>) = (services.iter().collect(), workloads.iter().collect());
        plan(&self.read(), &services, &workloads, &["m.example".parse().expect("a host")])
            .expect("a valid VirtualEnvironment")
    }

    pub(crate) fn disposition(&self, service: &str) -> RouteDisposition {
        self.plan()
            .services
            .into_iter()
            .find(|planned| planned.name == service)
            .expect("it is planned")
            .disposition
    }

    pub(crate) fn objects(&self, service: &str) -> Option<(Value, Value)> {
        match self.disposition(service) {
            RouteDisposition::Routed { virtual_service, destination_rule } => {
                Some((virtual_service, destination_rule))
            }
            RouteDisposition::Unrouted(_) => None,
            RouteDisposition::Refused(problems) => panic!("{problems}"),
        }
    }

    /// A Service's routes, abbreviated: `header=value:port>subset without header`; the default has no header.
    pub(crate) fn routes(&self, service: &str) -> Vec<String> {
        let Some((virtual_service, _)) = self.objects(service) else { return Vec::new() };
        let routes = virtual_service["spec"]["http"].as_array().cloned().expect("routes");
        routes.iter().map(short).collect()
    }
}

fn short(route: &Value) -> String {
    let matching = &route["match"][0];
    let destination = &route["route"][0]["destination"];
    assert_eq!(matching["port"], destination["port"]["number"]);
    assert_eq!(route["route"][0]["weight"], 100);
    let condition = matching.get("headers").and_then(Value::as_object).map(|headers| {
        let (name, condition) = headers.iter().next().expect("a header");
        let (kind, value) = condition.as_object().and_then(|map| map.iter().next()).expect("a condition");
        let sign = if kind == "exact" { "=" } else { "~" };
        format!("{name}{sign}{}", value.as_str().expect("a text"))
    });
    let subset = destination["subset"].as_str().unwrap_or("any");
    let without = matching["withoutHeaders"].as_object().into_iter().flatten();
    let without: String = without.map(|(name, _)| format!(" without {name}")).collect();
    format!("{}:{}>{subset}{without}", condition.unwrap_or_default(), matching["port"])
}
