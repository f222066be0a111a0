//! Why a pod has a proxy, or has none: which webhook is called for it, who decides, and what is put into it.

mod explained;
mod remedy;
mod security;
mod text;

pub use explained::{
    AddedContainer, CaptureInitContainer, Explained, ExplainedDecision, InjectionVerdict, WebhookMatch,
};
pub use text::{command, text};

use crate::admission::{AdmissionContext, Workload};
use crate::configuration::Configuration;
use crate::decision::{Decision, DecisionReason, InjectionFacts, decide};
use crate::namespaces::{Namespaces, texts};
use crate::offline::{as_texts, is_reported};
use crate::pipeline::{Injected, InjectionOutcome, STATUS, inject};
use crate::webhook::{Webhook, webhooks};
use mesh::pod::{Document, ENFORCE, ManifestObject, Standard, holders};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct InjectionQuestion<'a> {
    /// The manifests: their names, for problems, and their texts.
    pub manifests: &'a [(&'a str, &'a str)],
    /// What is known of namespaces beside what the manifests say.
    pub namespaces: Namespaces,
    /// Whether kubelets can run native sidecars.
    pub native_sidecars: bool,
}

/// An injector: the webhooks by which it is called, and what it goes by.
#[derive(Clone, Debug)]
pub struct DeployedInjector {
    /// Of the control plane.
    pub revision: String,
    pub webhooks: Vec<Webhook>,
    pub configuration: Configuration,
}

impl DeployedInjector {
    /// One as it is installed for a revision; `everywhere`, with the webhook for namespaces and pods without labels.
    pub fn installed(revision: &str, everywhere: bool, configuration: Configuration) -> Self {
        Self { revision: revision.to_owned(), webhooks: webhooks(revision, everywhere), configuration }
    }
}

/// Explains each object of the manifests that describes pods. Where no injector is called, the explanation is what the
/// first one would make of it.
///
/// # Errors
/// When one is not a manifest, or none describes a pod.
///
/// # Panics
/// Without any injector.
pub fn explain(
    question: &InjectionQuestion<'_>,
    injectors: &[DeployedInjector],
) -> Result<Vec<Explained>, Problems> {
    let (mut manifests, mut problems) = (Vec::new(), Vec::new());
    let mut namespaces = question.namespaces.clone();
    for (name, text) in question.manifests {
        match holders(name, text) {
            Ok(documents) => {
                documents.iter().for_each(|document| namespaces.describe(&document.value));
                manifests.push((*name, documents));
            }
            Err(Problems(found)) => problems.extend(found),
        }
    }
    Problems::check(problems)?;
    let mut found = Vec::new();
    for (name, documents) in &manifests {
        for (index, document) in documents.iter().enumerate() {
            for holder in &document.holders {
                let subject = AdmissionSubject::of(question, &namespaces, holder);
                let explained = subject.explain(document, injectors);
                found.push(Explained { file: (*name).to_owned(), document: index + 1, ..explained });
            }
        }
    }
    if found.is_empty() { Err(Problems(manifests.iter().map(without_pods).collect())) } else { Ok(found) }
}

fn without_pods((name, documents): &(&str, Vec<Document>)) -> InputProblem {
    let strangers: Vec<&str> =
        documents.iter().flat_map(|document| &document.strangers).map(String::as_str).collect();
    let text = match &strangers[..] {
        [] => "describes no pod; expected a Pod, or a kind that makes pods, such as a Deployment".to_owned(),
        strangers => format!(
            "describes pods by kinds that are not known here ({}); give one of the pods that they make",
            strangers.join(", ")
        ),
    };
    InputProblem::of(name, text)
}

/// One object, and the context of its admission.
struct AdmissionSubject<'a> {
    holder: &'a ManifestObject,
    admission: AdmissionContext,
    /// Whether anything is known of the labels of its namespace.
    known: bool,
}

impl<'a> AdmissionSubject<'a> {
    fn of(question: &InjectionQuestion<'_>, namespaces: &Namespaces, holder: &'a ManifestObject) -> Self {
        let namespace = namespaces.of(&holder.namespace);
        let known = namespaces.knows_labels_of(&namespace.name);
        let workload = (holder.kind != "Pod").then(|| Workload {
            api_version: holder.api_version.clone(),
            kind: holder.kind.clone(),
            name: holder.name.clone(),
            namespace: namespace.name.clone(),
        });
        let admission = AdmissionContext {
            namespace,
            workload,
            native_sidecars: question.native_sidecars,
            ..AdmissionContext::default()
        };
        Self { holder, admission, known }
    }

