//! Settings of a manifest's object, and contradictions between an init container and annotations. An init container that sets
//! rules ignores annotations. Without one, a plugin reads the annotations, if it captures the pod at all.

use super::decision::{Skip, skip_unnamed};
use super::facts::{Container, Pod, Spec, Status};
use super::init::{self, Init, VALIDATION};
use super::{annotations::annotated, given::GivenSettings, objects::ManifestObject, unread::unknown_among};
use crate::settings::{Setting, SettingKind};
use crate::sources::{Given, Raw, Source, boolean};
use crate::{istio::defaults::PROXY_ID, mesh::Mesh, settings::mapping::PROXY};
use rules::finding::{Code, Finding, Level};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CaptureMethod {
    InitContainer(String),
    #[default]
    Annotations,
}

#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub way: CaptureMethod,
    pub settings: GivenSettings,
    pub skip: Option<Skip>,
    pub warnings: Vec<Finding>,
    pub applications: Vec<Application>,
    /// Init containers that end before the proxy starts, but run after the rules are set.
    pub early: Vec<Application>,
    pub interfaces: Vec<String>,
}

fn of_form(text: String) -> Finding {
    Finding::plain(Level::Warning, Code::AmbiguousManifest, text)
}

/// Reads the settings of an object. Pods that are not injected yet are read as if they were.
pub fn read(object: &ManifestObject, excluded_namespaces: &[impl AsRef<str>]) -> Reading {
    let pod = &object.pod;
    let containers = pod.spec.iter().flat_map(|spec| &spec.init_containers);
    let inits: Vec<Init> = containers.filter_map(|container| init::read(container, pod)).collect();
    let by_annotations = annotated(pod, "", &Raw::default());
    let mut setters = inits.iter().filter(|init| init.idle.is_none());
    let mut reading = match setters.next() {
        Some(setter) => by_init(setter, &by_annotations, object),
        None => by_plugin(&inits, by_annotations, object, excluded_namespaces),
    };
    if let CaptureMethod::InitContainer(first) = &reading.way {
        let text = |other: &Init| {
            format!("its init container {} sets rules too, but only {first}'s are read", other.name)
        };
        reading.warnings.extend(setters.map(|other| of_form(text(other))));
    }
    for Init { name, unread, .. } in &inits {
        let text =
            |argument: &String| format!("an argument of its init container {name} is ignored: {argument}");
        reading.warnings.extend(unread.iter().map(text).map(of_form));
    }
    if let Some(skip) = reading.skip.as_ref().filter(|skip| !skip.is_before_injection()) {
        let mut none = GivenSettings::default();
        let source = Source::Field(format!("the pod, because {skip}"));
        if reading.settings.raw.mesh() != Mesh::default() {
            none.set(Setting::Mesh, Mesh::default().name(), source.clone());
        }
        none.set(Setting::InterceptionMode, "NONE", source);
        reading.settings = none.over(reading.settings);
    }
    reading.settings = facts(object).over(reading.settings).of_pod(object.origin.clone());
    reading.applications = applications(pod);
    reading.early = early(pod, &reading, &inits);
    reading.interfaces = interfaces(&pod.annotations);
    reading.warnings.extend(remarks_of_containers(object, &reading));
    reading.warnings.extend(object.remarks.iter().cloned());
    let remark = |text: String| Finding::plain(Level::Warning, Code::UnknownAnnotation, text);
    reading.warnings.extend(unknown_among(pod.annotations.keys()).into_iter().map(remark));
    reading
}

fn by_init(setter: &Init, annotations: &GivenSettings, object: &ManifestObject) -> Reading {
    let name = &setter.name;
    let mut warnings = Vec::new();
    let on_host = object.pod.spec.as_ref().is_some_and(|spec| spec.host_network);
    if on_host {
        warnings.push(of_form(format!(
            "not captured: {}; its init container {name} would change the node's rules",
            Skip::HostNetwork
        )));
    }
    if let Some(standard) = object.enforced {
        let namespace = &object.pod.namespace;
        let text = format!(
            "namespace {namespace} enforces the Pod Security Standard {standard}, which refuses its init container \
             {name} (NET_ADMIN); let the CNI plugin set the rules, which needs no capability in the pod"
        );
        warnings.push(Finding::plain(Level::Warning, Code::PodSecurity, text));
    }
    if setter.may_have_more {
        warnings.push(of_form(format!(
            "its init container {name} takes variables from another object (envFrom), which may add options"
        )));
    }
    // Annotations that an init container reads itself can contradict only its arguments.
    let counts = "the init container's value is used";
    warnings.extend(disagreements(setter, &annotations.raw, setter.reads_annotations, counts));
    Reading {
        way: CaptureMethod::InitContainer(name.clone()),
        settings: match setter.reads_annotations {
            true => setter.settings.clone().over(annotations.clone()),
            false => setter.settings.clone(),
        },
        skip: on_host.then_some(Skip::HostNetwork),
        warnings,
        ..Reading::default()
    }
}

