//! Whether two webhooks are called for one pod: by their selectors alone, whatever namespaces and pods there are.

use crate::decision::{LabelRequirement, LabelSelector, Operator};
use crate::webhook::Webhook;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Labels of a namespace and of a pod for which both are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPod {
    pub namespace: BTreeMap<String, String>,
    pub pod: BTreeMap<String, String>,
}

impl fmt::Display for SharedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |labels: &BTreeMap<String, String>| match labels.is_empty() {
            true => "without labels".to_owned(),
            false => labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
        };
        write!(f, "a pod {} in a namespace {}", list(&self.pod), list(&self.namespace))
    }
}

/// An example of a pod for which both are called; `None` if there can't be one.
pub fn overlap(one: &Webhook, other: &Webhook) -> Option<SharedPod> {
    Some(SharedPod {
        namespace: labels(&one.namespace, &other.namespace)?,
        pod: labels(&one.object, &other.object)?,
    })
}

/// The label that the API server gives each namespace.
const NAME: &str = "kubernetes.io/metadata.name";

/// Labels that meet both selectors, as few as possible. Requirements of different labels don't depend on each other, so each
/// label is decided for itself: absent, one of the values that are named, or one that is not named.
fn labels(one: &LabelSelector, other: &LabelSelector) -> Option<BTreeMap<String, String>> {
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
            let labels: BTreeMap<String, String> =
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::webhooks;

    #[test]
    fn webhooks_of_one_revision_exclude_each_other_and_others_do_not() {
        let (default, auto, canary) =
            (webhooks("default", false), webhooks("default", true), webhooks("canary", false));
        for (at, one) in auto.iter().enumerate() {
            for other in &auto[at + 1..] {
                assert_eq!(overlap(one, other), None, "{} {}", one.name, other.name);
            }
        }
        let shared: Vec<String> = default
            .iter()
            .flat_map(|one| canary.iter().filter_map(move |other| overlap(one, other)))
            .map(|shared| shared.to_string())
            .collect();
        assert_eq!(shared, [""; 0]);
        let same = default.iter().zip(&default).filter_map(|(one, other)| overlap(one, other)).count();
        assert_eq!(same, default.len());
        let shared = overlap(&default[2], &default[2]).expect("one and the same").to_string();
        assert_eq!(shared, "a pod without labels in a namespace istio-injection=enabled");
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
        let nothing = Webhook {
            name: "a".into(),
            namespace: LabelSelector::default(),
            object: LabelSelector::default(),
        };
        for (asked, expected) in requirements {
            let webhook = Webhook { object: LabelSelector(asked), ..nothing.clone() };
            let shared = overlap(&webhook, &nothing).map(|shared| shared.to_string());
            assert_eq!(shared, Some(format!("a pod {expected} in a namespace without labels")));
        }
        let one = |value: &str| LabelSelector(vec![asks(Operator::In(some(&[value])))]);
        let [b, c] = ["b", "c"].map(|value| Webhook { namespace: one(value), ..nothing.clone() });
        assert_eq!(overlap(&b, &c), None);
        // A namespace always has the label of its name.
        let name =
            LabelRequirement { key: NAME.to_owned(), operator: Operator::NotIn(some(&["kube-system"])) };
        let named = Webhook { namespace: LabelSelector(vec![name]), ..nothing.clone() };
        let shared = overlap(&named, &nothing).map(|shared| shared.to_string());
        assert_eq!(
            shared.as_deref(),
            Some("a pod without labels in a namespace kubernetes.io/metadata.name=any")
        );
    }

    #[test]
    fn what_is_shared_is_selected_by_both() {
        let all: Vec<Webhook> = ["default", "canary"]
            .iter()
            .flat_map(|revision| webhooks(revision, *revision == "default"))
            .collect();
        let mut seen = 0;
        for one in &all {
            for other in &all {
                if let Some(SharedPod { mut namespace, pod }) = overlap(one, other) {
                    namespace.entry(NAME.to_owned()).or_insert_with(|| "any".to_owned());
                    assert!(one.matches(&namespace, &pod) && other.matches(&namespace, &pod), "{}", one.name);
                    seen += 1;
                }
            }
        }
        assert!(seen >= all.len(), "{seen}");
    }
}
