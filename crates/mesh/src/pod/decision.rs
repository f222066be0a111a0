//! Reasons why a plugin does not capture a pod: host networking, another mesh's reasons, then Istio's, in upstream's order
//! (`cni/pkg/plugin/plugin.go`). Without a spec, the injector's record replaces the containers.

use super::facts::{Pod, STATUS};
use super::{given::GivenSettings, mesh};
use crate::settings::mapping::{PROXY, VARIABLES};
use crate::settings::{self, Setting};
use crate::sources::boolean;
use std::fmt;

pub const INIT: &str = "istio-init";
pub const EXCLUDED_NAMESPACES: &[&str] = &["kube-system"];

const DISABLED: &str = "DISABLE_ENVOY";

const INJECT: &str = "sidecar.istio.io/inject";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    Nameless,
    NamespaceExcluded(String),
    HostNetwork,
    InitContainer,
    NoProxy,
    /// The pod opts out: by a label or annotation that refuses injection, by a mode, or by the proxy's container.
    Chosen(String),
    NotInjected,
    /// Reason for an existing pod, which is never injected.
    Started(Box<Skip>),
    /// Another mesh's reason, not Istio's; `before` is true if that mesh's injector has not changed the pod yet.
    OfMesh {
        text: String,
        before: bool,
    },
}

pub fn reads_variable(name: &str) -> bool {
    name == DISABLED
        || VARIABLES.iter().any(|(variable, _)| *variable == name)
        || settings::all().any(|row| row.variables.contains(&name))
}

impl Skip {
    pub fn is_before_injection(&self) -> bool {
        match self {
            Self::OfMesh { before, .. } => *before,
            other => matches!(other, Self::NoProxy | Self::NotInjected | Self::Nameless),
        }
    }

    pub(super) fn is_chosen(&self, pod: &Pod) -> bool {
        match self {
            Self::Chosen(_) => true,
            Self::NamespaceExcluded(_) | Self::HostNetwork => {
                refused(pod).is_some() || !speaks_istio(pod) && mesh::of(pod).is_none() || mesh::refuses(pod)
            }
            Self::Nameless | Self::InitContainer | Self::NoProxy | Self::NotInjected => false,
            Self::Started(_) | Self::OfMesh { .. } => false,
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nameless => f.write_str("the pod's name or namespace is missing"),
            Self::NamespaceExcluded(name) => write!(f, "its namespace {name} is excluded"),
            Self::HostNetwork => f.write_str("it uses its node's network (hostNetwork)"),
            Self::InitContainer => write!(f, "its init container {INIT} sets the rules"),
            Self::NoProxy => write!(f, "it has no container {PROXY}"),
            Self::NotInjected => write!(f, "it was not injected: the annotation {STATUS} is absent"),
            Self::Started(skip) => write!(f, "{skip}, and an existing pod is never injected"),
            Self::Chosen(text) | Self::OfMesh { text, .. } => f.write_str(text),
        }
    }
}

/// `None` if a plugin captures the pod. A pod with unknown spec counts as having its own network.
pub fn skip(pod: &Pod, excluded_namespaces: &[impl AsRef<str>]) -> Option<Skip> {
    if pod.name.is_empty() || pod.namespace.is_empty() {
        return Some(Skip::Nameless);
    }
    skip_unnamed(pod, excluded_namespaces)
}

/// Like [`skip`], for pods without a name, such as templates.
pub fn skip_unnamed(pod: &Pod, excluded_namespaces: &[impl AsRef<str>]) -> Option<Skip> {
    if excluded_namespaces.iter().any(|name| name.as_ref() == pod.namespace) {
        return Some(Skip::NamespaceExcluded(pod.namespace.clone()));
    }
    if pod.spec.as_ref().is_some_and(|spec| spec.host_network) {
        return Some(Skip::HostNetwork);
    }
    if let Some((of, form)) = mesh::of(pod).and_then(|(of, _)| Some((of, of.pods()?))) {
        return form.skip(of, pod);
    }
    let found = match skip_by_containers(pod) {
        // A pod without a proxy may have refused injection.
        found @ (None | Some(Skip::NoProxy)) => refused(pod).or(found),
        found => found,
    };
    found.or_else(|| {
        if !pod.annotations.contains_key(STATUS) {
            return Some(Skip::NotInjected);
        }
        mode_none(pod).map(|name| Skip::Chosen(format!("its annotation {name} is NONE")))
    })
}

fn skip_by_containers(pod: &Pod) -> Option<Skip> {
    let Some(spec) = &pod.spec else {
        let status = pod.status()?;
        return match status.added().any(|name| name == PROXY) {
            _ if status.init_containers.iter().flatten().any(|name| name == INIT) => {
                Some(Skip::InitContainer)
            }
            true => None,
            false => Some(Skip::NoProxy),
        };
    };
    if spec.init_containers.iter().any(|container| container.name == INIT) {
        return Some(Skip::InitContainer);
    }
    let Some(proxy) = pod.proxy() else { return Some(Skip::NoProxy) };
    if let Some(Some(text)) = proxy.variable(DISABLED)
        && boolean(text) == Some(true)
    {
        return Some(Skip::Chosen(format!("its container {PROXY} has {DISABLED} set")));
    }
    match &proxy.args[..] {
        [first, role, ..] if first == "proxy" && role != "sidecar" => {
            Some(Skip::Chosen(format!("its container {PROXY} is a proxy of another kind: {role}")))
        }
        _ => None,
    }
}

/// True if the pod has Istio's labels, annotations or containers: then another mesh's annotations alone don't count.
pub(super) fn speaks_istio(pod: &Pod) -> bool {
    pod.container_names().any(|name| [INIT, PROXY].contains(&name))
        || mesh::metadata_names(pod).any(|name| mesh::is_named_within(name, "istio.io"))
}

