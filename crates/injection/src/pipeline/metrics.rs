//! Merged metrics: Istio's agent serves Prometheus for the application and the proxy, and reads the location of the application's
//! own metrics from a variable.

use super::pod::{CheckedPod, PodSpecItem};
use crate::{mesh_config::STATUS_PORT as DEFAULT_PORT, sidecar::PROXY, template::go};
use mesh::istio::annotations::{SCRAPE_TARGETS, STATUS_PORT};
use mesh::{InputProblem, Problems, sources::boolean};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Variable with the original annotations, which injection replaces.
const VARIABLE: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";
const PATH: &str = "/stats/prometheus";
/// Path of application metrics if only a port is given.
const DEFAULT_PATH: &str = "/metrics";

/// Variable with the port of the merged metrics over mutual TLS, and its annotation for Prometheus.
const SECURE_VARIABLE: &str = "ENVOY_SECURE_MERGED_METRICS_PORT";
const SECURE_PORT: &str = "prometheus.istio.io/secure-port";

/// Ports of the proxy and its agent, whose metrics are already merged, or absent.
const RESERVED: [u16; 9] = [15000, 15001, 15004, 15006, 15008, 15020, 15021, 15053, 15090];

/// Annotations for Prometheus in the agent's format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Scrape {
    scrape: String,
    path: String,
    port: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<ScrapeTarget>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ScrapeTarget {
    port: String,
    path: String,
}

/// Returns an annotation's field. In names, Prometheus replaces all characters except letters and digits with underscores.
fn part(annotation: &str) -> Option<&'static str> {
    match annotation.replace(|c: char| !c.is_ascii_alphanumeric(), "_").as_str() {
        "prometheus_io_scrape" => Some("scrape"),
        "prometheus_io_path" => Some("path"),
        "prometheus_io_port" => Some("port"),
        "prometheus_istio_io_scrape_targets" => Some("targets"),
        _ => None,
    }
}

impl Scrape {
    /// A pod's annotations, and a warning about unreadable targets, which count as absent.
    fn of(pod: &CheckedPod) -> (Self, Option<String>) {
        let (mut found, mut warning) = (Self::default(), None);
        for (name, value) in pod.annotations() {
            match part(name) {
                Some("scrape") => value.clone_into(&mut found.scrape),
                Some("path") => value.clone_into(&mut found.path),
                Some("port") => value.clone_into(&mut found.port),
                Some(_) => match targets(value) {
                    Ok(targets) => found.targets = targets,
                    Err(item) => {
                        warning = Some(format!(
                            "the annotation {name} has no effect: {item:?} has no port; expected PORT:PATH,.."
                        ));
                    }
                },
                None => {}
            }
        }
        (found, warning)
    }

    /// Writes the annotations. Targets make path and port, which repeat the first target, redundant.
    fn annotate(self, pod: &mut CheckedPod) {
        pod.retain_annotations(|name| part(name).is_none());
        let Self { scrape, path, port, targets } = self;
        let texts: Vec<String> = targets.iter().map(|it| format!("{}:{}", it.port, it.path)).collect();
        let [path, port] = if texts.is_empty() { [path, port] } else { Default::default() };
        let all =
            [("prometheus.io/scrape", scrape), ("prometheus.io/path", path), ("prometheus.io/port", port)];
        for (name, value) in all.into_iter().chain([(SCRAPE_TARGETS, texts.join(","))]) {
            if !value.is_empty() {
                pod.set("annotations", name, value);
            }
        }
    }

    /// Problems of ports that make the agent exit at startup, or scrape itself.
    fn problems(&self, agent: u16) -> Vec<InputProblem> {
        let targets = self.targets.iter().map(|target| (SCRAPE_TARGETS, &target.port));
        let alone =
            (self.targets.is_empty() && !self.port.is_empty()).then_some(("prometheus.io/port", &self.port));
        let problem = |(name, port): (&str, &String)| {
            let text = match port.parse() {
                Err(_) | Ok(0) => "is not a port; expected a number from 1 to 65535",
                Ok(port) if port == agent || RESERVED.contains(&port) => {
                    "is one of Istio's own ports; expected an application port"
                }
                Ok(_) => return None,
            };
            Some(InputProblem::with_item(name, port, text))
        };
        targets.chain(alone).filter_map(problem).collect()
    }
}

fn targets(text: &str) -> Result<Vec<ScrapeTarget>, &str> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let target = |item| {
        let (port, path) = str::split_once(item, ':').unwrap_or((item, ""));
        let path = Some(path.trim()).filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH);
        match port.trim() {
            "" => Err(item),
            port => Ok(ScrapeTarget { port: port.to_owned(), path: path.to_owned() }),
        }
    };
    items.map(target).collect()
}

