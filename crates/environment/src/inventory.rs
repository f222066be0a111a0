//! A namespace's Services, the hosts that they may route, and the workloads behind the Services.

use crate::rule::{HttpRouteRule, RULE};
use crate::{resource::namespace_of, suggestions};
use injection::syntax::is_domain;
use mesh::{InputProblem, Problems};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, str::FromStr};

/// Annotation: further gateways through which a Service is called, besides the mesh.
pub const GATEWAYS: &str = "kt-virtual-environment/gateways";
/// Annotation: further hosts by which a Service is called, besides its name.
pub const HOSTS: &str = "kt-virtual-environment/hosts";

pub type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryWorkload {
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub labels: Labels,
    pub replicas: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    pub namespace: String,
    /// Labels of the Service's pods; an empty selector matches none.
    pub selector: Labels,
    pub http_ports: Vec<u16>,
    /// Gateways other than the mesh.
    pub gateways: Vec<String>,
    /// Hosts other than the Service's name.
    pub hosts: Vec<String>,
    /// Additions to each route, or the annotation's problems.
    pub rule: Result<HttpRouteRule, Problems>,
    pub rule_text: Option<String>,
    pub warnings: Vec<String>,
}

impl InventoryWorkload {
    /// Parses a Deployment or StatefulSet; `None` for other objects. `namespace` applies if the object has none.
    pub fn read(object: &Value, namespace: &str) -> Option<Self> {
        let kind = object["kind"].as_str().filter(|kind| matches!(*kind, "Deployment" | "StatefulSet"))?;
        if !object["apiVersion"].as_str().is_some_and(|version| version.starts_with("apps/")) {
            return None;
        }
        let (name, namespace) = identity(object, namespace);
        let labels = labels(object.pointer("/spec/template/metadata/labels"));
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
        Some(Self { kind: kind.to_owned(), name, namespace, labels, replicas })
    }

    pub fn title(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Service {
    pub fn read(object: &Value, namespace: &str) -> Option<Self> {
        if object["kind"] != "Service" || object["apiVersion"] != "v1" {
            return None;
        }
        let (name, namespace) = identity(object, namespace);
        let annotation = |name: &str| object.pointer("/metadata/annotations")?.get(name)?.as_str();
        let place = format!("Service {namespace}/{name}, annotation {RULE}");
        let text = annotation(RULE).filter(|text| !text.trim().is_empty());
        let rule = text.map(|text| HttpRouteRule::read(&place, text)).transpose();
        let external = object.pointer("/spec/type").is_some_and(|kind| kind == "ExternalName");
        let ports = object.pointer("/spec/ports").and_then(Value::as_array);
        Some(Self {
            // An ExternalName has no pods, even with a selector.
            selector: if external { Labels::new() } else { labels(object.pointer("/spec/selector")) },
            http_ports: ports.into_iter().flatten().filter_map(http_port).collect(),
            gateways: list(annotation(GATEWAYS), "mesh"),
            hosts: list(annotation(HOSTS), &name),
            rule: rule.map(Option::unwrap_or_default).map_err(Problems),
            rule_text: text.map(str::to_owned),
            warnings: suggestions::annotations(&format!("Service {namespace}/{name}"), object),
            name,
            namespace,
        })
    }

    pub fn title(&self) -> String {
        format!("Service {}/{}", self.namespace, self.name)
    }

    pub fn selects(&self, workload: &InventoryWorkload) -> bool {
        !self.selector.is_empty()
            && self.selector.iter().all(|(key, value)| workload.labels.get(key) == Some(value))
    }

    pub fn problems(&self) -> &[InputProblem] {
        match &self.rule {
            Ok(_) => &[],
            Err(problems) => &problems.0,
        }
    }
}

fn http_port(port: &Value) -> Option<u16> {
    let is_tcp = port["protocol"].is_null() || port["protocol"] == "TCP";
    let is_http = is_tcp && is_http(port["name"].as_str(), port["appProtocol"].as_str());
    let number = port["port"].as_u64().and_then(|number| u16::try_from(number).ok());
    number.filter(|number| *number > 0 && is_http)
}

/// True for HTTP by `appProtocol`, else by the name's prefix (Istio, "Protocol Selection"). TLS hides the headers.
fn is_http(name: Option<&str>, app_protocol: Option<&str>) -> bool {
    const HTTP: [&str; 7] =
        ["http", "http2", "grpc", "grpc-web", "kubernetes.io/h2c", "kubernetes.io/ws", "h2c"];
    if let Some(protocol) = app_protocol {
        return HTTP.iter().any(|known| protocol.eq_ignore_ascii_case(known));
    }
    let protocol = name.unwrap_or_default().split('-').next().unwrap_or_default();
    protocol == "grpc" || (protocol.starts_with("http") && protocol != "https")
}

fn identity(object: &Value, namespace: &str) -> (String, String) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    (name.to_owned(), namespace_of(object, namespace).to_owned())
}

fn labels(value: Option<&Value>) -> Labels {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// Distinct items of a comma-separated list, except `without`.
fn list(text: Option<&str>, without: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for item in text.unwrap_or_default().split(',').map(str::trim) {
        if !item.is_empty() && item != without && !found.iter().any(|there| there == item) {
            found.push(item.to_owned());
        }
    }
    found
}

/// Host that every namespace may route: a DNS name, `*.` before a name for its subdomains, or `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllowedHost(String);

impl FromStr for AllowedHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_valid = text == "*" || is_domain(text.strip_prefix("*.").unwrap_or(text));
        let expected =
            "expected a host such as shop.example.com, *.example.com for all subdomains, or * for all hosts";
        is_valid.then(|| Self(text.to_owned())).ok_or(expected)
    }
}