/// A label overrides the annotation.
fn refused(pod: &Pod) -> Option<Skip> {
    let label = pod.labels.as_ref().and_then(|labels| labels.get(INJECT));
    let (text, kind) = match label {
        Some(text) => (text, "label"),
        None => (pod.annotations.get(INJECT)?, "annotation"),
    };
    (boolean(text) == Some(false)).then(|| Skip::Chosen(format!("its {kind} {INJECT} opts out")))
}

fn mode_none(pod: &Pod) -> Option<String> {
    let row = Setting::InterceptionMode.row();
    let names = row.annotation().into_iter().chain(row.annotations.iter().map(|name| (*name).to_owned()));
    let mut named = names.filter_map(|name| Some((pod.annotations.get(&name)?.clone(), name)));
    let configured = || {
        let mut settings = GivenSettings::default();
        settings.read_proxy_config(&pod.annotations);
        let mode = settings.raw.get(Setting::InterceptionMode)?;
        Some((mode.value.clone(), mode.source.to_string()))
    };
    let (mode, name) = named.next().or_else(configured)?;
    mode.trim().eq_ignore_ascii_case("NONE").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn pod(annotations: &[(&str, &str)]) -> Pod {
        let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Pod::annotated("web", "shop", annotations.collect())
    }

    fn chosen(text: &str) -> Skip {
        Skip::Chosen(format!("its {text}"))
    }

    fn check(pod: &Pod, expected: Option<&Skip>) {
        assert_eq!(skip(pod, EXCLUDED_NAMESPACES).as_ref(), expected, "{pod:?}");
    }

    #[test]
    fn skip_reasons_from_annotations_only() {
        let injected = (STATUS, r#"{"initContainers":null,"containers":["istio-proxy"]}"#);
        check(&pod(&[injected]), None);
        check(&pod(&[(STATUS, "")]), None);
        check(&pod(&[(STATUS, "[]")]), Some(&Skip::NoProxy));
        let native = r#"{"initContainers":["istio-validation","istio-proxy"],"containers":[]}"#;
        check(&pod(&[(STATUS, native)]), None);
        check(&pod(&[]), Some(&Skip::NotInjected));
        check(&pod(&[injected, (INJECT, "F")]), Some(&chosen(&format!("annotation {INJECT} opts out"))));
        check(&pod(&[injected, (INJECT, "no")]), None);
        let mode = "sidecar.istio.io/interceptionMode";
        check(&pod(&[injected, (mode, "NONE")]), Some(&chosen(&format!("annotation {mode} is NONE"))));
        check(&pod(&[(STATUS, r#"{"containers":["grpc"]}"#)]), Some(&Skip::NoProxy));
        let both = r#"{"initContainers":["istio-init","istio-proxy"],"containers":null}"#;
        check(&pod(&[(STATUS, both)]), Some(&Skip::InitContainer));
        check(&Pod { name: String::new(), ..pod(&[injected]) }, Some(&Skip::Nameless));
        let system = Pod { namespace: "kube-system".to_owned(), ..pod(&[injected]) };
        check(&system, Some(&Skip::NamespaceExcluded("kube-system".to_owned())));
    }

    #[test]
    fn skip_reasons_of_a_whole_pod_have_istios_order() {
        use super::super::facts::{Container, Spec, Variable};
        let text = |text: &str| text.to_owned();
        let disabled = Variable { name: text("DISABLE_ENVOY"), value: Some(text("true")) };
        let proxy = Container {
            name: text(PROXY),
            args: vec![text("proxy"), text("router")],
            env: vec![disabled],
            ..Container::default()
        };
        let init = Container { name: text(INIT), ..Container::default() };
        let labels = BTreeMap::from([(text(INJECT), text("false"))]);
        let spec = Spec {
            host_network: true,
            init_containers: vec![init],
            containers: vec![proxy],
            ..Spec::default()
        };
        let mut pod = Pod { labels: Some(labels), spec: Some(spec), ..pod(&[(INJECT, "true")]) };
        check(&pod, Some(&Skip::HostNetwork));
        let spec = |pod: &mut Pod, change: fn(&mut Spec)| change(pod.spec.as_mut().expect("a spec"));
        spec(&mut pod, |spec| spec.host_network = false);
        check(&pod, Some(&Skip::InitContainer));
        spec(&mut pod, |spec| spec.init_containers.clear());
        check(&pod, Some(&chosen("container istio-proxy has DISABLE_ENVOY set")));
        spec(&mut pod, |spec| spec.containers[0].env.clear());
        check(&pod, Some(&chosen("container istio-proxy is a proxy of another kind: router")));
        spec(&mut pod, |spec| spec.containers[0].args[1] = "sidecar".to_owned());
        check(&pod, Some(&chosen(&format!("label {INJECT} opts out"))));
        pod.labels = None;
        check(&pod, Some(&Skip::NotInjected));
        spec(&mut pod, |spec| spec.init_containers.append(&mut spec.containers));
        check(&pod, Some(&Skip::NotInjected));
        spec(&mut pod, |spec| spec.init_containers.clear());
        check(&pod, Some(&Skip::NoProxy));
    }

    #[test]
    fn variables_that_change_capture_count() {
        for name in ["DISABLE_ENVOY", "INVALID_DROP", "ISTIO_OUTBOUND_OWNER_GROUPS", "ISTIO_SERVICE_CIDR"] {
            assert!(reads_variable(name), "{name}");
        }
        for name in ["PATH", "", "istio_service_cidr"] {
            assert!(!reads_variable(name), "{name}");
        }
    }
}
