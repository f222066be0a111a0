//! Injects a pod, from the decision to the validated result.

mod guard;
mod metrics;
mod overlay;
pub(crate) mod pod;
mod probes;
mod record;
pub(crate) mod size;
pub(crate) mod unread;
mod users;

pub use crate::admission::{AdmissionContext, Namespace, Workload};
pub use crate::sidecar::PROXY;
pub use record::{OVERRIDES, STATUS};

use crate::decision::{Decision, decide};
use crate::mesh_config::{IstioValues, MeshConfig};
use crate::syntax::{LABEL_VALUE, is_label_value};
use crate::template::{InjectionTemplate, TemplateContext};
use crate::{configuration::Configuration, sidecar::Sidecar};
use guard::Validation;
use mesh::{InputProblem, Problems, istio::annotations as known, sources::boolean};
use overlay::Overlaid;
use pod::{CheckedPod, PodSpecItem, PodSpecList};
pub(crate) use record::InjectionStatus;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) const NETWORK: &str = "topology.istio.io/network";

#[derive(Clone, Debug)]
pub enum InjectionOutcome {
    Skipped(Decision),
    Injected(Box<Injected>),
}

#[derive(Clone, Debug)]
pub struct Injected {
    pub decision: Decision,
    pub pod: Value,
    pub warnings: Vec<String>,
}

/// Injects a pod if the decision is positive. Returns every problem of the pod, and of a template whose result is invalid.
pub fn inject(
    pod: &Value,
    admission: &AdmissionContext,
    configuration: &Configuration,
) -> Result<InjectionOutcome, Problems> {
    size::check(pod)?;
    let submitted = CheckedPod::read("pod", pod.clone())?;
    let mut admission = admission.clone();
    // Controllers ignore a template's namespace and create pods in their own; only a bare pod's namespace applies.
    if admission.workload.is_none() && !submitted.meta("namespace").is_empty() {
        submitted.meta("namespace").clone_into(&mut admission.namespace.name);
    }
    let decision = decide(&admission.namespace.name, pod, &configuration.rules);
    if !decision.inject {
        return Ok(InjectionOutcome::Skipped(decision));
    }
    if admission.workload.is_none() {
        admission.workload = Some(Workload::of(pod, &admission.namespace.name));
    }
    let mut warnings = Vec::from_iter(decision.warning());
    let pod = injected(&submitted, &admission, configuration, &mut warnings)?.into_value();
    Ok(InjectionOutcome::Injected(Box::new(Injected { decision, pod, warnings })))
}