fn by_plugin(
    inits: &[Init],
    settings: GivenSettings,
    object: &ManifestObject,
    excluded: &[impl AsRef<str>],
) -> Reading {
    let exists = object.pod.spec.as_ref().is_some_and(|spec| !spec.addresses.is_empty());
    let skip = skip_unnamed(&object.pod, excluded).map(|skip| match skip.is_before_injection() && exists {
        true => Skip::Started(Box::new(skip)),
        false => skip,
    });
    let mut warnings = Vec::new();
    if let Some(skip) = &skip {
        // Application manifests are written before injection.
        let (yet, then) = match skip.is_before_injection() {
            true => (" yet", "; results apply after injection"),
            false => ("", ""),
        };
        let is_note = skip.is_before_injection() || skip.is_chosen(&object.pod);
        let level = if is_note { Level::Note } else { Level::Warning };
        warnings.push(Finding { level, ..of_form(format!("not captured{yet}: {skip}{then}")) });
    }
    for init @ Init { name, idle, .. } in inits {
        let idle = idle.unwrap_or("it sets no rules");
        if name != init::VALIDATION {
            warnings.push(of_form(format!("its init container {name} sets no rules: {idle}")));
        }
        // An idle container's missing settings do not matter.
        warnings.extend(disagreements(init, &settings.raw, true, "a plugin reads the pod's annotations"));
    }
    Reading { settings, skip, warnings, ..Reading::default() }
}

fn facts(object: &ManifestObject) -> GivenSettings {
    let mut settings = GivenSettings::default();
    settings.add_problems(object.problems.clone());
    let Some(spec) = &object.pod.spec else { return settings };
    if !spec.addresses.is_empty() {
        settings.set(Setting::PodIps, spec.addresses.join(","), Source::Field("status.podIPs".to_owned()));
    }
    if let Some(servers) = &spec.dns_servers {
        let source = Source::Field("spec.dnsConfig.nameservers".to_owned());
        settings.set(Setting::DnsServers, servers.join(","), source);
    }
    settings
}

/// Contradictions between an init container and annotations or the proxy's container; if `overlapping`, only common settings.
fn disagreements(init: &Init, annotations: &Raw, overlapping: bool, counts: &str) -> Vec<Finding> {
    let contrary = annotations.iter().filter(|(_, given)| match &given.source {
        Source::Annotation(_) => true,
        // The proxy's variables are left out: in an init container, Istio gives them another meaning.
        Source::Container { word, .. } => word.starts_with("runAs"),
        _ => false,
    });
    let differing = contrary.filter_map(|(setting, given)| {
        let stated = |setting| init.settings.raw.get(setting);
        // Without groups, the rules match the users' numbers.
        let users = || stated(Setting::ProxyUid).filter(|_| setting == Setting::ProxyGid);
        let other = stated(setting).or_else(users);
        let value = other.map_or("", |given| given.value.as_str());
        let said_by = match other {
            Some(Given { source, .. }) => format!("{source} {value:?}"),
            None if overlapping => return None,
            None => format!("the init container has no {}", setting.row().option()),
        };
        let differs = items(setting, value) != items(setting, &given.value);
        differs.then(|| of_form(format!("{} is {:?}, but {said_by}; {counts}", given.source, given.value)))
    });
    differing.collect()
}

fn items(setting: Setting, value: &str) -> BTreeSet<String> {
    let value = match (setting, value) {
        (Setting::InterceptionMode, "") => "REDIRECT".to_owned(),
        (Setting::InterceptionMode, mode) => mode.to_ascii_uppercase(),
        (Setting::ProxyUid | Setting::ProxyGid, "") => PROXY_ID.to_string(),
        (Setting::Mesh, "") => Mesh::default().name().to_owned(),
        (setting, value) if setting.row().kind == SettingKind::Switch => {
            boolean(value.trim()).map_or_else(|| value.to_owned(), |is_on| is_on.to_string())
        }
        (_, value) => value.to_owned(),
    };
    value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub container: String,
    pub user: Option<Id>,
    pub group: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    pub number: u32,
    pub is_of_pod: bool,
}

fn applications(pod: &Pod) -> Vec<Application> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecars = spec.init_containers.iter().filter(|container| container.always_restarts);
    let running = spec.containers.iter().chain(sidecars);
    let injected = injected(pod);
    let others = running.filter(|container| !injected.contains(&container.name));
    others.map(|container| application(spec, container)).collect()
}

/// Names of proxies and of injected containers, from the injector's record: templates choose these names.
fn injected(pod: &Pod) -> BTreeSet<String> {
    let proxies = Mesh::ALL.iter().filter_map(|mesh| mesh.pods()?.proxy).chain([PROXY]).map(str::to_owned);
    let status = pod.status();
    proxies.chain(status.iter().flat_map(Status::added).cloned()).collect()
}

fn application(spec: &Spec, container: &Container) -> Application {
    let id = |own: &Option<String>, of_pod: &Option<String>| {
        let id = own.as_ref().or(of_pod.as_ref())?;
        Some(Id { number: id.parse().ok()?, is_of_pod: own.is_none() })
    };
    Application {
        container: container.name.clone(),
        user: id(&container.run_as_user, &spec.run_as_user),
        group: id(&container.run_as_group, &spec.run_as_group),
    }
}

