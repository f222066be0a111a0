//! An object of a manifest as settings: whether an init container or a plugin sets the rules of its pods, and where the
//! settings of the two disagree.
//!
//! An init container that sets rules sets them whatever the annotations. Without one a plugin reads the annotations, if
//! it captures the pod at all.

use super::annotations::annotated;
use super::applications::{Application, applications};
use super::decision::{Skip, skip_unnamed};
use super::given::GivenSettings;
use super::init::{self, Init};
use super::known::unknown_among;
use super::manifest::ManifestObject;
use super::{lifecycle, networks};
use crate::istio::defaults::PROXY_ID;
use crate::mesh::Mesh;
use crate::settings::{Setting, SettingKind};
use crate::sources::{Given, Raw, Source, boolean};
use rules::finding::{Code, Finding, Level};
use std::collections::BTreeSet;

/// Who sets a pod's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CaptureMethod {
    InitContainer(String),
    /// A plugin, by annotations.
    #[default]
    Annotations,
}

/// The settings of an object.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub way: CaptureMethod,
    pub settings: GivenSettings,
    /// Why nothing of the pod is captured, now or until it is injected.
    pub skip: Option<Skip>,
    /// What its author should know.
    pub warnings: Vec<Finding>,
    /// The containers beside the proxy.
    pub applications: Vec<Application>,
    /// Init containers that end before the proxy starts, and run when the rules are set.
    pub early: Vec<Application>,
    /// The interfaces that Multus adds to the pod, by their names.
    pub interfaces: Vec<String>,
}

/// A remark about the form of a manifest.
fn of_form(text: String) -> Finding {
    Finding::plain(Level::Warning, Code::AmbiguousManifest, text)
}

/// Reads an object. Pods that are to be injected yet are read as if they were.
pub fn read(object: &ManifestObject, excluded_namespaces: &[impl AsRef<str>]) -> Reading {
    let title = &object.full_title();
    let pod = &object.pod;
    let containers = pod.spec.iter().flat_map(|spec| &spec.init_containers);
    let inits: Vec<Init> = containers.filter_map(|container| init::read(container, pod, title)).collect();
    let by_annotations = annotated(pod, title, &Raw::default());
    let mut setters = inits.iter().filter(|init| init.idle.is_none());
    let mut reading = match setters.next() {
        Some(setter) => by_init(setter, &by_annotations, object),
        None => by_plugin(&inits, by_annotations, object, excluded_namespaces),
    };
    if let CaptureMethod::InitContainer(first) = &reading.way {
        let text = |other: &Init| {
            format!("its init container {} sets rules too, but only those of {first} count here", other.name)
        };
        reading.warnings.extend(setters.map(|other| of_form(text(other))));
    }
    for Init { name, unread, .. } in &inits {
        let text =
            |argument: &String| format!("an argument of its init container {name} is not read: {argument}");
        reading.warnings.extend(unread.iter().map(text).map(of_form));
    }
    if let Some(skip) = reading.skip.as_ref().filter(|skip| !skip.is_before_injection()) {
        let mut none = GivenSettings::by(title);
        let source = Source::Field(format!("the pod, because {skip}"));
        if reading.settings.raw.mesh() != Mesh::default() {
            none.set(Setting::Mesh, Mesh::default().name(), source.clone());
        }
        none.set(Setting::InterceptionMode, "NONE", source);
        reading.settings = none.over(reading.settings);
    }
    reading.settings = facts(object, title).over(reading.settings).after(&object.problems);
    reading.applications = applications(pod);
    reading.early = lifecycle::early(pod, &reading, &inits);
    reading.interfaces = networks::interfaces(&pod.annotations);
    reading.warnings.extend(lifecycle::remarks(object, &reading));
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
            "nothing of it is captured: {}; its init container {name} would change the node's own rules",
            Skip::HostNetwork
        )));
    }
    if let Some(standard) = object.enforced {
        let namespace = &object.pod.namespace;
        let text = format!(
            "namespace {namespace} enforces the Pod Security Standard {standard}, which refuses its init container {name}: \
             setting rules takes NET_ADMIN; let the CNI plugin set them, which needs no capability in the pod"
        );
        warnings.push(Finding::plain(Level::Warning, Code::PodSecurity, text));
    }
    if setter.may_have_more {
        warnings.push(of_form(format!(
            "its init container {name} takes all variables of another object (envFrom), which may set what it leaves open"
        )));
    }
    // One that reads annotations itself contradicts only those whose settings its arguments have too.
    let counts = |setting| !setter.reads_annotations || setter.settings.raw.get(setting).is_some();
    let contrary = annotations.raw.iter().filter(|(setting, _)| counts(*setting));
    let contrary = Raw::of(contrary.map(|(setting, given)| (setting, given.clone())));
    let differing = disagreements(&setter.settings.raw, &contrary, "the init container's counts");
    warnings.extend(differing.into_iter().map(of_form));
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
    match &skip {
        Some(skip) if skip.is_before_injection() => {
            let text =
                format!("nothing of it is captured yet: {skip}; what follows holds once it is injected");
            // Manifests of applications are written before an injector sees them.
            warnings.push(Finding { level: Level::Note, ..of_form(text) });
        }
        Some(skip) => {
            let level = if skip.is_chosen(&object.pod) { Level::Note } else { Level::Warning };
            warnings.push(Finding { level, ..of_form(format!("nothing of it is captured: {skip}")) });
        }
        None => {}
    }
    for Init { name, idle, settings: of_init, .. } in inits {
        let idle = idle.unwrap_or("it sets no rules");
        if name != init::VALIDATION {
            warnings.push(of_form(format!("its init container {name} sets no rules: {idle}")));
        }
        // It sets nothing, so that what it leaves open does not matter.
        let overlapping = settings.raw.iter().filter(|(setting, _)| of_init.raw.get(*setting).is_some());
        let overlapping = Raw::of(overlapping.map(|(setting, given)| (setting, given.clone())));
        let differing = disagreements(&of_init.raw, &overlapping, "a plugin asks the pod's annotations");
        warnings.extend(differing.into_iter().map(of_form));
    }
    Reading { settings, skip, warnings, ..Reading::default() }
}

