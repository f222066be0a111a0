//! Probes through Istio's agent: a kubelet can't use mutual TLS, so it probes the agent over HTTP; the agent probes the
//! application as a variable describes.

use super::pod::{CheckedPod, NETWORK_ACTIONS, PodSpecItem, PodSpecList, object_in, port_number};
use crate::{sidecar::PROXY, template::go};
use mesh::istio::annotations::{EXCLUDE_INBOUND, INCLUDE_INBOUND};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Variable with the original probes, for the agent.
const VARIABLE: &str = "ISTIO_KUBE_APP_PROBERS";

/// A container's probes and hooks, with the first and last part of the agent's path.
const PLACES: [(&str, &str, &str); 5] = [
    ("/readinessProbe", "app-health", "readyz"),
    ("/livenessProbe", "app-health", "livez"),
    ("/startupProbe", "app-health", "startupz"),
    ("/lifecycle/preStop", "app-lifecycle", "prestopz"),
    ("/lifecycle/postStart", "app-lifecycle", "poststartz"),
];

fn each_handler(container: &mut Value, mut change: impl FnMut(&str, String, &mut Map<String, Value>)) {
    let name = container.name().to_owned();
    for (place, begin, end) in PLACES {
        if let Some(Value::Object(handler)) = container.pointer_mut(place) {
            change(place, format!("/{begin}/{name}/{end}"), handler);
        }
    }
}

/// Fields in the order of Go's output.
const FIELDS: [&str; 6] = ["path", "port", "host", "scheme", "httpHeaders", "service"];

/// True for inbound ports that the annotations capture; the kubelet still reaches other ports directly.
fn captured(pod: &CheckedPod) -> impl Fn(u16) -> bool + use<> {
    let given = |name: &str| pod.annotation(name).unwrap_or_default();
    let includes = !matches!(given(INCLUDE_INBOUND), "" | "*");
    let listed = given(if includes { INCLUDE_INBOUND } else { EXCLUDE_INBOUND });
    let ports: BTreeSet<u16> = listed.split(',').filter_map(|port| port.trim().parse().ok()).collect();
    let includes = includes && !ports.is_empty();
    move |port| ports.contains(&port) == includes
}

/// Redirects the probes of all containers except the proxy to the agent. Keeps probes of containers that start before the proxy,
/// of ports that are not captured, and of ports that their container lacks. Returns warnings about the latter.
pub(super) fn rewrite(pod: &mut CheckedPod, status_port: u16) -> Vec<String> {
    let (mut originals, mut warnings) = (BTreeMap::new(), Vec::new());
    let is_captured = captured(pod);
    let is_native = pod.item(PodSpecList::InitContainers, PROXY).is_some();
    let lists = if is_native { &PodSpecList::OF_CONTAINERS[..] } else { &[PodSpecList::Containers] };
    for list in lists {
        for container in pod.items_mut(*list).iter_mut().filter(|container| container.name() != PROXY) {
            let before = container.clone();
            each_handler(container, |place, path, handler| {
                let Some((way, action)) = action(handler) else { return };
                let item = action.get("port").unwrap_or(&Value::Null);
                let Some(port) = port_number(item, None, [&before]).filter(|port| *port != 0) else {
                    warnings.push(format!(
                        "{} of the container {} is not changed: {item} is not a port; expected 1 to 65535, \
                         or the name of one of its ports",
                        place[1..].replace('/', "."),
                        before.name(),
                    ));
                    return;
                };
                // The agent must not probe itself.
                let asks_agent = port == status_port && action.get("path").is_some_and(|asks| *asks == path);
                if is_captured(port) && !asks_agent {
                    redirect(handler, way, &path, status_port);
                    originals.insert(path, original(way, action, port, handler.get("timeoutSeconds")));
                }
            });
        }
    }
    if !originals.is_empty()
        && let Some(proxy) = pod.container_mut(PROXY)
    {
        let originals: Vec<String> =
            originals.into_iter().map(|(path, probe)| format!("{}:{probe}", json!(path))).collect();
        proxy.set_variable(VARIABLE, &go::as_go_writes(&format!("{{{}}}", originals.join(","))));
    }
    warnings
}

fn action(handler: &Map<String, Value>) -> Option<(&'static str, Map<String, Value>)> {
    NETWORK_ACTIONS.into_iter().find_map(|way| Some((way, handler.get(way)?.as_object()?.clone())))
}

fn redirect(handler: &mut Map<String, Value>, way: &str, path: &str, status_port: u16) {
    let mut asks = match handler.remove(way) {
        Some(Value::Object(asks)) if way == "httpGet" => asks,
        _ => Map::new(),
    };
    // The agent listens at the pod's own address over plain HTTP.
    asks.remove("host");
    if asks.get("scheme").is_some_and(|scheme| scheme == "HTTPS") {
        asks.insert("scheme".to_owned(), "HTTP".into());
    }
    asks.insert("path".to_owned(), path.into());
    asks.insert("port".to_owned(), status_port.into());
    handler.insert("httpGet".to_owned(), Value::Object(asks));
}

fn original(way: &str, mut action: Map<String, Value>, port: u16, timeout: Option<&Value>) -> String {
    action.insert("port".to_owned(), port.into());
    if way == "grpc" {
        action.entry("service").or_insert(Value::Null);
    }
    let place = |name: &str| FIELDS.iter().position(|field| *field == name).unwrap_or(FIELDS.len());
    let mut fields: Vec<(&String, &Value)> = action.iter().collect();
    fields.sort_by_key(|(name, _)| place(name));
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    let timeout = timeout.filter(|seconds| seconds.as_u64().is_some_and(|seconds| seconds != 0));
    let timeout = timeout.map(|seconds| format!(",\"timeoutSeconds\":{seconds}")).unwrap_or_default();
    format!("{{{}:{{{}}}{timeout}}}", json!(way), fields.join(","))
}

