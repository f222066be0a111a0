//! The webhooks that the API server calls for a pod, by the namespace's and the pod's labels, and their injectors' decisions.

mod judge;
pub(crate) mod remedy;

pub use judge::{CONDITIONS, KnownCluster, SelectedPod, Unjudged, WebhookFinding, judge, rivals};

use crate::admission::{Namespace, ObjectLabels};
use crate::chart::ChartTemplate;
use crate::configuration::{Configuration, selector};
use crate::decision::{Decision, LabelRequirement, LabelSelector, Operator, decide};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Label with the name of a control plane.
pub const REVISION: &str = "istio.io/rev";
pub const INJECTION: &str = "istio-injection";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Name without Istio's suffix, then the configuration's name.
    pub name: String,
    /// Name of the configuration, by which the API server orders webhooks.
    pub configuration: String,
    pub namespace: LabelSelector,
    pub object: LabelSelector,
    pub client: WebhookClient,
    pub injector: InjectorIdentity,
    /// True if the webhook also has `matchConditions`.
    pub is_conditional: bool,
}

impl Webhook {
    pub fn matches(&self, namespace: &ObjectLabels, pod: &ObjectLabels) -> bool {
        self.namespace.is_met(namespace) && self.object.is_met(pod)
    }

    /// Unmet requirements; empty if the webhook is called.
    pub fn misses<'a>(&'a self, namespace: &'a ObjectLabels, pod: &'a ObjectLabels) -> Vec<Miss<'a>> {
        let both = [(Bearer::Namespace, &self.namespace, namespace), (Bearer::Pod, &self.object, pod)];
        let missed = both.into_iter().flat_map(|(bearer, selector, labels)| {
            let missed = selector.0.iter().filter(|requirement| !requirement.is_met(labels));
            let found = |requirement: &LabelRequirement| labels.get(&requirement.key).map(String::as_str);
            missed.map(move |requirement| Miss { bearer, requirement, found: found(requirement) })
        });
        missed.collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    Namespace,
    Pod,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss<'a> {
    pub bearer: Bearer,
    pub requirement: &'a LabelRequirement,
    pub found: Option<&'a str>,
}

impl fmt::Display for Miss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bearer, requirement: LabelRequirement { key, operator }, found } = self;
        let bearer = match bearer {
            Bearer::Namespace => "namespace",
            Bearer::Pod => "pod",
        };
        match found {
            Some(value) => write!(f, "the {bearer}'s label {key} is {value:?} (")?,
            None => write!(f, "the {bearer} has no label {key} (")?,
        }
        let list = |values: &[String]| {
            values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" or ")
        };
        match operator {
            Operator::Exists => f.write_str("must exist)"),
            Operator::DoesNotExist => f.write_str("must not exist)"),
            Operator::In(values) => write!(f, "must be {})", list(values)),
            Operator::NotIn(values) => write!(f, "must not be {})", list(values)),
        }
    }
}

#[derive(Clone, Debug)]
pub struct DeployedInjector {
    pub revision: String,
    pub webhooks: Vec<Webhook>,
    pub configuration: Configuration,
}

impl DeployedInjector {
    /// An injector with the chart's webhooks; `everywhere` adds the webhook for unlabeled namespaces and pods.
    pub fn installed(revision: &str, everywhere: bool, configuration: Configuration) -> Self {
        let values = json!({ "injector": { "revision": revision, "auto": everywhere } });
        let installed = ChartTemplate::WEBHOOKS.objects("", &values);
        let webhooks = installed.iter().flat_map(|one| {
            let named =
                |webhook| Some(Webhook { name: short_name(webhook).to_owned(), ..of_value(one, webhook)? });
            injecting(one).filter_map(named)
        });
        Self { revision: revision.to_owned(), webhooks: webhooks.collect(), configuration }
    }
}

pub fn by_injector<'a>(
    configurations: impl IntoIterator<Item = &'a Value>,
) -> BTreeMap<InjectorIdentity, Vec<Webhook>> {
    let mut found: BTreeMap<_, Vec<Webhook>> = BTreeMap::new();
    for webhook in configurations.into_iter().flat_map(read) {
        found.entry(webhook.injector.clone()).or_default().push(webhook);
    }
    found
}