fn injected(
    submitted: &CheckedPod,
    admission: &AdmissionContext,
    configuration: &Configuration,
    warnings: &mut Vec<String>,
) -> Result<CheckedPod, Problems> {
    let status = InjectionStatus::of(submitted).map_err(|error| {
        let taken = "treating the pod as not injected";
        warnings.push(format!("{STATUS} is invalid ({error}); {taken}"));
    });
    let status = status.unwrap_or_default();
    let mut problems = Vec::new();
    let overrides = record::overrides(submitted).unwrap_or_else(|found| {
        problems.extend(found.0);
        CheckedPod::default()
    });
    let mut original = record::undone(submitted, status.as_ref(), &overrides);
    if original.items(PodSpecList::Containers).is_empty() {
        let text = "is empty; a pod needs at least one container besides the injected ones";
        problems.push(InputProblem::of("spec.containers", text));
    }
    users::forget_openshifts(&mut original, &admission.namespace);
    let template_view = template_view(&original, admission);
    let Configuration { values, mesh, .. } = configuration;
    let sidecar =
        Sidecar::of(&template_view, admission, values, mesh).map_err(|found| problems.extend(found.0)).ok();
    let chosen = chosen(&original, configuration).map_err(|found| problems.extend(found.0)).ok();
    let (Some(mut sidecar), Some(chosen), true) = (sidecar, chosen, problems.is_empty()) else {
        return Err(Problems(Problems::first(problems)));
    };
    chosen.iter().for_each(|(_, template)| template.adapt(&mut sidecar));
    let context = TemplateContext { pod: &template_view, admission, sidecar: &sidecar, values, mesh };
    let mut patches = Vec::new();
    for (name, template) in &chosen {
        admission.cancellation.check()?;
        match template.render(&context, warnings) {
            Ok(patch) => patches.push((*name, patch)),
            Err(found) => problems.extend(found.0),
        }
    }
    Problems::check(problems)?;
    warnings.extend(sidecar.warnings.iter().cloned());
    warnings.extend(dns_warning(&original));
    admission.cancellation.check()?;
    let Overlaid { mut pod, overlay, overrides, warnings: of_overlay } =
        overlay::apply(&original, &patches, &admission.cancellation)?;
    unread::check(&original, &overlay)?;
    if let Some(name) = lost(submitted, &pod) {
        let text = "is listed with all other containers of the pod, so no application container is \
                    left; remove the annotation, or the application's containers from it";
        return Err(Problems(vec![InputProblem::with_item(STATUS, name, text)]));
    }
    warnings.extend(of_overlay);
    warnings.extend(users::settle(&mut pod, &original, &overlay, &sidecar));
    warnings.extend(set_proxy_variables(&mut pod, admission, &sidecar));
    if sidecar.has_agent {
        warnings.extend(serve(&mut pod, values, mesh)?);
    }
    let now = InjectionStatus::of_overlay(&overlay, &values.revision);
    pod.set("annotations", STATUS, now.text());
    if let Some(spec) = overrides.value().get("spec") {
        pod.set("annotations", OVERRIDES, spec.to_string());
    }
    for (name, text) in &configuration.injected_annotations {
        pod.set("annotations", name, text);
    }
    if let Some(status) = &status {
        record::keep_order(submitted, status, &original, &mut pod);
    }
    record::arrange(&mut pod, sidecar.hold);
    admission.cancellation.check()?;
    let is_strict = chosen.iter().all(|(_, template)| matches!(template, InjectionTemplate::BuiltIn(_)));
    let validation =
        Validation { pod: &pod, overlay: &overlay, original: &original, sidecar: &sidecar, is_strict };
    warnings.extend(guard::check(&validation)?);
    Ok(pod)
}

/// The first removed container, if injection keeps none of the submitted containers except the proxy.
fn lost<'a>(submitted: &'a CheckedPod, pod: &CheckedPod) -> Option<&'a str> {
    let left = pod.containers_by_name();
    let gone = |item: &&Value| !left.contains_key(item.name());
    let stays = |item: &Value| item.name() != PROXY && left.contains_key(item.name());
    let containers = submitted.items(PodSpecList::Containers);
    let first = containers.iter().find(gone)?;
    (!containers.iter().any(stays)).then_some(first.name())
}

/// The templates' view of a pod, including its namespace, which controllers leave to the API server.
fn template_view(original: &CheckedPod, admission: &AdmissionContext) -> Value {
    let mut template_view = original.clone();
    if !admission.is_namespace_assumed {
        template_view.set_default_namespace(&admission.namespace.name);
    }
    template_view.into_value()
}

fn dns_warning(original: &CheckedPod) -> Option<String> {
    let policy =
        original.spec("dnsPolicy")?.as_str().filter(|policy| !["", "ClusterFirst"].contains(policy))?;
    Some(format!(
        "dnsPolicy is {policy}, so the proxy may fail to resolve the control plane; use ClusterFirst"
    ))
}

fn set_proxy_variables(
    pod: &mut CheckedPod,
    admission: &AdmissionContext,
    sidecar: &Sidecar,
) -> Option<String> {
    let mut variables: BTreeMap<&str, &str> =
        admission.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let network = sidecar.network.as_deref();
    let cluster = Some(&*sidecar.cluster).filter(|cluster| !cluster.is_empty());
    variables.extend(cluster.map(|cluster| ("ISTIO_META_CLUSTER_ID", cluster)));
    variables.extend(network.map(|network| ("ISTIO_META_NETWORK", network)));
    if let Some(proxy) = pod.container_mut(PROXY) {
        proxy.set_variables(&variables);
    }
    let network = network?;
    if is_label_value(network) {
        pod.set("labels", NETWORK, network);
        return None;
    }
    Some(format!("the network {network:?} is not a label value, so the pod gets no {NETWORK}; {LABEL_VALUE}"))
}

