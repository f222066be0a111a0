//! The mesh of a pod, and each mesh's [`Form`] of settings; for Istio, the table [`crate::settings::mapping`].

use super::decision::{Skip, speaks_istio};
use super::facts::{Pod, STATUS};
use super::given::GivenSettings;
use crate::settings::{ANNOTATIONS, Setting};
use crate::sources::{Given, Source};
use crate::{InputProblem, mesh::Mesh, settings::mapping::PROXY};
use std::collections::BTreeMap;

/// A label or annotation, and the values that count; empty for any value.
pub(crate) type MetadataMark = (&'static str, &'static [&'static str]);

pub(crate) type KeySource<'a> = &'a dyn Fn(&str) -> Source;

pub(crate) enum Argument {
    Settings(Vec<(Setting, Given)>, Vec<InputProblem>),
    Unread(&'static str),
}

pub(crate) struct Form {
    pub(crate) init_containers: &'static [&'static str],
    /// Programs of such a container, by file name. Flags follow the last word that names a program.
    pub(crate) commands: &'static [&'static str],
    /// True if such a container reads annotations for settings that its flags do not give.
    pub(crate) init_reads_annotations: bool,
    /// Defaults of such a container's program that differ from the setting's default.
    pub(crate) implied: &'static [(Setting, &'static str)],
    /// Switches that make such a container set no rules, and the reason.
    pub(crate) idle: &'static [(Setting, &'static str)],
    /// Container of the proxy; `None` if the proxy runs outside the pod.
    pub(crate) proxy: Option<&'static str>,
    pub(crate) signs: &'static [MetadataMark],
    /// Domains of the mesh's labels and annotations, which assign a pod to the mesh unless another mesh has signs.
    pub(crate) domains: &'static [&'static str],
    pub(crate) refusals: &'static [MetadataMark],
    /// Labels and annotations that the injector sets; empty if pods need no injection.
    pub(crate) injected: &'static [MetadataMark],
    pub(crate) presets: &'static [(Setting, &'static str)],
    /// Lower-case switch values in annotations, beyond Go's `strconv.ParseBool`, and their meanings.
    pub(crate) switches: &'static [(&'static str, &'static str)],
    /// Reads the settings inside an init container's argument, with the source of each key.
    pub(crate) argument: fn(&Pod, Setting, &str, KeySource<'_>) -> Option<Argument>,
    /// Network configuration lists that an annotation extends instead of replacing.
    pub(crate) added_to: &'static [Setting],
    /// Adds settings beyond the annotations in the settings table.
    pub(crate) more: fn(&Pod, &mut GivenSettings),
}

impl Form {
    pub(super) fn skip(&self, mesh: Mesh, pod: &Pod) -> Option<Skip> {
        if let Some((name, values)) = self.refusal(pod) {
            return Some(match values {
                [] => Skip::OfMesh { text: format!("it has {name}"), before: false },
                _ => Skip::Chosen(format!("its {name} opts out")),
            });
        }
        let Some(spec) = &pod.spec else {
            let is_injected =
                self.injected.is_empty() || self.injected.iter().any(|mark| has_mark(pod, mark));
            let text = || format!("it was not injected: it has no sign of {mesh}");
            return (!is_injected).then(|| Skip::OfMesh { text: text(), before: true });
        };
        let init = spec.init_containers.iter().find(|one| self.init_containers.contains(&&*one.name));
        if let Some(init) = init {
            let text = format!("its init container {} sets the rules", init.name);
            return Some(Skip::OfMesh { text, before: false });
        }
        let proxy = self.proxy?;
        (!pod.container_names().any(|name| name == proxy)).then(|| Skip::OfMesh {
            text: format!("it was not injected: it has no container {proxy}"),
            before: true,
        })
    }

    fn refusal(&self, pod: &Pod) -> Option<&'static MetadataMark> {
        self.refusals.iter().find(|mark| has_mark(pod, mark))
    }

    fn is_of(&self, pod: &Pod) -> Option<Source> {
        let mark = self.signs.iter().chain(self.injected).find(|mark| has_mark(pod, mark));
        let is_own = |name: &&str| self.init_containers.contains(name) || Some(*name) == self.proxy;
        let container = || pod.container_names().find(is_own);
        mark.map(|(name, _)| Source::Annotation((*name).to_owned()))
            .or_else(|| Some(Source::Field(format!("its container {}", container()?))))
    }

    fn domain_sign(&self, pod: &Pod) -> Option<Source> {
        let is_own = |name: &&str| self.domains.iter().any(|domain| is_named_within(name, domain));
        metadata_names(pod).find(is_own).map(|name| Source::Annotation(name.to_owned()))
    }
}

pub(super) fn refuses(pod: &Pod) -> bool {
    of(pod).and_then(|(mesh, _)| mesh.pods()?.refusal(pod)).is_some()
}