    fn title(&self) -> String {
        let name = match (&self.holder.name[..], &self.holder.generate_name[..]) {
            ("", "") => "without a name".to_owned(),
            ("", prefix) => format!("{prefix}*"),
            (name, _) => name.to_owned(),
        };
        format!("{} {}/{name}", self.holder.kind, self.admission.namespace.name)
    }

    fn explain(&self, document: &Document, injectors: &[DeployedInjector]) -> Explained {
        let pod = document.value.pointer(&self.holder.template).unwrap_or(&Value::Null);
        // A value that is not a string is a problem already. As a string it shows the intention.
        let corrected = (!self.holder.problems.is_empty()).then(|| as_texts(pod));
        let pod = corrected.as_ref().unwrap_or(pod);
        let (labels, annotations) = (texts(pod, "labels"), texts(pod, "annotations"));
        let namespace = &self.admission.namespace;
        let host_network = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or_default();
        let system = pod.pointer("/spec/os/name").and_then(Value::as_str).unwrap_or_default();
        let facts = InjectionFacts {
            namespace: &namespace.name,
            host_network,
            system,
            labels: &labels,
            annotations: &annotations,
        };
        let all: Vec<(&DeployedInjector, &Webhook)> = injectors
            .iter()
            .flat_map(|injector| injector.webhooks.iter().map(move |webhook| (injector, webhook)))
            .collect();
        let misses: Vec<_> =
            all.iter().map(|(_, webhook)| webhook.misses(&namespace.labels, &labels)).collect();
        let called = all.iter().find(|(_, webhook)| webhook.matches(&namespace.labels, &labels));
        let configuration = &called.map_or(&injectors[0], |(injector, _)| injector).configuration;
        let decision = decide(&facts, &configuration.rules);
        let mut revisions: Vec<&str> = injectors.iter().map(|injector| &*injector.revision).collect();
        revisions.dedup();
        let mut explained = Explained {
            title: self.title(),
            file: String::new(),
            document: 0,
            namespace: namespace.name.clone(),
            verdict: InjectionVerdict::NotCalled,
            because: format!("no webhook of revision {} is called for it", revisions.join(" or ")),
            webhooks: (all.iter().zip(&misses))
                .map(|((_, webhook), misses)| WebhookMatch {
                    name: webhook.name.clone().into_owned(),
                    called: misses.is_empty(),
                    misses: misses.iter().map(ToString::to_string).collect(),
                })
                .collect(),
            decision: ExplainedDecision { inject: decision.inject, because: because(decision.reason) },
            init: None,
            added: Vec::new(),
            warnings: decision.warning.iter().cloned().collect(),
            problems: Vec::new(),
            assumptions: self.assumptions(),
            remedies: Vec::new(),
            injected: None,
        };
        match called {
            // The API server reads it before it calls a webhook.
            _ if !self.holder.problems.is_empty() => {
                let of_injection = inject(pod, &self.admission, configuration).err();
                explained.verdict = InjectionVerdict::Refused;
                explained.because = "the API server can't read it".to_owned();
                explained.problems = self.problems(of_injection.as_ref());
                explained.webhooks.iter_mut().for_each(|webhook| webhook.called = false);
            }
            Some((_, webhook)) => {
                self.called(webhook, &decision, document, pod, configuration, &mut explained);
            }
            None => {
                explained.problems = match inject(pod, &self.admission, configuration) {
                    Err(Problems(problems)) => problems.iter().map(ToString::to_string).collect(),
                    Ok(InjectionOutcome::Skipped(_) | InjectionOutcome::Injected(_)) => Vec::new(),
                };
                explained.remedies = remedy::of_misses(&decision, &misses, namespace, &revisions);
            }
        }
        explained
    }

    fn called(
        &self,
        webhook: &Webhook,
        decision: &Decision,
        document: &Document,
        pod: &Value,
        configuration: &Configuration,
        explained: &mut Explained,
    ) {
        let is_called = format!("webhook {} is called, and", webhook.name);
        explained.because = format!("{is_called} {}", because(decision.reason));
        match inject(pod, &self.admission, configuration) {
            Err(Problems(problems)) => {
                explained.verdict = InjectionVerdict::Refused;
                explained.because = format!("{is_called} the pod can't be injected");
                explained.problems = problems.iter().map(ToString::to_string).collect();
            }
            Ok(InjectionOutcome::Skipped(decision)) => {
                explained.verdict = InjectionVerdict::Skipped;
                explained.because = format!("{is_called} {}", because(decision.reason));
                explained.remedies = remedy::of_decision(&decision);
            }
            Ok(InjectionOutcome::Injected(injected)) => {
                explained.verdict = InjectionVerdict::Injected;
                self.injected(*injected, document, pod, explained);
                self.secured(&is_called, explained);
            }
        }
    }