#[derive(Clone, Debug)]
pub struct PodAdmission<'a> {
    /// Each webhook in the API server's order, with its unmet requirements.
    pub webhooks: Vec<(&'a DeployedInjector, &'a Webhook, Vec<Miss<'a>>)>,
    /// The webhook whose decision counts; `None` if no webhook is called.
    pub called: Option<&'a Webhook>,
    /// The called webhook's injector, else the first injector.
    pub injector: &'a DeployedInjector,
    pub decision: Decision,
}

/// Returns `None` if no webhook exists.
pub fn admit<'a>(
    injectors: &'a [DeployedInjector],
    namespace: &'a Namespace,
    labels: &'a ObjectLabels,
    pod: &Value,
) -> Option<PodAdmission<'a>> {
    let each = injectors.iter().flat_map(|injector| injector.webhooks.iter().map(move |one| (injector, one)));
    let mut webhooks: Vec<_> =
        each.map(|(injector, one)| (injector, one, one.misses(&namespace.labels, labels))).collect();
    webhooks.sort_by_key(|(_, one, _)| &one.configuration);
    let decide = |injector: &DeployedInjector| decide(&namespace.name, pod, &injector.configuration.rules);
    let called = || webhooks.iter().filter(|(.., misses)| misses.is_empty());
    // All matching webhooks are called, so the pod is injected if one of them injects it.
    let counting = called().find(|(injector, ..)| decide(injector).inject).or_else(|| called().next());
    let injector = counting.or(webhooks.first())?.0;
    let called = counting.map(|(_, webhook, _)| *webhook);
    Some(PodAdmission { called, injector, decision: decide(injector), webhooks })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPod {
    pub namespace: ObjectLabels,
    pub pod: ObjectLabels,
}

impl fmt::Display for SharedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |labels: &ObjectLabels| match labels.is_empty() {
            true => "without labels".to_owned(),
            false => labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
        };
        write!(f, "a pod {} in a namespace {}", list(&self.pod), list(&self.namespace))
    }
}

pub fn overlap(one: &Webhook, other: &Webhook) -> Option<SharedPod> {
    Some(SharedPod {
        namespace: labels(&one.namespace, &other.namespace)?,
        pod: labels(&one.object, &other.object)?,
    })
}

/// Label that the API server sets on each namespace.
const NAME: &str = "kubernetes.io/metadata.name";

/// The fewest labels that meet both selectors, each with a required value or a value that no selector excludes.
fn labels(one: &LabelSelector, other: &LabelSelector) -> Option<ObjectLabels> {
    let mut by_key: BTreeMap<&str, Vec<&LabelRequirement>> = BTreeMap::new();
    for requirement in one.0.iter().chain(&other.0) {
        by_key.entry(&requirement.key).or_default().push(requirement);
    }
    let mut found = BTreeMap::new();
    for (key, requirements) in by_key {
        let named: BTreeSet<&str> = requirements.iter().flat_map(|one| values(one)).collect();
        let mut fresh = "any".to_owned();
        while named.contains(fresh.as_str()) {
            fresh.push_str("-x");
        }
        let absent = (key != NAME).then_some(None);
        let candidates = absent.into_iter().chain(named.iter().copied().map(Some)).chain([Some(&*fresh)]);
        let value = candidates.into_iter().find(|value| {
            let labels: ObjectLabels =
                value.iter().map(|value| (key.to_owned(), (*value).to_owned())).collect();
            requirements.iter().all(|requirement| requirement.is_met(&labels))
        })?;
        found.extend(value.map(|value| (key.to_owned(), value.to_owned())));
    }
    Some(found)
}