pub(super) fn metadata_names(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.labels.iter().flatten().chain(&pod.annotations).map(|(name, _)| name.as_str())
}

pub(super) fn is_named_within(name: &str, domain: &str) -> bool {
    name.split_once('/').is_some_and(|(of, _)| is_within(of, domain))
}

pub(super) fn is_within(inner: &str, domain: &str) -> bool {
    inner.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn has_mark(pod: &Pod, mark: &MetadataMark) -> bool {
    value_of(mark.0, pod.labels.as_ref(), &pod.annotations).is_some_and(|value| counts(mark, value))
}

fn value_of<'a>(
    name: &str,
    labels: Option<&'a MetadataTexts>,
    annotations: &'a MetadataTexts,
) -> Option<&'a str> {
    labels.and_then(|labels| labels.get(name)).or_else(|| annotations.get(name)).map(|value| value.trim())
}

fn counts((_, values): &MetadataMark, value: &str) -> bool {
    values.is_empty() || values.contains(&value)
}

type MetadataTexts = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshSign {
    pub mesh: Mesh,
    pub text: String,
    /// True for the proxy or the mesh's own record, already in the pod.
    pub is_present: bool,
}

/// First sign of each mesh in a pod, else in its namespace. Only injected pods have Istio's signs.
pub fn signs(
    pod: &Pod,
    namespace_labels: &MetadataTexts,
    namespace_annotations: &MetadataTexts,
) -> Vec<MeshSign> {
    let present = |mesh, text| Some(MeshSign { mesh, text, is_present: true });
    let container = |name: &str| {
        pod.container_names().any(|other| other == name).then(|| format!("its container {name}"))
    };
    let status = || pod.annotations.contains_key(STATUS).then(|| format!("its annotation {STATUS}"));
    let istio = container(PROXY).or_else(status).and_then(|text| present(Mesh::default(), text));
    let of = |mesh: Mesh| {
        let form = mesh.pods()?;
        let injected = form.injected.iter().find(|mark| has_mark(pod, mark));
        let injected = injected.map(|(name, _)| format!("its {name}"));
        let possible = form.signs.iter().find_map(|mark @ (name, _)| {
            let of_pod = value_of(name, pod.labels.as_ref(), &pod.annotations);
            let whose = if of_pod.is_some() { "its" } else { "its namespace's" };
            let value = of_pod.or_else(|| value_of(name, Some(namespace_labels), namespace_annotations))?;
            let text = format!("{whose} {name}");
            counts(mark, value).then_some(MeshSign { mesh, text, is_present: false })
        });
        form.proxy.and_then(container).or(injected).and_then(|text| present(mesh, text)).or(possible)
    };
    istio.into_iter().chain(Mesh::ALL.iter().filter_map(|mesh| of(*mesh))).collect()
}