pub const TEMPLATES: &str = "inject.istio.io/templates";

/// Maximum number of templates per pod. The API server limits annotations only after calling webhooks.
const MAX_NAMED: usize = 64;

fn chosen<'a>(
    pod: &CheckedPod,
    configuration: &'a Configuration,
) -> Result<Vec<(&'a str, &'a InjectionTemplate)>, Problems> {
    let (source, query): (&str, Vec<&str>) = match pod.annotation(TEMPLATES) {
        Some(text) => (TEMPLATES, text.split(',').map(str::trim).collect()),
        None => ("defaultTemplates", configuration.default_templates.iter().map(String::as_str).collect()),
    };
    if source == TEMPLATES && query.len() > MAX_NAMED {
        let text = format!("names {} templates; expected at most {MAX_NAMED}", query.len());
        return Err(Problems(vec![InputProblem::of(source, text)]));
    }
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for name in query {
        // Aliases are not nested.
        let alias = configuration.aliases.get(name);
        let names = alias.map_or_else(|| vec![name], |names| names.iter().map(String::as_str).collect());
        for one in names {
            match configuration.templates.get_key_value(one) {
                Some((name, template)) => found.push((name.as_str(), template)),
                None => {
                    let by = alias.map(|_| format!(" (the alias {name} refers to it)")).unwrap_or_default();
                    let text = format!("is an unknown template{by}; known: {}", configuration.known_names());
                    problems.push(InputProblem::with_item(source, one, text));
                }
            }
        }
    }
    Problems::check(problems).map(|()| found)
}