/// Restores the original probes; `earlier` is the proxy of an earlier injection.
pub(super) fn restore(pod: &mut CheckedPod, earlier: &Value) {
    let shown = earlier.variable(VARIABLE).and_then(|text| serde_json::from_str(text).ok());
    let Some(Value::Object(shown)) = shown else { return };
    for list in PodSpecList::OF_CONTAINERS {
        for container in pod.items_mut(list).iter_mut().filter(|container| container.name() != PROXY) {
            each_handler(container, |_, path, handler| {
                let asks_agent = handler.get("httpGet").is_some_and(|asks| asks["path"] == path.as_str());
                let Some(original) = shown.get(&path).filter(|_| asks_agent) else { return };
                for way in NETWORK_ACTIONS {
                    if let Some(Value::Object(action)) = original.get(way) {
                        handler.remove("httpGet");
                        object_in(handler, way).clone_from(action);
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(container: &Value) -> CheckedPod {
        let written = json!({"spec": {"containers": [container, {"name": "istio-proxy"}]}});
        CheckedPod::read("pod", written).expect("a pod")
    }

    fn check(handler: &Value, expected: &Value, shown: Option<Value>) {
        let ports = json!([{"name": "web", "containerPort": 8080}]);
        let before = pod(&json!({"name": "app", "ports": ports, "readinessProbe": handler}));
        let mut after = before.clone();
        assert_eq!(rewrite(&mut after, 15020), Vec::<String>::new());
        let app = after.item(PodSpecList::Containers, "app").expect("app");
        assert_eq!(&app["readinessProbe"], expected);
        let proxy = after.item(PodSpecList::Containers, PROXY).expect("the proxy").clone();
        let variable = proxy.variable(VARIABLE).map(|text| serde_json::from_str(text).expect("JSON"));
        assert_eq!(variable, shown.map(|shown| json!({"/app-health/app/readyz": shown})));
        let mut again = after.clone();
        restore(&mut again, &proxy);
        rewrite(&mut again, 15020);
        assert_eq!(again, after);
    }

    #[test]
    fn probes_go_to_the_agent_and_come_back() {
        let path = "/app-health/app/readyz";
        check(
            &json!({"httpGet": {"path": "/live", "port": "web", "scheme": "HTTPS", "host": "x"}, "timeoutSeconds": 3}),
            &json!({"httpGet": {"path": path, "port": 15020, "scheme": "HTTP"}, "timeoutSeconds": 3}),
            Some(json!({
                "httpGet": {"path": "/live", "port": 8080, "scheme": "HTTPS", "host": "x"},
                "timeoutSeconds": 3,
            })),
        );
        let asks = json!({"httpGet": {"path": path, "port": 15020}});
        check(&json!({"tcpSocket": {"port": "80"}}), &asks, Some(json!({"tcpSocket": {"port": 80}})));
        let grpc = json!({"grpc": {"port": 9000, "service": "x"}});
        check(&grpc, &asks, Some(grpc.clone()));
        let nameless = json!({"grpc": {"port": 9000, "service": null}});
        check(
            &json!({"grpc": {"port": 9000}, "timeoutSeconds": 0}),
            &json!({"httpGet": asks["httpGet"], "timeoutSeconds": 0}),
            Some(nameless),
        );
        for untouched in [json!({"exec": {"command": ["x"]}}), asks] {
            check(&untouched, &untouched, None);
        }
    }

    #[test]
    fn the_agents_variable_is_written_as_go_writes_it() {
        let probe = json!({"httpGet": {"path": "/a?b&c", "host": "x", "port": 80, "httpHeaders": [], "scheme": "HTTP"}});
        let mut pod =
            pod(&json!({"name": "app", "readinessProbe": probe, "livenessProbe": {"grpc": {"port": 1}}}));
        rewrite(&mut pod, 15020);
        let shown = pod.container(PROXY).and_then(|(_, proxy)| proxy.variable(VARIABLE));
        let expected = r#"{"/app-health/app/livez":{"grpc":{"port":1,"service":null}},"/app-health/app/readyz":{"httpGet":{"path":"/a?b\u0026c","port":80,"host":"x","scheme":"HTTP","httpHeaders":[]}}}"#;
        assert_eq!(shown, Some(expected));
    }

    #[test]
    fn probes_of_ports_that_are_not_captured_stay() {
        let check = |annotations: Value, rewritten: &[u16]| {
            let container = |port: u16| json!({"name": format!("c{port}"), "readinessProbe": {"tcpSocket": {"port": port}}});
            let containers = json!([container(80), container(81), {"name": "istio-proxy"}]);
            let written =
                json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
            let mut pod = CheckedPod::read("pod", written).expect("a pod");
            rewrite(&mut pod, 15020);
            for port in [80, 81] {
                let container = pod.item(PodSpecList::Containers, &format!("c{port}")).expect("it");
                let is_rewritten = container["readinessProbe"].get("httpGet").is_some();
                assert_eq!(is_rewritten, rewritten.contains(&port), "{annotations} {port}");
            }
        };
        check(json!({}), &[80, 81]);
        check(json!({EXCLUDE_INBOUND: "15020, 81"}), &[80]);
        check(json!({INCLUDE_INBOUND: "*", EXCLUDE_INBOUND: "80"}), &[81]);
        check(json!({INCLUDE_INBOUND: "80", EXCLUDE_INBOUND: "80"}), &[80]);
        check(json!({INCLUDE_INBOUND: ""}), &[80, 81]);
    }
}
