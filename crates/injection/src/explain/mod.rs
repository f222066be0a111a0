//! Explains why a pod has a proxy or none: the called webhook, its decision, and the injected parts.

mod security;

pub use security::BY_PLUGIN;

use crate::admission::{Namespaces, ObjectLabels, texts};
use crate::offline::{AdmissionSubject, Surroundings};
use crate::pipeline::pod::PodSpecItem;
use crate::pipeline::{Injected, InjectionOutcome};
use crate::webhook::{
    CONDITIONS, DeployedInjector, PodAdmission, SelectedPod, Webhook, WebhookFinding, admit, remedy, rivals,
};
use diagnose::Style;
use mesh::pod::{ENFORCE, INIT, KubernetesObject, Standard, VALIDATION};
use mesh::{InputProblem, Problems, data::document::at, visible};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    pub title: String,
    pub file: String,
    pub document: usize,
    pub namespace: String,
    pub verdict: InjectionVerdict,
    /// The reason, a sentence without its full stop.
    pub because: String,
    pub webhooks: Vec<WebhookMatch>,
    /// The decision of the called webhook, or of the first one if none is called.
    pub decision: ExplainedDecision,
    pub init: Option<CaptureInitContainer>,
    pub added: Vec<AddedContainer>,
    pub warnings: Vec<String>,
    pub problems: Vec<String>,
    pub assumptions: Vec<String>,
    /// Alternative changes, each of which would cause an injection.
    pub remedies: Vec<String>,
    #[serde(skip)]
    pub injected: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InjectionVerdict {
    Injected,
    NotCalled,
    #[serde(rename = "left-alone")]
    Skipped,
    Refused,
}