const VALIDATORS: [&str; 3] = [VALIDATION, "linkerd-network-validator", "kuma-validation"];
const NATIVE: &str = "sidecar.istio.io/nativeSidecar";

/// Annotation that names a ConfigMap, whose settings Kuma's injector writes into the pod.
const CONFIG_MAP: &str = "traffic.kuma.io/transparent-proxy-configmap-name";

fn early(pod: &Pod, reading: &Reading, inits: &[Init]) -> Vec<Application> {
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

/// Remarks about a proxy that keeps a Job alive, settings for an injector, and a runtime class with its own network stack.
fn remarks_of_containers(object: &ManifestObject, reading: &Reading) -> Vec<Finding> {
    let Some(spec) = &object.pod.spec else { return Vec::new() };
    let mut remarks = Vec::new();
    let is_job = ["Job", "CronJob"].contains(&object.kind.as_str())
        || object.pod.labels.as_ref().is_some_and(|labels| labels.contains_key("job-name"));
    let mut words = spec.containers.iter().flat_map(|one| one.command.iter().chain(&one.args));
    let is_ended = words.any(|word| word.contains("quitquitquit") || word.contains("shutdown"));
    // Kuma's control plane ends its proxies after the other containers (`pod_status_controller.go`).
    let staying = [Some(PROXY), Mesh::Linkerd.pods().and_then(|form| form.proxy)];
    let proxy =
        spec.containers.iter().map(|one| one.name.as_str()).find(|name| staying.contains(&Some(name)));
    let refuses_native = object.pod.annotations.get(NATIVE).is_some_and(|value| value == "false");
    let is_before = reading.skip.as_ref().is_some_and(|skip| skip.is_before_injection());
    let proxy = proxy.or_else(|| (is_before && refuses_native).then_some(PROXY));
    if let Some(proxy) = proxy.filter(|_| is_job && !is_ended) {
        let text = format!(
            "container {proxy} keeps running after the others, so the Job never completes; use a native \
             sidecar, or end the proxy with the Job's last command"
        );
        remarks.push(Finding::plain(Level::Warning, Code::JobKeptAlive, text));
    }
    if let Some(map) = object.pod.annotations.get(CONFIG_MAP).filter(|_| is_before) {
        let text = format!(
            "{CONFIG_MAP} is {map:?}, a ConfigMap that is not read: give its settings as flags, or use the injected pod"
        );
        remarks.push(Finding::plain(Level::Warning, Code::AmbiguousManifest, text));
    }
    let class = spec.runtime_class.to_lowercase();
    let has_own_stack = ["kata", "gvisor", "runsc"].iter().any(|name| class.contains(name));
    let is_by_plugin = reading.way == CaptureMethod::Annotations && (is_before || reading.skip.is_none());
    if has_own_stack && is_by_plugin {
        let level = if is_before { Level::Note } else { Level::Warning };
        let text = format!(
            "runtimeClassName {} gives the pod a network stack where a CNI plugin's rules have no effect; \
             set the rules in an init container, or exclude the pod from the mesh",
            spec.runtime_class
        );
        remarks.push(Finding::plain(level, Code::OwnNetworkStack, text));
    }
    remarks
}

/// Annotation in the Network Plumbing Working Group's specification.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Multus networks that call a mesh's plugin: they have no interface.
const PLUGINS: [&str; 4] = ["istio-cni", "linkerd-cni", "kuma-cni", "sidecar-cni"];

#[derive(Deserialize)]
struct MultusNetwork {
    name: String,
    interface: Option<String>,
}

/// Multus numbers unnamed interfaces by their index in the list.
fn interfaces(annotations: &BTreeMap<String, String>) -> Vec<String> {
    let Some(text) = annotations.get(NETWORKS) else { return Vec::new() };
    let short = |item: &str| {
        let (name, interface) = item.split_once('@').map_or((item, None), |(name, own)| (name, Some(own)));
        MultusNetwork { name: name.to_owned(), interface: interface.map(str::to_owned) }
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let networks = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).unwrap_or_default(),
        false => items.map(short).collect::<Vec<_>>(),
    };
    let numbered = networks.into_iter().zip(1..);
    let others = numbered.filter(|(network, _)| !PLUGINS.iter().any(|plugin| network.name.contains(plugin)));
    others.map(|(network, at)| network.interface.unwrap_or_else(|| format!("net{at}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_meaning_do_not_differ() {
        for (setting, one, other, is_same) in [
            (Setting::Mesh, "", "istio", true),
            (Setting::Mesh, "", "kuma", false),
            (Setting::RedirectDns, "1", " true", true),
            (Setting::RedirectDns, "0", "true", false),
            (Setting::InterceptionMode, "", "redirect", true),
            (Setting::InboundPorts, "80, 443", "443,80", true),
        ] {
            let found = items(setting, one) == items(setting, other);
            assert_eq!(found, is_same, "{setting:?} {one:?} {other:?}");
        }
    }
}