fn values(requirement: &LabelRequirement) -> impl Iterator<Item = &str> {
    let values: &[String] = match &requirement.operator {
        Operator::In(values) | Operator::NotIn(values) => values,
        Operator::Exists | Operator::DoesNotExist => &[],
    };
    values.iter().map(String::as_str)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebhookClient {
    Service { namespace: String, name: String },
    Url(String),
}

impl WebhookClient {
    /// `None` without Service or URL; the API server refuses this.
    pub fn of(webhook: &Value) -> Option<Self> {
        let client = &webhook["clientConfig"];
        let text = |field: &str| client["service"][field].as_str().map(str::to_owned);
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) => Some(Self::Service { namespace, name }),
            _ => client["url"].as_str().map(|url| Self::Url(url.to_owned())),
        }
    }
}

/// Istio's namespace, the default for a webhook with a URL.
const ISTIO: &str = "istio-system";

/// Identity of an injector, from which its ConfigMaps' names derive: its Service's namespace and name, and its revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InjectorIdentity {
    pub namespace: String,
    /// Empty for a webhook with a URL.
    pub service: String,
    pub revision: String,
}

impl InjectorIdentity {
    fn of(configuration: &Value, client: &WebhookClient) -> Self {
        let revision = configuration["metadata"]["labels"][REVISION].as_str().unwrap_or("default").to_owned();
        let (namespace, service) = match client {
            WebhookClient::Service { namespace, name } => (namespace.clone(), name.clone()),
            WebhookClient::Url(_) => (ISTIO.to_owned(), String::new()),
        };
        Self { namespace, service, revision }
    }

    /// Possible names of the config's ConfigMap: the Service's name, as in this project's chart, or Istio's.
    pub fn config_maps(&self) -> impl Iterator<Item = String> + use<> {
        let names = [self.service.clone(), self.with_revision("istio-sidecar-injector")];
        names.into_iter().filter(|name| !name.is_empty())
    }

    pub fn mesh_map(&self) -> String {
        self.with_revision("istio")
    }

    fn with_revision(&self, name: &str) -> String {
        if self.revision == "default" { name.to_owned() } else { format!("{name}-{}", self.revision) }
    }
}

const SUFFIX: &str = ".sidecar-injector.istio.io";

/// A configuration's injecting webhooks, which are called for new pods at Istio's path.
pub fn read(configuration: &Value) -> Vec<Webhook> {
    injecting(configuration).filter_map(|webhook| of_value(configuration, webhook)).collect()
}

fn of_value(configuration: &Value, webhook: &Value) -> Option<Webhook> {
    let title = configuration["metadata"]["name"].as_str().unwrap_or_default();
    let client = WebhookClient::of(webhook)?;
    Some(Webhook {
        name: format!("{} of {title}", short_name(webhook)),
        configuration: title.to_owned(),
        namespace: selector::of_webhook(&webhook["namespaceSelector"])?,
        object: selector::of_webhook(&webhook["objectSelector"])?,
        injector: InjectorIdentity::of(configuration, &client),
        client,
        is_conditional: webhook["matchConditions"].as_array().is_some_and(|all| !all.is_empty()),
    })
}

fn injecting(configuration: &Value) -> impl Iterator<Item = &Value> {
    of_pods(configuration).filter(|webhook| injects(webhook))
}

fn short_name(webhook: &Value) -> &str {
    let name = webhook["name"].as_str().unwrap_or_default();
    name.strip_suffix(SUFFIX).unwrap_or(name)
}

fn of_pods(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten().filter(|webhook| is_for_pods(webhook))
}

fn is_for_pods(webhook: &Value) -> bool {
    webhook["rules"].as_array().into_iter().flatten().any(|rule| {
        let has = |field: &str, value: &str| {
            rule[field].as_array().into_iter().flatten().any(|item| item == value || item == "*")
        };
        // `pods/*` includes pods themselves (`k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`).
        let is_pods = ["pods", "pods/*", "*/*"].into_iter().any(|resource| has("resources", resource))
            && rule["scope"] != "Cluster";
        has("operations", "CREATE") && has("apiGroups", "") && has("apiVersions", "v1") && is_pods
    })
}

