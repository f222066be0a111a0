//! Probes that go through Istio's agent: a kubelet speaks no mutual TLS, so it asks the agent over plain HTTP, which asks the
//! application and knows how from a variable.

use super::PROXY;
use super::pod::{Item, List, Pod, object_in};
use policy::{Problem, Problems};
use serde_json::{Map, Value};

/// The variable that tells the agent what it was asked instead of.
const VARIABLE: &str = "ISTIO_KUBE_APP_PROBERS";

/// A place of a container where something is asked: an object's field, within which field, and the paths' ends.
struct Place {
    within: Option<&'static str>,
    field: &'static str,
    path: (&'static str, &'static str),
}

const PLACES: [Place; 5] = [
    Place { within: None, field: "readinessProbe", path: ("/app-health", "readyz") },
    Place { within: None, field: "livenessProbe", path: ("/app-health", "livez") },
    Place { within: None, field: "startupProbe", path: ("/app-health", "startupz") },
    Place { within: Some("lifecycle"), field: "preStop", path: ("/app-lifecycle", "prestopz") },
    Place { within: Some("lifecycle"), field: "postStart", path: ("/app-lifecycle", "poststartz") },
];

impl Place {
    /// What the agent answers.
    fn path(&self, container: &str) -> String {
        format!("{}/{container}/{}", self.path.0, self.path.1)
    }

    /// The probe or the hook.
    fn handler<'a>(&self, container: &'a mut Item) -> Option<&'a mut Map<String, Value>> {
        let fields = match self.within {
            None => &mut container.0,
            Some(within) => container.0.get_mut(within)?.as_object_mut()?,
        };
        fields.get_mut(self.field)?.as_object_mut()
    }

    fn name(&self) -> String {
        self.within.map_or_else(|| self.field.to_owned(), |within| format!("{within}.{}", self.field))
    }
}

/// The ways of asking that the agent knows. What else there is (`exec`, `sleep`) goes through no network.
const WAYS: [&str; 3] = ["httpGet", "tcpSocket", "grpc"];