/// The mesh and its source: the pod's own annotation, or a sign of a mesh.
pub(super) fn of(pod: &Pod) -> Option<(Mesh, Source)> {
    let own = format!("{ANNOTATIONS}{}", Setting::Mesh.row().name());
    let named = pod.annotations.get(&own).and_then(|name| name.trim().parse().ok());
    if let Some(mesh) = named {
        return Some((mesh, Source::Annotation(own)));
    }
    // Ambient mode does not capture pods with Istio's sidecar.
    let has_sidecar = pod.annotations.contains_key(STATUS);
    let forms = || {
        let all = Mesh::ALL.iter().filter_map(|mesh| Some((*mesh, mesh.pods()?)));
        all.filter(move |(_, form)| form.proxy.is_some() || !has_sidecar)
    };
    let surely = forms().find_map(|(mesh, form)| Some((mesh, form.is_of(pod)?)));
    let by_domain = || forms().find_map(|(mesh, form)| Some((mesh, form.domain_sign(pod)?)));
    surely.or_else(|| if speaks_istio(pod) { None } else { by_domain() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{Container, Spec};

    fn words_of(words: &[(&str, &str)]) -> BTreeMap<String, String> {
        words.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn pod(annotations: &[(&str, &str)], containers: &[&str]) -> Pod {
        let container = |name: &&str| Container { name: (*name).to_owned(), ..Container::default() };
        let containers: Vec<Container> = containers.iter().map(container).collect();
        let spec = (!containers.is_empty()).then(|| Spec { containers, ..Spec::default() });
        Pod { spec, ..Pod::annotated("web", "shop", words_of(annotations)) }
    }

    #[test]
    fn pods_and_namespaces_have_signs_of_meshes() {
        let check = |pod: &Pod, labels: &[(&str, &str)], annotations: &[(&str, &str)], expected: &str| {
            let found = signs(pod, &words_of(labels), &words_of(annotations));
            let text = |sign: &MeshSign| format!("{} {} {}", sign.mesh, sign.is_present, sign.text);
            assert_eq!(found.iter().map(text).collect::<Vec<_>>().join("; "), expected, "{pod:?}");
        };
        let own = |annotations: &[(&str, &str)], containers: &[&str], expected: &str| {
            check(&pod(annotations, containers), &[], &[], expected);
        };
        own(&[], &["app"], "");
        own(&[], &["app", "istio-proxy"], "istio true its container istio-proxy");
        own(&[(STATUS, "{}")], &[], "istio true its annotation sidecar.istio.io/status");
        let both = "linkerd true its container linkerd-proxy; kuma true its kuma.io/sidecar-injected";
        own(&[("kuma.io/sidecar-injected", "true")], &["linkerd-proxy"], both);
        let mut native = pod(&[], &["kuma-sidecar"]);
        let spec = native.spec.as_mut().expect("a spec");
        spec.init_containers = std::mem::take(&mut spec.containers);
        check(&native, &[], &[], "kuma true its container kuma-sidecar");
        own(&[("linkerd.io/inject", " enabled ")], &[], "linkerd false its linkerd.io/inject");
        // The pod's own value wins over the namespace's, and the namespace's label over its annotation.
        let enabled = ("linkerd.io/inject", "enabled");
        check(&pod(&[("linkerd.io/inject", "disabled")], &[]), &[enabled], &[enabled], "");
        check(&pod(&[], &[]), &[("linkerd.io/inject", "disabled")], &[enabled], "");
        check(&pod(&[], &[]), &[], &[enabled], "linkerd false its namespace's linkerd.io/inject");
        let ambient = ("istio.io/dataplane-mode", "ambient");
        check(&pod(&[], &[]), &[ambient], &[], "ambient false its namespace's istio.io/dataplane-mode");
        // Any value of a configuration counts.
        let name = "traffic.kuma.io/transparent-proxy-config";
        own(&[(name, "whatever")], &[], &format!("kuma false its {name}"));
        let labels = Some(words_of(&[("kuma.io/sidecar-injection", "true")]));
        check(&Pod { labels, ..pod(&[], &[]) }, &[], &[], "kuma false its kuma.io/sidecar-injection");
    }

    #[test]
    fn injection_record_counts_without_containers() {
        let skip = |mesh: Mesh, pod: &Pod| {
            let form = mesh.pods().expect("a form");
            form.skip(mesh, pod).map(|skip| (skip.is_before_injection(), skip.to_string()))
        };
        let not_seen = |mesh: &str| {
            let text = format!("it was not injected: it has no sign of {mesh}");
            Some((true, text))
        };
        assert_eq!(skip(Mesh::Linkerd, &pod(&[("linkerd.io/inject", "enabled")], &[])), not_seen("linkerd"));
        assert_eq!(skip(Mesh::Linkerd, &pod(&[("linkerd.io/created-by", "x")], &[])), None);
        assert_eq!(skip(Mesh::Kuma, &pod(&[("kuma.io/sidecar-injected", "maybe")], &[])), not_seen("kuma"));
        assert_eq!(skip(Mesh::Kuma, &pod(&[("kuma.io/sidecar-injected", "true")], &[])), None);
        // Ambient mode has no injection.
        assert_eq!(skip(Mesh::Ambient, &pod(&[], &[])), None);
        assert_eq!(skip(Mesh::Ambient, &pod(&[], &["app"])), None);
        let refused = pod(&[("linkerd.io/inject", "disabled")], &["linkerd-proxy"]);
        assert_eq!(skip(Mesh::Linkerd, &refused), Some((false, "its linkerd.io/inject opts out".to_owned())));
        // The presence of Istio's injection record refuses ambient mode; its value is JSON.
        let with_sidecar = Some((false, "it has sidecar.istio.io/status".to_owned()));
        assert_eq!(skip(Mesh::Ambient, &pod(&[(STATUS, "{}")], &[])), with_sidecar);
    }

    #[test]
    fn pod_with_istios_sidecar_is_not_in_ambient_mode() {
        let mesh = |annotations: &[(&str, &str)]| of(&pod(annotations, &[])).map(|(mesh, _)| mesh);
        let ambient = ("istio.io/dataplane-mode", "ambient");
        assert_eq!(mesh(&[ambient]), Some(Mesh::Ambient));
        assert_eq!(mesh(&[ambient, (STATUS, "{}")]), None);
        assert_eq!(mesh(&[("sidecar-init/mesh", "ambient"), (STATUS, "{}")]), Some(Mesh::Ambient));
    }

    #[test]
    fn domains_include_subdomains() {
        for (name, expected) in [
            ("kuma.io/x", true),
            ("traffic.kuma.io/x", true),
            ("notkuma.io/x", false),
            ("kuma.io", false),
            ("kuma.io.example/x", false),
            ("x/kuma.io", false),
        ] {
            assert_eq!(is_named_within(name, "kuma.io"), expected, "{name}");
        }
    }
}
