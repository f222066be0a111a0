//! One place to scrape: Istio's agent answers Prometheus for the application and the proxy, and learns by a variable where
//! the application's own metrics are.

use super::pod::{CheckedPod, PodSpecItem};
use crate::mesh_config::STATUS_PORT as DEFAULT_PORT;
use crate::sidecar::PROXY;
use crate::template::go;
use mesh::istio::annotations::{SCRAPE_TARGETS, STATUS_PORT};
use mesh::sources::boolean;
use mesh::{InputProblem, Problems};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The variable with the annotations whose place the agent has taken.
const VARIABLE: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";
const PATH: &str = "/stats/prometheus";
/// The path of an application's metrics where only a port is given.
const DEFAULT_PATH: &str = "/metrics";

/// The variable of the merged metrics over mutual TLS, and the annotation by which Prometheus finds them.
const SECURE_VARIABLE: &str = "ENVOY_SECURE_MERGED_METRICS_PORT";
const SECURE_PORT: &str = "prometheus.istio.io/secure-port";

/// Ports of the proxy and of its agent. Their metrics are merged already, or they have none.
const RESERVED: [(u16, &str); 9] = [
    (15000, "Envoy's administration"),
    (15001, "outbound capture"),
    (15004, "debugging of the control plane"),
    (15006, "inbound capture"),
    (15008, "the HBONE tunnel"),
    (15020, "the agent's merged metrics"),
    (15021, "the proxy's readiness"),
    (15053, "the DNS proxy"),
    (15090, "Envoy's metrics"),
];

/// Annotations for Prometheus, in the form that the agent reads.
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

/// An annotation without the characters that Prometheus takes for an underscore.
fn plain(annotation: &str) -> String {
    annotation.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn part(annotation: &str) -> Option<&'static str> {
    match plain(annotation).as_str() {
        "prometheus_io_scrape" => Some("scrape"),
        "prometheus_io_path" => Some("path"),
        "prometheus_io_port" => Some("port"),
        _ => None,
    }
}

impl Scrape {
    fn of(pod: &CheckedPod) -> Self {
        let mut found = Self::default();
        for (name, value) in pod.annotations() {
            match part(name) {
                Some("scrape") => value.clone_into(&mut found.scrape),
                Some("path") => value.clone_into(&mut found.path),
                Some(_) => value.clone_into(&mut found.port),
                None => {}
            }
        }
        found
    }

    fn annotate(self, pod: &mut CheckedPod) {
        pod.retain_annotations(|name| part(name).is_none());
        for (name, value) in [("scrape", self.scrape), ("path", self.path), ("port", self.port)] {
            if !value.is_empty() {
                pod.set("annotations", format!("prometheus.io/{name}"), value);
            }
        }
    }

    /// Ports that make the agent exit when it starts, or that it would scrape itself at.
    fn problems(&self, agent: u16) -> Vec<InputProblem> {
        let targets = self.targets.iter().map(|target| (SCRAPE_TARGETS, &target.port));
        let alone =
            (self.targets.is_empty() && !self.port.is_empty()).then_some(("prometheus.io/port", &self.port));
        let fault = |port: &str| match port.parse::<u16>() {
            Err(_) | Ok(0) => Some("is not a port; expected a number from 1 to 65535".to_owned()),
            Ok(port) if port == agent => {
                Some("is the agent's own port, which would scrape itself".to_owned())
            }
            Ok(port) => {
                let (_, whose) = RESERVED.iter().find(|(reserved, _)| *reserved == port)?;
                Some(format!("is Istio's own port for {whose}; expected one of the application's"))
            }
        };
        let problem = |(name, port): (&str, &String)| Some(InputProblem::with_item(name, port, fault(port)?));
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

/// Sends Prometheus to the agent, and the agent to the application. Returns a warning.
pub(super) fn merge(pod: &mut CheckedPod, status_port: u16) -> Result<Option<String>, Problems> {
    let mut given = Scrape::of(pod);
    let refuses = boolean(&given.scrape) == Some(false);
    // A pod that names the agent's own port is configured already.
    if refuses || given.port == status_port.to_string() {
        return Ok(None);
    }
    let desired = plain(SCRAPE_TARGETS);
    let several = pod.annotations().find(|(name, _)| plain(name) == desired).map(|(_, text)| targets(text));
    let mut warning = None;
    match several {
        Some(Ok(targets)) => given.targets = targets,
        Some(Err(item)) => {
            warning = Some(format!(
                "the annotation {SCRAPE_TARGETS} has {item:?}, which names no port, and has no effect; expected PORT:PATH,.."
            ));
        }
        None => {}
    }
    let problems = given.problems(status_port);
    Problems::check(problems)?;
    let Some(proxy) = pod.container_mut(PROXY) else { return Ok(warning) };
    if given != Scrape::default() {
        let json = serde_json::to_string(&given).expect("texts are JSON");
        proxy.set_variable(VARIABLE, &go::as_go_writes(&json));
    }
    let agent = Scrape {
        scrape: "true".to_owned(),
        path: PATH.to_owned(),
        port: status_port.to_string(),
        targets: Vec::new(),
    };
    agent.annotate(pod);
    Ok(warning)
}

pub(super) fn annotate_secure_port(pod: &mut CheckedPod) {
    let port = pod.container(PROXY).and_then(|(_, proxy)| secure_port(proxy)).map(str::to_owned);
    port.into_iter().for_each(|port| pod.set("annotations", SECURE_PORT, port));
}

fn secure_port(proxy: &Value) -> Option<&str> {
    let port = proxy.variable(SECURE_VARIABLE)?;
    port.parse::<u16>().is_ok_and(|port| port != 0).then_some(port)
}

/// The ports at which the agent of an earlier injection may answer: the annotated one, the configured one and the default.
fn agent_ports(pod: &CheckedPod, earlier: &Value) -> [Option<u16>; 3] {
    let annotated = pod.annotation(STATUS_PORT).and_then(|text| text.trim().parse().ok());
    let config = earlier.variable("PROXY_CONFIG").and_then(|text| serde_json::from_str::<Value>(text).ok());
    let configured = config.and_then(|config| u16::try_from(config.get("statusPort")?.as_u64()?).ok());
    [annotated, configured, Some(DEFAULT_PORT)]
}

/// Restores the annotations that an earlier injection has replaced. `earlier` is its proxy.
pub(super) fn restore(pod: &mut CheckedPod, earlier: &Value) {
    if let Some(port) = secure_port(earlier)
        && pod.annotation(SECURE_PORT) == Some(port)
    {
        pod.retain_annotations(|name| name != SECURE_PORT);
    }
    let now = Scrape::of(pod);
    let is_agents = now.port.parse::<u16>().is_ok_and(|port| agent_ports(pod, earlier).contains(&Some(port)));
    // Annotations that point elsewhere were written since.
    if now.path != PATH || now.scrape != "true" {
        return;
    }
    let before = earlier.variable(VARIABLE).map(serde_json::from_str::<Scrape>);
    match before {
        Some(Ok(before)) => before.annotate(pod),
        // The agent scrapes nothing, so there was nothing before.
        None if is_agents => Scrape::default().annotate(pod),
        // Without the variable, annotations with another port are the user's own. Of an unreadable one nothing is known.
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
            assert_eq!(Scrape::of(&pod) != Scrape::default(), stays, "{port} {env} {annotated:?}");
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
