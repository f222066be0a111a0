//! One place to scrape: Istio's agent answers Prometheus for the application and the proxy, and is told by a variable where
//! the application's own metrics are.

use super::PROXY;
use super::pod::{Item, Pod};
use policy::sources::boolean;
use serde::{Deserialize, Serialize};

/// The variable that tells the agent of the annotations that it has taken the place of.
const VARIABLE: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";
/// Where the agent answers.
const PATH: &str = "/stats/prometheus";
/// What a pod's annotations say to Prometheus, in the form that the agent reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Scrape {
    scrape: String,
    path: String,
    port: String,
}

/// Which of the three an annotation is. Prometheus takes any character that a label can't have for an underscore.
fn part(annotation: &str) -> Option<&'static str> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    match annotation.chars().map(plain).collect::<String>().as_str() {
        "prometheus_io_scrape" => Some("scrape"),
        "prometheus_io_path" => Some("path"),
        "prometheus_io_port" => Some("port"),
        _ => None,
    }
}

impl Scrape {
    fn of(pod: &Pod) -> Self {
        let mut found = Self::default();
        for (name, value) in &pod.annotations {
            match part(name) {
                Some("scrape") => found.scrape.clone_from(value),
                Some("path") => found.path.clone_from(value),
                Some(_) => found.port.clone_from(value),
                None => {}
            }
        }
        found
    }

    /// Puts these in the place of whatever the pod says.
    fn annotate(self, pod: &mut Pod) {
        pod.annotations.retain(|name, _| part(name).is_none());
        for (name, value) in [("scrape", self.scrape), ("path", self.path), ("port", self.port)] {
            if !value.is_empty() {
                pod.annotations.insert(format!("prometheus.io/{name}"), value);
            }
        }
    }
}

/// Sends Prometheus to the agent, and the agent to the application.
pub(super) fn merge(pod: &mut Pod, status_port: u16) {
    let said = Scrape::of(pod);
    let refuses = boolean(&said.scrape) == Some(false);
    // Whoever names the agent's own port has seen to it himself.
    if refuses || said.port == status_port.to_string() {
        return;
    }
    let Some(proxy) = pod.container_mut(PROXY) else { return };
    if said != Scrape::default() {
        proxy.set_variable(VARIABLE, &serde_json::to_string(&said).expect("texts are JSON"));
    }
    let agent = Scrape { scrape: "true".to_owned(), path: PATH.to_owned(), port: status_port.to_string() };
    agent.annotate(pod);
}

/// Gives back the annotations that an earlier injection has taken the place of.
pub(super) fn restore(pod: &mut Pod, earlier: &Item) {
    let now = Scrape::of(pod);
    // What points elsewhere was written since.
    if now.path != PATH || now.scrape != "true" {
        return;
    }
    let before = earlier.variable(VARIABLE).map(serde_json::from_str::<Scrape>);
    match before {
        Some(Ok(before)) => before.annotate(pod),
        // The agent asks nobody, so there was nothing before.
        None => Scrape::default().annotate(pod),
        Some(Err(_)) => {}
    }
}