fn injects(webhook: &Value) -> bool {
    let client = &webhook["clientConfig"];
    let of_url = || client["url"].as_str()?.splitn(4, '/').nth(3);
    let path = client["service"]["path"].as_str().or_else(of_url).unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    path == "inject" || path.starts_with("inject/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::INJECT;

    /// Tries absent, matching and other revision and injection labels of the namespace and the pod.
    #[test]
    fn at_most_one_installed_webhook_matches() {
        let all = DeployedInjector::installed("default", true, Configuration::default()).webhooks;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let values = |matching| [None, Some(matching), Some("other")];
        let labels = |pairs: [(&str, Option<&str>); 2]| -> BTreeMap<String, String> {
            pairs.iter().filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_owned()))).collect()
        };
        let mut rows = 0;
        for of_namespace in values("default") {
            for injection in values("enabled") {
                for inject in [None, Some("true"), Some("false")] {
                    for of_pod in values("default") {
                        let namespace = labels([(REVISION, of_namespace), (INJECTION, injection)]);
                        let pod = labels([(INJECT, inject), (REVISION, of_pod)]);
                        let matching: Vec<&str> = all
                            .iter()
                            .filter(|webhook| webhook.matches(&namespace, &pod))
                            .map(|webhook| &*webhook.name)
                            .collect();
                        for webhook in &all {
                            let misses = webhook.misses(&namespace, &pod);
                            assert_eq!(misses.is_empty(), matching.contains(&&*webhook.name), "{misses:?}");
                        }
                        assert!(matching.len() <= 1, "{namespace:?} {pod:?}: {matching:?}");
                        for name in matching {
                            *counts.entry(name).or_default() += 1;
                        }
                        rows += 1;
                    }
                }
            }
        }
        assert_eq!(rows, 81);
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(overlap(one, other).is_some(), at == other_at, "{} {}", one.name, other.name);
            }
        }
        let expected = BTreeMap::from([
            ("rev.namespace", 6),
            ("rev.object", 2),
            ("namespace", 18),
            ("object", 1),
            ("auto", 1),
        ]);
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_webhook_is_for_new_pods_by_any_of_its_rules() {
        let rule = |fields: [&str; 4]| {
            let [operation, group, version, resource] = fields;
            json!({"operations": ["DELETE", operation], "apiGroups": [group], "apiVersions": [version], "resources": [resource]})
        };
        let other = rule(["CREATE", "apps", "v1", "deployments"]);
        for (fields, expected) in [
            (["CREATE", "", "v1", "pods"], true),
            (["*", "*", "*", "*"], true),
            (["*", "", "v1", "*/*"], true),
            (["CREATE", "", "v1", "pods/*"], true),
            (["CREATE", "", "v1", "*/exec"], false),
            (["UPDATE", "", "v1", "pods"], false),
            (["CREATE", "apps", "v1", "pods"], false),
            (["CREATE", "", "v2", "pods"], false),
            (["CREATE", "", "v1", "pods/status"], false),
        ] {
            let webhook =
                json!({"name": "a", "rules": [other, rule(fields)], "clientConfig": {"url": "https://b/c"}});
            let configuration = json!({"metadata": {"name": "c"}, "webhooks": [webhook]});
            assert_eq!(of_pods(&configuration).count(), usize::from(expected), "{fields:?}");
            assert_eq!(read(&configuration), [], "{fields:?}");
        }
        let mut cluster_scoped = rule(["*", "*", "*", "*/*"]);
        cluster_scoped["scope"] = "Cluster".into();
        let configuration = json!({"webhooks": [{"name": "a", "rules": [cluster_scoped]}]});
        assert_eq!(of_pods(&configuration).count(), 0);
        for (client, expected) in [
            (json!({"url": "https://a/inject"}), true),
            (json!({"url": "https://a/inject/cluster/b"}), true),
            (json!({"url": "https://a/injected"}), false),
            (json!({"url": "https://a"}), false),
            (json!({"service": {"path": "/inject"}, "url": "https://a/b"}), true),
            (json!({"service": {"name": "a", "namespace": "b"}}), false),
        ] {
            let rules = json!([rule(["CREATE", "", "v1", "pods"])]);
            let bad = json!({"matchLabels": {"a": 1}});
            let webhook = json!({"name": "a", "rules": rules, "clientConfig": client});
            let mut unread = webhook.clone();
            unread["objectSelector"] = bad;
            let configuration = json!({"webhooks": [webhook, unread]});
            assert_eq!(read(&configuration).len(), usize::from(expected), "{client}");
        }
    }

    #[test]
    fn webhooks_of_a_cluster_are_parsed() {
        let webhook = |name: &str, client: Value, resources: &str| {
            json!({ "name": name, "clientConfig": client,
                "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resources] }],
                "namespaceSelector": { "matchLabels": { "istio-injection": "enabled" } }, "objectSelector": {} })
        };
        let service = |path: &str| json!({ "service": { "name": "istiod", "namespace": "istio-system", "path": path } });
        let mut configuration = json!({ "metadata": { "name": "c" }, "webhooks": [
            webhook("namespace.sidecar-injector.istio.io", service("/inject"), "pods"),
            webhook("remote.example", json!({ "url": "https://a:15017/inject/cluster/b" }), "*"),
            webhook("tag.example", service("/environment-tag"), "pods"),
            webhook("other.example", service("/inject"), "services"),
        ] });
        for (at, conditions) in [json!([]), json!([{}]), json!([{}]), json!([{}])].into_iter().enumerate() {
            configuration["webhooks"][at]["matchConditions"] = conditions;
        }
        let found = read(&configuration);
        let names: Vec<(&str, bool)> =
            found.iter().map(|webhook| (&*webhook.name, webhook.is_conditional)).collect();
        assert_eq!(names, [("namespace of c", false), ("remote.example of c", true)]);
        let labels = BTreeMap::from([("istio-injection".to_owned(), "enabled".to_owned())]);
        assert!(found[0].matches(&labels, &BTreeMap::new()) && !found[0].matches(&BTreeMap::new(), &labels));
    }

    #[test]
    fn a_shared_pod_is_shown_with_as_few_labels_as_possible() {
        let asks = |operator| LabelRequirement { key: "k".to_owned(), operator };
        let some = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let requirements = [
            (vec![], "without labels"),
            (vec![asks(Operator::DoesNotExist)], "without labels"),
            (vec![asks(Operator::NotIn(some(&["a"])))], "without labels"),
            (vec![asks(Operator::Exists)], "k=any"),
            (vec![asks(Operator::Exists), asks(Operator::NotIn(some(&["any", "b"])))], "k=any-x"),
            (vec![asks(Operator::Exists), asks(Operator::NotIn(some(&["any", "any-x"])))], "k=any-x-x"),
            (vec![asks(Operator::In(some(&["b", "c"])))], "k=b"),
            (vec![asks(Operator::In(some(&["b", "c"]))), asks(Operator::NotIn(some(&["b"])))], "k=c"),
        ];
        let client = WebhookClient::Url(String::new());
        let nothing = Webhook {
            name: "a".into(),
            configuration: String::new(),
            is_conditional: false,
            namespace: LabelSelector::default(),
            object: LabelSelector::default(),
            injector: InjectorIdentity::of(&Value::Null, &client),
            client,
        };
        for (asked, expected) in requirements {
            let webhook = Webhook { object: LabelSelector(asked), ..nothing.clone() };
            let shared = overlap(&webhook, &nothing).map(|shared| shared.to_string());
            assert_eq!(shared, Some(format!("a pod {expected} in a namespace without labels")));
        }
        let one = |value: &str| LabelSelector(vec![asks(Operator::In(some(&[value])))]);
        let [b, c] = ["b", "c"].map(|value| Webhook { namespace: one(value), ..nothing.clone() });
        assert_eq!(overlap(&b, &c), None);
        // A namespace always has a label with its name.
        let name =
            LabelRequirement { key: NAME.to_owned(), operator: Operator::NotIn(some(&["kube-system"])) };
        let named = Webhook { namespace: LabelSelector(vec![name]), ..nothing.clone() };
        let shared = overlap(&named, &nothing).map(|shared| shared.to_string());
        assert_eq!(
            shared.as_deref(),
            Some("a pod without labels in a namespace kubernetes.io/metadata.name=any")
        );
    }
}
