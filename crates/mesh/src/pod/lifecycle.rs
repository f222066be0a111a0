//! Containers of a pod by when they run and where: those that need the network before there is a proxy, proxies that outlive
//! their Job, settings that injection adds, and runtimes whose pods have a network stack of their own.

use super::applications::{Application, application, injected};
use super::facts::{Container, Pod};
use super::init::{Init, VALIDATION};
use super::manifest::ManifestObject;
use super::reading::{CaptureMethod, Reading};
use crate::mesh::Mesh;
use crate::settings::mapping::PROXY;
use rules::finding::{Code, Finding, Level};
use std::collections::BTreeSet;

/// Init containers of injectors that test the rules of a plugin.
const VALIDATORS: [&str; 3] = [VALIDATION, "linkerd-network-validator", "kuma-validation"];
/// The annotation of Istio that asks for a native sidecar, or refuses one.
const NATIVE: &str = "sidecar.istio.io/nativeSidecar";

/// The annotation of Kuma that names a ConfigMap with settings, which its injector writes into the pod.
const CONFIG_MAP: &str = "traffic.kuma.io/transparent-proxy-configmap-name";

/// The init containers that end before the proxy starts, and run when the rules are set: behind the init container that sets
/// them, or any where a plugin does.
pub(super) fn early(pod: &Pod, reading: &Reading, inits: &[Init]) -> Vec<Application> {
    let mesh = reading.settings.raw.mesh();
    let has_proxy = mesh.pods().is_none_or(|form| form.proxy.is_some());
    let Some(spec) = pod.spec.as_ref().filter(|_| reading.skip.is_none() && has_proxy) else {
        return Vec::new();
    };
    let is_setter =
        |one: &Container| matches!(&reading.way, CaptureMethod::InitContainer(name) if *name == one.name);
    let start = spec.init_containers.iter().position(is_setter).map_or(0, |at| at + 1);
    let injected = injected(pod);
    let is_proxy = |one: &&Container| one.always_restarts && injected.contains(&one.name);
    let before_proxy = spec.init_containers[start..].iter().take_while(|one| !is_proxy(one));
    let setters: BTreeSet<&str> = inits.iter().map(|init| init.name.as_str()).chain(VALIDATORS).collect();
    let is_of_mesh = |name: &String| setters.contains(name.as_str()) || injected.contains(name);
    let others = before_proxy.filter(|one| !one.always_restarts && !is_of_mesh(&one.name));
    others.map(|container| application(spec, container)).collect()
}

/// Remarks about a proxy that keeps a Job alive, about settings that only an injector reads, and about a runtime class in which
/// the rules have no effect.
pub(super) fn remarks(object: &ManifestObject, reading: &Reading) -> Vec<Finding> {
    let Some(spec) = &object.pod.spec else { return Vec::new() };
    let mut remarks = Vec::new();
    let is_job = ["Job", "CronJob"].contains(&object.kind.as_str())
        || object.pod.labels.as_ref().is_some_and(|labels| labels.contains_key("job-name"));
    let mut words = spec.containers.iter().flat_map(|one| one.command.iter().chain(&one.args));
    let is_ended = words.any(|word| word.contains("quitquitquit") || word.contains("shutdown"));
    // Kuma's control plane ends its proxies when the other containers have ended (`pod_status_controller.go`).
    let staying = [Some(PROXY), Mesh::Linkerd.pods().and_then(|form| form.proxy)];
    let proxy =
        spec.containers.iter().map(|one| one.name.as_str()).find(|name| staying.contains(&Some(name)));
    let refuses_native = object.pod.annotations.get(NATIVE).is_some_and(|value| value == "false");
    let is_before = reading.skip.as_ref().is_some_and(|skip| skip.is_before_injection());
    let proxy = proxy.or_else(|| (is_before && refuses_native).then_some(PROXY));
    if let Some(proxy) = proxy.filter(|_| is_job && !is_ended) {
        let text = format!(
            "container {proxy} runs on when the others have ended, so that the Job never completes; use a native sidecar, or \
             end the proxy with the last command of the Job"
        );
        remarks.push(Finding::plain(Level::Warning, Code::JobKeptAlive, text));
    }
    if let Some(map) = object.pod.annotations.get(CONFIG_MAP).filter(|_| is_before) {
        let text = format!(
            "{CONFIG_MAP} is {map:?}, a ConfigMap that is not read, so that its settings are missing here; give them as flags, or \
             show the injected pod"
        );
        remarks.push(Finding::plain(Level::Warning, Code::AmbiguousManifest, text));
    }
    let class = spec.runtime_class.to_lowercase();
    let has_own_stack = ["kata", "gvisor", "runsc"].iter().any(|name| class.contains(name));
    let is_by_plugin = reading.way == CaptureMethod::Annotations && (is_before || reading.skip.is_none());
    if has_own_stack && is_by_plugin {
        let level = if is_before { Level::Note } else { Level::Warning };
        let text = format!(
            "runtimeClassName {} gives the pod a network stack in which rules of a CNI plugin have no effect; set the rules in \
             an init container, or exclude the pod from the mesh",
            spec.runtime_class
        );
        remarks.push(Finding::plain(level, Code::OwnNetworkStack, text));
    }
    remarks
}