/// Sends the probes of all containers but the proxy to the agent. Those of containers that start before it are left alone:
/// nobody would answer them, and the proxy would wait for them.
///
/// # Errors
/// Every probe whose port has a name that its container does not give.
pub(super) fn rewrite(pod: &mut Pod, status_port: u16) -> Result<(), Problems> {
    let (mut asked, mut problems) = (Map::new(), Vec::new());
    let is_native = pod.item(List::InitContainers, PROXY).is_some();
    for list in List::OF_CONTAINERS.into_iter().filter(|list| is_native || *list == List::Containers) {
        for container in pod.items_mut(list).iter_mut().filter(|container| container.name() != PROXY) {
            let names = named_ports(container);
            let name = container.name().to_owned();
            for place in &PLACES {
                let Some(handler) = place.handler(container) else { continue };
                let path = place.path(&name);
                match redirected(handler, &names, &path, status_port) {
                    Ok(Some(original)) => drop(asked.insert(path, original)),
                    Ok(None) => {}
                    Err((item, text)) => {
                        let at = format!("{} of the container {name}", place.name());
                        problems.push(Problem::with_item(&at, &item, text));
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    if !asked.is_empty()
        && let Some(proxy) = pod.container_mut(PROXY)
    {
        proxy.set_variable(VARIABLE, &Value::Object(asked).to_string());
    }
    Ok(())
}

/// Ports by their names.
fn named_ports(container: &Item) -> Vec<(String, u16)> {
    let named = |port: &Value| {
        let number = port["containerPort"].as_u64().and_then(|number| u16::try_from(number).ok())?;
        Some((port["name"].as_str()?.to_owned(), number))
    };
    container.list("ports").iter().filter_map(named).collect()
}

/// Makes a handler ask the agent. Returns what it asked before; `None` if it asks through no network, or the agent already.
fn redirected(
    handler: &mut Map<String, Value>,
    names: &[(String, u16)],
    path: &str,
    status_port: u16,
) -> Result<Option<Value>, (String, String)> {
    let Some((way, action)) =
        WAYS.iter().find_map(|way| Some((*way, handler.get(*way)?.as_object()?.clone())))
    else {
        return Ok(None);
    };
    let port = port(action.get("port"), names)?;
    if port == status_port {
        return Ok(None);
    }
    let mut original = action.clone();
    original.insert("port".to_owned(), port.into());
    let mut asks = if way == "httpGet" { action } else { Map::new() };
    // The agent is at the pod's own address and speaks plain HTTP.
    asks.remove("host");
    if asks.get("scheme").is_some_and(|scheme| scheme == "HTTPS") {
        asks.insert("scheme".to_owned(), "HTTP".into());
    }
    asks.insert("path".to_owned(), path.into());
    asks.insert("port".to_owned(), status_port.into());
    handler.remove(way);
    handler.insert("httpGet".to_owned(), Value::Object(asks));
    let mut told = Map::from_iter([(way.to_owned(), Value::Object(original))]);
    if let Some(seconds) = handler.get("timeoutSeconds").filter(|seconds| !seconds.is_null()) {
        told.insert("timeoutSeconds".to_owned(), seconds.clone());
    }
    Ok(Some(Value::Object(told)))
}

/// The port that a handler asks.
fn port(said: Option<&Value>, names: &[(String, u16)]) -> Result<u16, (String, String)> {
    let whole = |number: u64| u16::try_from(number).ok().filter(|port| *port != 0);
    match said {
        Some(Value::Number(number)) => number.as_u64().and_then(whole),
        Some(Value::String(text)) => {
            let named = names.iter().find(|(name, _)| name == text).map(|(_, port)| *port);
            named.or_else(|| text.parse().ok().and_then(whole))
        }
        _ => None,
    }
    .ok_or_else(|| {
        let item = match said {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let known: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let text = match &known[..] {
            [] => "is no port, and none of the container's ports has a name; expected 1 to 65535".to_owned(),
            known => {
                format!("is no port; expected 1 to 65535, or a name of the container's: {}", known.join(", "))
            }
        };
        (item, text)
    })
}

/// Gives back the probes that an earlier injection has sent to its agent.
pub(super) fn restore(pod: &mut Pod, earlier: &Item) {
    let told = earlier.variable(VARIABLE).and_then(|text| serde_json::from_str(text).ok());
    let Some(Value::Object(told)) = told else { return };
    for list in List::OF_CONTAINERS {
        for container in pod.items_mut(list).iter_mut().filter(|container| container.name() != PROXY) {
            let name = container.name().to_owned();
            for place in &PLACES {
                let path = place.path(&name);
                let Some(handler) = place.handler(container) else { continue };
                let asks_agent = handler.get("httpGet").is_some_and(|asks| asks["path"] == path.as_str());
                let Some(original) = told.get(&path).filter(|_| asks_agent) else { continue };
                for way in WAYS {
                    if let Some(Value::Object(action)) = original.get(way) {
                        handler.remove("httpGet");
                        object_in(handler, way).clone_from(action);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(container: &Value) -> Pod {
        let written = json!({"spec": {"containers": [container, {"name": "istio-proxy"}]}});
        Pod::read("pod", written).expect("a pod")
    }

    /// The handler of a readiness probe, what it becomes, and what the agent is told.
    fn check(handler: &Value, expected: &Value, told: Option<Value>) {
        let ports = json!([{"name": "web", "containerPort": 8080}]);
        let before = pod(&json!({"name": "app", "ports": ports, "readinessProbe": handler}));
        let mut after = before.clone();
        rewrite(&mut after, 15020).expect("good ports");
        let app = after.item(List::Containers, "app").expect("app");
        assert_eq!(&app.0["readinessProbe"], expected);
        let proxy = after.item(List::Containers, PROXY).expect("the proxy").clone();
        let variable = proxy.variable(VARIABLE).map(|text| serde_json::from_str(text).expect("JSON"));
        assert_eq!(variable, told.map(|told| json!({"/app-health/app/readyz": told})));
        // What comes back is rewritten to the same.
        let mut again = after.clone();
        restore(&mut again, &proxy);
        rewrite(&mut again, 15020).expect("good ports");
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
        for untouched in
            [json!({"exec": {"command": ["x"]}}), json!({"httpGet": {"path": "/x", "port": 15020}})]
        {
            check(&untouched, &untouched, None);
        }
    }

    #[test]
    fn hooks_too() {
        let hooks = json!({"preStop": {"httpGet": {"path": "/stop", "port": 80}}, "postStart": {"exec": {}}});
        let mut pod = pod(&json!({"name": "app", "lifecycle": hooks}));
        rewrite(&mut pod, 15020).expect("good ports");
        let app = pod.item(List::Containers, "app").expect("app");
        let expected = json!({
            "preStop": {"httpGet": {"path": "/app-lifecycle/app/prestopz", "port": 15020}},
            "postStart": {"exec": {}},
        });
        assert_eq!(app.0["lifecycle"], expected);
    }

    #[test]
    fn every_port_that_is_none_is_told() {
        let mut pod = pod(&json!({
            "name": "app",
            "ports": [{"name": "web", "containerPort": 8080}],
            "livenessProbe": {"httpGet": {"port": "wbe"}},
            "startupProbe": {"tcpSocket": {"port": 70000}},
        }));
        let told = rewrite(&mut pod, 15020).expect_err("bad ports").to_string();
        let text = "is no port; expected 1 to 65535, or a name of the container's: web";
        assert!(told.contains(&format!("livenessProbe of the container app: \"wbe\" {text}")), "{told}");
        assert!(told.contains(&format!("startupProbe of the container app: \"70000\" {text}")), "{told}");
    }
}