impl AllowedHost {
    fn allows(&self, host: &str) -> bool {
        self.0.strip_prefix('*').map_or(host == self.0, |end| host.ends_with(end))
    }
}

pub(crate) fn may_route(service: &Service, host: &str, allowed: &[AllowedHost]) -> bool {
    // Only these formats are safe: `a.shop` and `a.shop.svc.example.com` may be internet domains.
    let is_own = match host.split('.').collect::<Vec<_>>()[..] {
        [name] => !name.contains('*'),
        [_, namespace, "svc"] | [_, namespace, "svc", "cluster", "local"] => namespace == service.namespace,
        _ => false,
    };
    is_own || allowed.iter().any(|pattern| pattern.allows(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn protocols_are_derived_as_istio_derives_them() {
        for (name, app_protocol, expected) in [
            (Some("http"), None, true),
            (Some("http-admin"), None, true),
            (Some("http2"), None, true),
            (Some("grpc"), None, true),
            (Some("https"), None, false),
            (Some("https-admin"), None, false),
            (Some("tcp"), None, false),
            (None, None, false),
            (Some("web"), Some("http"), true),
            (None, Some("kubernetes.io/h2c"), true),
            (Some("http"), Some("tcp"), false),
            (Some("http"), Some("https"), false),
        ] {
            assert_eq!(is_http(name, app_protocol), expected, "{name:?} {app_protocol:?}");
        }
    }

    #[test]
    fn lists_name_each_item_once() {
        assert_eq!(list(Some(" gw1, mesh,,gw1 ,ns/gw2"), "mesh"), ["gw1", "ns/gw2"]);
        assert_eq!(list(None, "mesh"), [""; 0]);
    }

    #[test]
    fn hosts_of_other_namespaces_need_permission() {
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"}});
        let service = Service::read(&service, "").expect("a Service");
        for (host, allowed, expected) in [
            ("other", "", true),
            ("cart.shop.svc.cluster.local", "", true),
            ("*.shop.svc", "", true),
            ("cart.shop", "", false),
            ("cart.shop.svc.example.com", "", false),
            ("pay.bank.svc.cluster.local", "", false),
            ("*shop.svc.cluster.local", "", false),
            ("*", "", false),
            ("m.example", "m.example", true),
            ("*.m.example", "m.example", false),
            ("a.m.example", "*.m.example", true),
            ("*.m.example", "*.m.example", true),
            ("m.example", "*.m.example", false),
            ("*", "*", true),
        ] {
            let allowed: Vec<AllowedHost> = allowed.parse().into_iter().collect();
            assert_eq!(may_route(&service, host, &allowed), expected, "{host} {allowed:?}");
        }
        for text in ["", "*example.com", "a.*.example", "A.example", "a,b"] {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }
}
