//! Sets a pod's rules from the node, with the plugin's own parser and engine.

use crate::arguments::Repair;
use crate::sandbox::{self, PodSandboxError};
use cluster::error::describe;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use mesh::pod::{self, KubernetesObject, Reading};
use mesh::{Host, Problems};
use rules::desired::Desired;
use sidecar_init::backend::iptables::Lock;
use sidecar_init::engine::{self, Choice, Session};
use sidecar_init::sys::{address, namespace};
use std::{io, net::IpAddr, path::PathBuf, time::SystemTime};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodActionOutcome {
    /// The completed action, as a sentence.
    Done(String),
    /// The reason why no action is needed.
    Skipped(String),
    Gone,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PodActionFailure {
    #[error("cannot find the pod's network namespace: {0}")]
    Lost(#[from] PodSandboxError),
    #[error("invalid pod settings:\n{0}")]
    Settings(Problems),
    #[error("the namespace {} can't be entered; CAP_SYS_ADMIN is required", .0.display())]
    Enter(PathBuf, #[source] io::Error),
    #[error("{} is, or may be, the machine's own network namespace: /proc is required to check", .0.display())]
    Host(PathBuf),
    #[error("the pod's traffic can't be captured: {0}")]
    Engine(#[from] engine::EngineError),
    #[error("the rules disappeared right after they were set; another program is changing them\n{0}")]
    Unproven(engine::Differences),
    #[error("request to the API server failed: {}", describe(&**.0))]
    Api(Box<kube::Error>),
    #[error("the repair task panicked")]
    Panic,
}

/// Seconds to wait for another program that changes the pod's rules.
const LOCK_WAIT: u32 = 10;

/// Sets the rules of a pod and verifies them. Idempotent.
pub(crate) fn repair(pod: &Pod, settings: &Repair) -> Result<PodActionOutcome, PodActionFailure> {
    let sandbox = sandbox::find(&settings.places, &pod.uid().unwrap_or_default(), &addresses(pod))?;
    let mut value = serde_json::to_value(pod).expect("a pod has text keys");
    // Objects in an API server's list have no kind.
    value["apiVersion"] = "v1".into();
    value["kind"] = "Pod".into();
    let object = KubernetesObject::of(value).iter().find_map(KubernetesObject::pod);
    let reading = pod::read(&object.expect("it is a pod"), &settings.excluded_namespaces);
    if let Some(skip) = &reading.skip {
        return Ok(PodActionOutcome::Skipped(skip.to_string()));
    }
    if let pod::CaptureMethod::InitContainer(name) = &reading.way {
        return Ok(PodActionOutcome::Skipped(format!("its init container {name} sets the rules")));
    }
    let work = || match namespace::is_host() {
        Some(false) => capture(pod, &reading, settings.backend),
        Some(true) | None => Err(PodActionFailure::Host(sandbox.found.clone())),
    };
    let entered = namespace::within(&sandbox.path(), work);
    entered.map_err(|error| PodActionFailure::Enter(sandbox.found.clone(), error))?
}

fn capture(pod: &Pod, reading: &Reading, choice: Choice) -> Result<PodActionOutcome, PodActionFailure> {
    let resolved = reading.settings.resolve(&Inside).map_err(PodActionFailure::Settings)?;
    let capture = resolved.capture;
    if capture.facts().captures_nothing {
        return Ok(PodActionOutcome::Skipped("its settings capture nothing".to_owned()));
    }
    let lock = Lock::on_node(LOCK_WAIT);
    let mut session =
        Session::open(lock, capture.owner(), choice, mesh::OWNERS).map_err(engine::EngineError::from)?;
    let at = diagnose::trace::utc(SystemTime::now());
    let settings = mesh::settings_text(&reading.settings.raw);
    let made = mesh::made(env!("CARGO_PKG_VERSION"), "sidecar-node-repair", settings, &at);
    let desired = Desired { made: Some(made), ..capture.desired() };
    let summary = session.apply(&desired)?;
    let compared = session.check(&desired)?;
    if !compared.differences.is_empty() {
        return Err(PodActionFailure::Unproven(compared.differences));
    }
    let of_form = reading.warnings.iter().map(|warning| mesh::visible(&warning.text));
    for warning in of_form.chain(resolved.warnings).chain(session.preceding_rules_if_known()) {
        tracing::warn!(pod = %named(pod), "{warning}");
    }
    let how = match summary.steps.is_empty() {
        true => "already in its namespace",
        false => "set in its namespace and verified",
    };
    Ok(PodActionOutcome::Done(format!("{} rules ({}) are {how}", summary.rules, compared.backend)))
}

pub(crate) fn named(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let many = status.pod_ips.iter().flatten().map(|address| address.ip.as_str());
    many.chain(status.pod_ip.as_deref()).filter_map(|address| address.parse().ok()).collect()
}

/// The pod's namespace entered from the node, whose users and DNS servers are not the pod's.
struct Inside;

impl Host for Inside {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("the node's DNS servers are not the pod's"))
    }
}