/// Makes Prometheus scrape the agent, and the agent the application. Returns a warning.
pub(super) fn merge(pod: &mut CheckedPod, status_port: u16) -> Result<Option<String>, Problems> {
    let (mut given, warning) = Scrape::of(pod);
    // A pod annotated with the agent's port is already configured.
    if boolean(&given.scrape) == Some(false) || given.port == status_port.to_string() {
        return Ok(None);
    }
    Problems::check(given.problems(status_port))?;
    // Agents before Istio 1.31 support one target.
    if let Some(ScrapeTarget { port, path }) = given.targets.first().cloned() {
        given = Scrape { port, path, ..given };
    }
    if given != Scrape::default()
        && let Some(proxy) = pod.container_mut(PROXY)
    {
        let json = serde_json::to_string(&given).expect("texts are JSON");
        proxy.set_variable(VARIABLE, &go::as_go_writes(&json));
    }
    let (scrape, path, port) = ("true".to_owned(), PATH.to_owned(), status_port.to_string());
    Scrape { scrape, path, port, targets: Vec::new() }.annotate(pod);
    Ok(warning)
}

pub(super) fn annotate_secure_port(pod: &mut CheckedPod) {
    let port = pod.container(PROXY).and_then(|(_, proxy)| secure_port(proxy)).map(str::to_owned);
    let port = port.filter(|_| pod.annotation(SECURE_PORT).is_none());
    port.into_iter().for_each(|port| pod.set("annotations", SECURE_PORT, port));
}

fn secure_port(proxy: &Value) -> Option<&str> {
    proxy.variable(SECURE_VARIABLE).filter(|port| !["", "0"].contains(port))
}

/// Possible ports of an earlier injection's agent: annotated, configured and default.
fn agent_ports(pod: &CheckedPod, earlier: &Value) -> [Option<u16>; 3] {
    let annotated = pod.annotation(STATUS_PORT).and_then(|text| text.trim().parse().ok());
    let config = earlier.variable("PROXY_CONFIG").and_then(|text| serde_json::from_str::<Value>(text).ok());
    let configured = config.and_then(|config| u16::try_from(config.get("statusPort")?.as_u64()?).ok());
    [annotated, configured, Some(DEFAULT_PORT)]
}

/// Restores the annotations that an earlier injection has replaced; `earlier` is its proxy.
pub(super) fn restore(pod: &mut CheckedPod, earlier: &Value) {
    if let Some(port) = secure_port(earlier)
        && pod.annotation(SECURE_PORT) == Some(port)
    {
        pod.retain_annotations(|name| name != SECURE_PORT);
    }
    let (now, _) = Scrape::of(pod);
    let is_agents = now.port.parse::<u16>().is_ok_and(|port| agent_ports(pod, earlier).contains(&Some(port)));
    // Annotations with another path were written later.
    if now.path != PATH || now.scrape != "true" {
        return;
    }
    let before = earlier.variable(VARIABLE).map(serde_json::from_str::<Scrape>);
    match before {
        Some(Ok(before)) => before.annotate(pod),
        // The agent scrapes no application, so there were no annotations.
        None if is_agents => Scrape::default().annotate(pod),
        // Without the variable, annotations with another port are the user's; an unreadable variable restores nothing.
        None | Some(Err(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_annotations_of_the_agent_are_removed() {
        let check = |port: &str, env: &Value, annotated: Option<&str>, stays: bool| {
            let proxy = json!({"name": PROXY, "env": env});
            let written = json!({"spec": {"containers": [proxy]}});
            let mut pod = CheckedPod::read("pod", written).expect("a pod");
            for (name, value) in [("scrape", "true"), ("path", PATH), ("port", port)] {
                pod.set("annotations", format!("prometheus.io/{name}"), value);
            }
            annotated.into_iter().for_each(|port| pod.set("annotations", STATUS_PORT, port));
            restore(&mut pod, &proxy);
            assert_eq!(Scrape::of(&pod).0 != Scrape::default(), stays, "{port} {env} {annotated:?}");
        };
        let none = json!([]);
        let configured = json!([{"name": "PROXY_CONFIG", "value": r#"{"statusPort":15030}"#}]);
        check("15020", &none, None, false);
        check("15030", &configured, None, false);
        check("15040", &none, Some(" 15040"), false);
        for own in ["15090", "9901", "http"] {
            check(own, &none, None, true);
            check(own, &configured, Some("15040"), true);
        }
    }
}
