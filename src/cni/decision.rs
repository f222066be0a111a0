//! Decides whether a container's traffic is captured, and by which settings, from the runtime's call and its configuration.

use super::protocol::{ANNOTATIONS, CniError, CniErrorCode, CniResult, PluginConfiguration, RuntimePod};
use mesh::pod::{self, annotated};
use mesh::sources::{Given, Raw, SettingReader, Source};
use mesh::{Capture, Host, InputProblem, Setting};
use std::{io, net::IpAddr, path::Path};

pub(super) enum CaptureDecision {
    Capture(Raw, Vec<InputProblem>),
    Nothing(String),
}

/// Decides whether to capture a container. Configured `capture` covers uninjected containers too; other skip reasons remain.
pub(super) fn decide(
    configuration: &PluginConfiguration<'_>,
    pod: &RuntimePod,
    look_up_pod: impl FnOnce(&Path, &str, &str) -> CniResult<pod::Pod>,
) -> CniResult<CaptureDecision> {
    let PluginConfiguration { annotations, capture, defaults, excluded_namespaces, kubeconfig, .. } =
        configuration;
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let (name, namespace) = (name(&pod.name), name(&pod.namespace));
    let mut known = pod::Pod::annotated(&name, &namespace, annotations.clone().unwrap_or_default());
    let mut skip = pod::skip(&known, excluded_namespaces);
    if let Some(kubeconfig) = kubeconfig
        && needs_lookup(skip.as_ref(), annotations.is_some())
    {
        known = look_up_pod(kubeconfig, &namespace, &name)?;
        skip = pod::skip(&known, excluded_namespaces);
    }
    let title = format!("pod {}", pod.label().unwrap_or_default());
    Ok(match (skip, capture) {
        (None, capture) => {
            let layers = capture.clone().unwrap_or_default().over(defaults.clone());
            let read = annotated(&known, &title, &layers);
            let problems = read.problems();
            CaptureDecision::Capture(read.raw, problems)
        }
        (Some(pod::Skip::NotInjected), None) if annotations.is_none() && kubeconfig.is_none() => {
            CaptureDecision::Nothing(no_annotations(configuration.requests_annotations))
        }
        (Some(skip), None) => CaptureDecision::Nothing(skip.to_string()),
        // For a pod that the runtime did not name, an earlier skip reason would hide the relevant one.
        (Some(_), Some(capture)) => match pod::skip_unnamed(&known, excluded_namespaces) {
            Some(skip) if !skip.is_before_injection() => CaptureDecision::Nothing(skip.to_string()),
            Some(_) | None => uninjected(&known, &title, capture),
        },
    })
}

/// Skip reason if neither the runtime nor the API server gives annotations.
fn no_annotations(are_requested: bool) -> String {
    let remedy = if are_requested {
        "a delegating plugin, such as Multus, does not pass on the entry's capability: set kubeconfig or capture in the entry"
    } else {
        "the entry in the network configuration lacks \"capabilities\""
    };
    format!(
        "the runtime passed no annotations, which identify injected pods ({{\"{ANNOTATIONS}\": true}}); {remedy}"
    )
}

/// True if data from the API server could change the decision: complete annotations show whether a pod was injected.
fn needs_lookup(skip: Option<&pod::Skip>, annotations_are_known: bool) -> bool {
    match skip {
        Some(pod::Skip::Nameless | pod::Skip::NamespaceExcluded(_)) => false,
        Some(pod::Skip::NotInjected) => !annotations_are_known,
        Some(_) | None => true,
    }
}

/// A pod without an injected sidecar has no proxy to infer settings from; only its annotations matter.
fn uninjected(pod: &pod::Pod, title: &str, capture: &Raw) -> CaptureDecision {
    let read = annotated(pod, title, capture);
    let from_annotations = read.raw.iter().filter(|(_, given)| matches!(given.source, Source::Annotation(_)));
    let from_annotations =
        Raw::of(from_annotations.map(|(setting, given)| (setting, given.clone()))).of_pod(title);
    CaptureDecision::Capture(from_annotations.over(capture.clone()), read.problems())
}

pub(super) struct ResolvedCapture {
    pub(super) capture: Capture,
    /// Settings with the pod's addresses, so that later readings resolve them alike.
    pub(super) raw: Raw,
    pub(super) warnings: Vec<String>,
}

pub(super) fn resolve(
    raw: Raw,
    before: Vec<InputProblem>,
    addresses: &[IpAddr],
) -> CniResult<ResolvedCapture> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let pod_ips = Given { value: addresses.join(","), source: Source::Default(Setting::PodIps) };
    let raw = raw.over(Raw::of([(Setting::PodIps, pod_ips)]));
    let mut reader = SettingReader::new(&raw, before);
    let capture = mesh::configure(&mut reader, &NodeHost, /* numbers_only */ true);
    match reader.finish() {
        Ok(warnings) => Ok(ResolvedCapture { capture, raw, warnings }),
        Err(problems) => {
            Err(CniError::of_problems(CniErrorCode::Configuration, "invalid settings", &problems.0))
        }
    }
}

/// The node, which has neither the users nor the DNS servers of a container.
struct NodeHost;

impl Host for NodeHost {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("only the node's DNS servers are known, not the container's"))
    }
}