#[derive(Clone, Debug, Serialize)]
pub struct WebhookMatch {
    pub name: String,
    /// False if the API server can't read the pod.
    pub called: bool,
    pub misses: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDecision {
    pub inject: bool,
    pub because: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct CaptureInitContainer {
    pub name: String,
    pub arguments: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AddedContainer {
    pub name: String,
    pub image: String,
    pub place: &'static str,
}

/// Explains each object that describes pods in the manifests (names and contents). If no injector is called, explains the first
/// injector's result. Fails if a manifest is invalid, or none describes a pod. Panics without any injector.
pub fn explain(
    texts: &[(&str, &str)],
    mut around: Surroundings,
    injectors: &[DeployedInjector],
) -> Result<Vec<Explained>, Problems> {
    let (mut manifests, mut problems) = (Vec::new(), Vec::new());
    for (name, text) in texts {
        match KubernetesObject::all(name, text) {
            Ok(objects) => {
                objects.iter().for_each(|object| around.namespaces.describe(&object.value));
                manifests.push((*name, objects));
            }
            Err(Problems(found)) => problems.extend(found),
        }
    }
    Problems::check(problems)?;
    let mut found = Vec::new();
    for (name, objects) in &manifests {
        for object in objects {
            let Some(subject) = AdmissionSubject::of(object, &around) else { continue };
            found.push(subject.explain(name, injectors, &around.namespaces));
        }
    }
    if found.is_empty() { Err(Problems(manifests.iter().map(without_pods).collect())) } else { Ok(found) }
}

fn without_pods((name, objects): &(&str, Vec<KubernetesObject>)) -> InputProblem {
    let unknown: Vec<String> = objects.iter().filter_map(KubernetesObject::unknown_holder).collect();
    let text = match &unknown[..] {
        [] => "describes no pod; expected a Pod or a workload such as a Deployment".to_owned(),
        unknown => {
            format!("describes pods in unknown kinds ({}); give one of their pods", unknown.join(", "))
        }
    };
    InputProblem::of(name, text)
}

impl AdmissionSubject<'_> {
    fn explain(&self, file: &str, injectors: &[DeployedInjector], namespaces: &Namespaces) -> Explained {
        let pod = &*self.pod;
        let labels = texts(pod, "labels");
        let namespace = &self.admission.namespace;
        let admission = admit(injectors, namespace, &labels, pod).expect("an injector with a webhook");
        let PodAdmission { webhooks, called, injector, decision } = &admission;
        let revisions: BTreeSet<&str> = webhooks.iter().map(|(one, ..)| one.revision.as_str()).collect();
        let revisions: Vec<&str> = revisions.into_iter().collect();
        let outcome = self.inject(&injector.configuration);
        let problems = outcome.as_ref().err().into_iter().flatten();
        let misplaced = self.described.remarks.iter().map(|remark| remark.text.clone());
        let mut explained = Explained {
            title: self.title(),
            file: file.to_owned(),
            document: self.object.document,
            namespace: namespace.name.clone(),
            verdict: InjectionVerdict::NotCalled,
            because: format!("no webhook of revision {} is called for it", revisions.join(" or ")),
            webhooks: (webhooks.iter())
                .map(|(_, webhook, misses)| WebhookMatch {
                    name: webhook.name.clone(),
                    called: misses.is_empty(),
                    misses: misses.iter().map(ToString::to_string).collect(),
                })
                .collect(),
            decision: ExplainedDecision { inject: decision.inject, because: decision.reason.to_string() },
            init: None,
            added: Vec::new(),
            warnings: decision.warning().into_iter().chain(misplaced).collect(),
            problems: problems.map(ToString::to_string).collect(),
            assumptions: self.assumptions(namespaces, &admission),
            remedies: Vec::new(),
            injected: None,
        };
        match called {
            // The API server parses the pod before it calls a webhook.
            _ if !self.described.problems.is_empty() => {
                explained.verdict = InjectionVerdict::Refused;
                explained.because = "the API server would reject it".to_owned();
                let start = |problem: &InputProblem| self.described.origin.start(&problem.name);
                let form = self.described.problems.iter().map(|one| format!("{}{one}", start(one)));
                explained.problems.splice(..0, form);
                explained.webhooks.iter_mut().for_each(|webhook| webhook.called = false);
            }
            Some(webhook) => {
                self.called(&format!("webhook {} is called, and", webhook.name), outcome, &mut explained);
                explained.warnings.extend(self.rivals(&admission, &labels));
            }
            None => {
                let misses: Vec<_> = webhooks.iter().map(|(.., misses)| misses.clone()).collect();
                explained.remedies = remedy::of_misses(decision, &misses, namespace, &revisions);
            }
        }
        explained
    }

    fn rivals(&self, admission: &PodAdmission<'_>, labels: &ObjectLabels) -> impl Iterator<Item = String> {
        let called = admission.webhooks.iter().filter(|(.., misses)| misses.is_empty());
        let called: Vec<&Webhook> = called.map(|(_, webhook, _)| *webhook).collect();
        let namespace = &self.admission.namespace.labels;
        let pods = [SelectedPod { workload: self.title(), namespace, labels }];
        let found = rivals(&called, &pods).into_iter();
        found.map(|WebhookFinding { finding, .. }| format!("{}; {}", finding.text, finding.remedy))
    }

    fn title(&self) -> String {
        format!("{} {}", self.object.kind(), self.name("without a name"))
    }

    fn called(
        &self,
        is_called: &str,
        outcome: Result<InjectionOutcome, Vec<InputProblem>>,
        explained: &mut Explained,
    ) {
        (explained.verdict, explained.because) = match outcome {
            Err(_) => (InjectionVerdict::Refused, format!("{is_called} the pod can't be injected")),
            Ok(InjectionOutcome::Skipped(decision)) => {
                explained.remedies = remedy::of_decision(&decision);
                (InjectionVerdict::Skipped, format!("{is_called} {}", decision.reason))
            }
            Ok(InjectionOutcome::Injected(injected)) => {
                let reason = injected.decision.reason;
                self.injected(*injected, explained);
                match self.secured(explained) {
                    Some(refusal) => (InjectionVerdict::Refused, format!("{is_called} {refusal}")),
                    None => (InjectionVerdict::Injected, format!("{is_called} {reason}")),
                }
            }
        };
    }

    /// Violations of the namespace's standard: the API server checks the pod again after webhooks have changed it.
    fn secured(&self, explained: &mut Explained) -> Option<String> {
        let namespace = &self.admission.namespace;
        let label = namespace.labels.get(ENFORCE).map(String::as_str);
        let standard = Standard::enforced(label)?;
        let pod = at(explained.injected.as_ref()?, self.path)?;
        let names: Vec<&str> = explained.added.iter().map(|added| &*added.name).collect();
        let names = [&names[..], explained.init.as_ref().map(|init| &*init.name).as_slice()].concat();
        let refused = security::refused(standard, pod, &names);
        if refused.is_empty() {
            return None;
        }
        explained.problems.extend(refused.iter().map(ToString::to_string));
        explained.remedies = security::of_security(&refused, &namespace.name);
        explained.injected = None;
        let name = &namespace.name;
        Some(format!(
            "the Pod Security Standard {standard}, which namespace {name} enforces, refuses the injected containers"
        ))
    }

    fn injected(&self, injected: Injected, explained: &mut Explained) {
        let Injected { pod: after, warnings, .. } = injected;
        explained.warnings = warnings;
        // Containers of an earlier injection are injected again.
        let earlier = self.described.pod.status().unwrap_or_default();
        let own = ["containers", "initContainers"].iter().flat_map(|place| self.pod["spec"].list(place));
        let mut before: Vec<&str> = own.map(PodSpecItem::name).collect();
        before.retain(|name| !earlier.added().any(|one| one == name));
        for place in ["initContainers", "containers"] {
            for container in after["spec"].list(place) {
                let name = container.name();
                if [INIT, VALIDATION].contains(&name) {
                    let arguments =
                        container.list("args").iter().filter_map(Value::as_str).map(str::to_owned).collect();
                    explained.init = Some(CaptureInitContainer { name: name.to_owned(), arguments });
                } else if !before.contains(&name) {
                    let image = container["image"].as_str().unwrap_or_default().to_owned();
                    explained.added.push(AddedContainer { name: name.to_owned(), image, place });
                }
            }
        }
        let mut object = self.object.value.clone();
        self.put(Some(&mut object), after);
        explained.injected = Some(object);
    }

    fn assumptions(&self, namespaces: &Namespaces, admission: &PodAdmission<'_>) -> Vec<String> {
        let name = &self.admission.namespace.name;
        let conditional =
            admission.webhooks.iter().filter(|(_, one, misses)| one.is_conditional && misses.is_empty());
        let names: BTreeSet<String> =
            conditional.map(|(_, one, _)| format!("webhook {}", one.name)).collect();
        let mut found: Vec<String> = Vec::new();
        let sentence = || format!("it is not known {}", CONDITIONS.sentence(&names));
        found.extend((!names.is_empty()).then(sentence));
        if !namespaces.knows_labels_of(name) {
            found.push(format!(
                "the labels of namespace {name} are unknown; set them with --namespace-labels"
            ));
        }
        if self.object.meta("namespace").is_empty() {
            found.push(format!("the object has no namespace; assuming {name} (set it with --namespace)"));
        }
        found
    }
}

pub fn injected(explained: &[Explained]) -> Option<Value> {
    let items: Vec<&Value> = explained.iter().filter_map(|explained| explained.injected.as_ref()).collect();
    (!items.is_empty()).then(|| json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

pub fn text(explained: &[Explained]) -> String {
    explained.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

fn paragraph(one: &Explained) -> String {
    let verdict = match one.verdict {
        InjectionVerdict::Injected => Style::Captured.paint("injected"),
        InjectionVerdict::NotCalled | InjectionVerdict::Skipped => Style::Passing.paint("not injected"),
        InjectionVerdict::Refused => Style::Dropped.paint("refused"),
    };
    let title = Style::Strong.paint(visible(&one.title));
    let mut lines = vec![format!("{title}: {verdict}, because {}", visible(&one.because))];
    lines.extend(one.problems.iter().map(|problem| line("problem", problem)));
    for WebhookMatch { name, called, misses } in &one.webhooks {
        lines.push(match (called, &misses[..]) {
            (true, _) => line("webhook", &format!("{name} is called")),
            (false, []) => line("webhook", &format!("{name} would be called")),
            (false, misses) => {
                let is_not = line("webhook", &format!("{name} is not called: {}", misses.join(", and ")));
                Style::Quiet.paint(is_not)
            }
        });
    }
    if !one.webhooks.iter().any(|webhook| webhook.called) {
        let ExplainedDecision { inject, because } = &one.decision;
        let (would, because) = match (one.problems.is_empty(), inject) {
            (false, _) => ("would be refused", "see the problems above"),
            (true, true) => ("would be injected", &**because),
            (true, false) => ("would not be injected", &**because),
        };
        lines.push(line("decision", &format!("if one were called, the pod {would}: {because}")));
    }
    match &one.init {
        Some(init) => lines.push(line("init", &format!("{}: {}", init.name, command(&init.arguments)))),
        None if one.verdict == InjectionVerdict::Injected => {
            lines.push(line("init", "none: nothing is captured"));
        }
        None => {}
    }
    let added =
        one.added.iter().map(|added| format!("{} in {}, from {}", added.name, added.place, added.image));
    lines.extend(added.map(|added| line("container", &added)));
    lines.extend(one.warnings.iter().map(|warning| line("warning", warning)));
    let assumptions = one.assumptions.iter();
    lines.extend(assumptions.map(|assumption| Style::Quiet.paint(line("note", assumption))));
    let remedies = one.remedies.iter().enumerate();
    lines.extend(remedies.map(|(index, remedy)| line(if index == 0 { "to change" } else { "or" }, remedy)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Formats a line, escaped because it may contain names from the manifest.
fn line(label: &str, text: &str) -> String {
    format!("  {label:<11} {}", visible(text))
}

pub fn command(words: &[String]) -> String {
    words.iter().map(|word| mesh::quoted(word)).collect::<Vec<_>>().join(" ")
}