/// Redirects Prometheus and probes to the agent if the configuration or the merged pod enables this. Returns warnings.
fn serve(pod: &mut CheckedPod, values: &IstioValues, mesh: &MeshConfig) -> Result<Vec<String>, Problems> {
    if pod.container(PROXY).is_none() {
        return Ok(Vec::new());
    }
    metrics::annotate_secure_port(pod);
    let asks = |pod: &CheckedPod, name: &str| pod.annotation(name).and_then(boolean);
    let mut warnings = Vec::new();
    if asks(pod, known::MERGE_METRICS).unwrap_or(mesh.merges_metrics) {
        warnings.extend(metrics::merge(pod, mesh.status_port)?);
    }
    // An invalid port can only come from a template, and has no effect.
    let annotated = pod.annotation(known::STATUS_PORT).and_then(|text| text.trim().parse().ok());
    let port = annotated.unwrap_or(mesh.status_port);
    if asks(pod, known::REWRITE_PROBES).unwrap_or(values.rewrite_probes) && port != 0 {
        warnings.extend(probes::rewrite(pod, port));
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::pod::NAMES_READ;
    use super::*;
    use crate::configuration::{ConfigurationText, Texts};
    use serde_json::json;

    /// Pods with long lists. An item in `<>` is repeated, with its number for `@`; an item in `()` becomes a string.
    const PODS: [&str; 7] = [
        r#"{"spec": {"containers": [<{"name": "c@"}>], "initContainers": [<{"name": "i@"}>], "volumes": [<{"name": "v@"}>],
            "imagePullSecrets": [<{"name": "s@"}>]}}"#,
        r#"{"metadata": {"annotations": {"sidecar.istio.io/userVolume": ([<{"name": "v@"}>]),
            "sidecar.istio.io/userVolumeMount": ([<{"name": "v@", "mountPath": "/@"}>])}},
            "spec": {"containers": [{"name": "a"}], "volumes": [<{"name": "v@"}>]}}"#,
        r#"{"metadata": {"annotations": {"sidecar.istio.io/status": ({"volumes": [<"v@">], "containers": [<"x@">]}),
            "proxy.istio.io/overrides": ({"containers": [<{"name": "y@"}>]})}},
            "spec": {"containers": [{"name": "a", "volumeMounts": [<{"name": "v@", "mountPath": "/@"}>]}], "volumes": [<{"name": "v@"}>]}}"#,
        r#"{"spec": {"containers": [{"name": "a"}, {"name": "istio-proxy", "env": [<{"name": "V@"}>],
            "volumeMounts": [<{"name": "v@", "mountPath": "/@"}>]}], "volumes": [<{"name": "v@"}>]}}"#,
        r#"{"spec": {"containers": [<{"name": "c@", "readinessProbe": {"tcpSocket": {"port": 80}}}>]}}"#,
        r#"{"metadata": {"annotations": {"traffic.sidecar.istio.io/excludeInboundPorts": "1<,1@>"}},
            "spec": {"containers": [{"name": "a", "ports": [<{"name": "p@", "containerPort": 80}>]}]}}"#,
        r#"{"spec": {"containers": [<{"name": "c@", "env": ["sidecar-injector/unread"]}>]}}"#,
    ];

    fn with_items(pod: &str, count: usize) -> Value {
        let mut parts = pod.split(['<', '>']);
        let mut text = parts.next().unwrap_or_default().to_owned();
        while let (Some(item), Some(rest)) = (parts.next(), parts.next()) {
            let between = if item.starts_with(',') { "" } else { "," };
            let items = (0..count).map(|at| item.replace('@', &at.to_string()));
            text += &(items.collect::<Vec<_>>().join(between) + rest);
        }
        let quoted = text.split(['(', ')']).enumerate();
        let text: String = quoted
            .map(|(at, part)| if at % 2 == 1 { json!(part).to_string() } else { part.to_owned() })
            .collect();
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn twice_as_many_items_are_twice_the_work() {
        let text = json!({"policy": "enabled", "defaultTemplates": ["each", "sidecar"], "templates": {"each":
            "spec: {containers: [{{ range .Spec.Containers }}{name: {{ .Name }}, tty: true},{{ end }}]}"}});
        let text = text.to_string();
        let config = Some(ConfigurationText::new("config", &text));
        let each = Configuration::read(&Texts { config, ..Texts::default() }).expect("a configuration");
        for (configuration, pod) in
            [&each, &Configuration::default()].into_iter().flat_map(|one| PODS.map(|pod| (one, pod)))
        {
            let [once, twice] = [100, 200].map(|count| {
                NAMES_READ.set(0);
                let injected = inject(&with_items(pod, count), &AdmissionContext::default(), configuration);
                // A template that changes containers needs their variables.
                assert!(injected.is_ok() || pod.contains("unread"), "{pod}: {injected:?}");
                NAMES_READ.get()
            });
            assert!(twice * 2 < once * 5, "{pod}: {once}, {twice}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_refused_by_name() {
        for name in ["traffic.sidecar.istio.io/excludeInboundPorts", "sidecar-init/inbound-ports-exclude"] {
            let annotations = json!({name: vec!["80"; 60_000].join(",")});
            let pod =
                json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}]}});
            let refused =
                inject(&pod, &AdmissionContext::default(), &Configuration::default()).expect_err("too many");
            assert_eq!(refused.joined(), format!("{name}: holds 60000 items; expected at most 16384"));
        }
    }

    #[test]
    fn a_pod_that_names_too_many_templates_is_refused_with_one_problem() {
        let configuration = Configuration::default();
        let count = |names: &str| {
            let mut pod = CheckedPod::default();
            pod.set("annotations", TEMPLATES, names);
            chosen(&pod, &configuration).map(|found| found.len())
        };
        let named = vec!["sidecar"; MAX_NAMED].join(", ");
        assert_eq!(count(&named).ok(), Some(MAX_NAMED));
        let problems = count(&format!("{named},")).expect_err("too many");
        let expected = "inject.istio.io/templates: names 65 templates; expected at most 64";
        assert_eq!(problems.0.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}