    /// The API server looks at the pod once more when webhooks have changed it.
    fn secured(&self, is_called: &str, explained: &mut Explained) {
        let namespace = &self.admission.namespace;
        let label = namespace.labels.get(ENFORCE).map(String::as_str);
        let (Some(standard), Some(object)) = (Standard::enforced(label), &explained.injected) else { return };
        let within = self.holder.template.strip_prefix(&self.holder.object).unwrap_or_default();
        let pod = object.pointer(within).unwrap_or(&Value::Null);
        let names: Vec<&str> = explained.added.iter().map(|added| &*added.name).collect();
        let names = [&names[..], explained.init.as_ref().map(|init| &*init.name).as_slice()].concat();
        let refused = security::refused(standard, pod, &names);
        if !refused.is_empty() {
            explained.verdict = InjectionVerdict::Refused;
            explained.because = format!(
                "{is_called} the Pod Security Standard {standard}, which namespace {} enforces, refuses what it puts in",
                namespace.name
            );
            explained.problems.extend(refused.iter().map(ToString::to_string));
            explained.remedies = remedy::of_security(&refused, &namespace.name);
            explained.injected = None;
        }
    }

    /// What of the pod has not the form that Kubernetes takes, and what would keep it from being injected.
    fn problems(&self, of_injection: Option<&Problems>) -> Vec<String> {
        let form = &self.holder.problems;
        let others = of_injection.into_iter().flat_map(|Problems(problems)| problems);
        let others = others.filter(|problem| !is_reported(problem, form));
        form.iter().chain(others).map(ToString::to_string).collect()
    }

    fn injected(&self, injected: Injected, document: &Document, pod: &Value, explained: &mut Explained) {
        let Injected { pod: after, warnings, .. } = injected;
        for warning in warnings {
            if !explained.warnings.contains(&warning) {
                explained.warnings.push(warning);
            }
        }
        // What an earlier injection put in is put in again.
        let earlier = of_earlier_injection(pod);
        let before: Vec<&str> = ["containers", "initContainers"]
            .iter()
            .flat_map(|place| containers(pod, place))
            .filter_map(name)
            .filter(|name| !earlier.iter().any(|earlier| earlier == name))
            .collect();
        for place in ["initContainers", "containers"] {
            for container in containers(&after, place) {
                let Some(name) = name(container) else { continue };
                if mesh::pod::INIT == name || name == "istio-validation" {
                    let arguments = container.get("args").and_then(Value::as_array).into_iter().flatten();
                    let arguments = arguments.filter_map(Value::as_str).map(str::to_owned).collect();
                    explained.init = Some(CaptureInitContainer { name: name.to_owned(), arguments });
                } else if !before.contains(&name) {
                    let image = container.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
                    explained.added.push(AddedContainer { name: name.to_owned(), image, place });
                }
            }
        }
        let mut object = document.value.pointer(&self.holder.object).cloned().unwrap_or_default();
        let within = self.holder.template.strip_prefix(&self.holder.object).unwrap_or_default();
        if let Some(place) = object.pointer_mut(within) {
            *place = after;
        }
        // The next reader needs them, even where they came from a list.
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), self.holder.api_version.as_str().into());
            fields.insert("kind".to_owned(), self.holder.kind.as_str().into());
        }
        explained.injected = Some(object);
    }

    fn assumptions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let name = &self.admission.namespace.name;
        if !self.known {
            found.push(format!(
                "the labels of namespace {name} are unknown; set them with --namespace-labels"
            ));
        }
        if self.holder.namespace.is_empty() {
            found.push(format!(
                "the object names no namespace, and is taken to be in {name}; set it with --namespace"
            ));
        }
        found
    }
}

/// The names of containers that are an earlier injection's.
fn of_earlier_injection(pod: &Value) -> Vec<String> {
    let status = texts(pod, "annotations").remove(STATUS);
    let status: Value = status.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let lists = ["containers", "initContainers"].map(|place| status[place].as_array().cloned());
    let names = lists.into_iter().flatten().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// A reason, where the sentence before it is about webhooks.
fn because(reason: DecisionReason) -> String {
    match reason {
        DecisionReason::ByPolicy => "the pod says nothing, so the policy decides".to_owned(),
        other => other.to_string(),
    }
}

fn containers<'a>(pod: &'a Value, place: &str) -> impl Iterator<Item = &'a Value> {
    let list = pod.get("spec").and_then(|spec| spec.get(place)).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn name(container: &Value) -> Option<&str> {
    container.get("name").and_then(Value::as_str)
}

/// The objects with their pods injected, as one manifest; `None` where no pod is.
pub fn injected(explained: &[Explained]) -> Option<Value> {
    let items: Vec<&Value> = explained.iter().filter_map(|explained| explained.injected.as_ref()).collect();
    (!items.is_empty()).then(|| json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