/// What the cluster reports of the pod.
fn facts(object: &ManifestObject, title: &str) -> GivenSettings {
    let mut settings = GivenSettings::by(title);
    let Some(spec) = &object.pod.spec else { return settings };
    if !spec.addresses.is_empty() {
        settings.set(Setting::PodIps, spec.addresses.join(","), Source::Field("status.podIPs".to_owned()));
    }
    if let Some(servers) = &spec.dns_servers {
        settings.set(
            Setting::DnsServers,
            servers.join(","),
            Source::Field("spec.dnsConfig.nameservers".to_owned()),
        );
    }
    settings
}

/// Where an init container contradicts annotations, or fields of the proxy's container. `counts` says which of them counts.
fn disagreements(init: &Raw, annotations: &Raw, counts: &str) -> Vec<String> {
    let contrary = annotations.iter().filter(|(_, given)| says_itself(&given.source));
    let differing = contrary.filter_map(|(setting, given)| {
        let other = init.get(setting);
        let value = other.map_or("", |given| given.value.as_str());
        let said_by = match other {
            Some(Given { source, .. }) => format!("{source} {value:?}"),
            None => format!("the init container has no {}", setting.row().option()),
        };
        let differs = items(setting, value) != items(setting, &given.value);
        differs.then(|| format!("{} is {:?}, but {said_by}; {counts}", given.source, given.value))
    });
    differing.collect()
}

/// Variables of the proxy are left out: Istio gives them to an init container in another sense.
fn says_itself(source: &Source) -> bool {
    match source {
        Source::Annotation(_) => true,
        Source::Container { word, .. } => word.starts_with("runAs"),
        _ => false,
    }
}

/// A list's items, or the one value; equal meanings are equal.
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
