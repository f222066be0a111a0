//! Remedies for pods that are not injected: label changes for the webhooks with the fewest unmet requirements.

use super::{Bearer, Miss, REVISION};
use crate::admission::Namespace;
use crate::decision::{Decision, DecisionReason, INJECT, Operator};

/// Remedies if no webhook is called; each line is sufficient.
pub(crate) fn of_misses(
    decision: &Decision,
    misses: &[Vec<Miss<'_>>],
    namespace: &Namespace,
    revisions: &[&str],
) -> Vec<String> {
    use DecisionReason::{HostNetwork, NoPolicy, OtherSystem, SystemNamespace};
    // Any called webhook would skip the pod.
    if matches!(decision.reason, HostNetwork | OtherSystem | SystemNamespace | NoPolicy) {
        return of_decision(decision);
    }
    let least = misses.iter().map(Vec::len).min().unwrap_or_default();
    let nearest = misses.iter().filter(|misses| misses.len() == least);
    let mut found: Vec<String> = Vec::new();
    let other = namespace.labels.get(REVISION).filter(|other| !revisions.contains(&other.as_str()));
    found.extend(other.map(|other| {
        format!("namespace {} requests revision {other}: use --revision {other}", namespace.name)
    }));
    // Once called, the webhook would still skip the pod.
    let besides = of_decision(decision).into_iter().next();
    for misses in nearest {
        let decides = |miss: &Miss<'_>| miss.bearer == Bearer::Pod && miss.requirement.key == INJECT;
        let besides = besides.clone().filter(|_| !misses.iter().any(decides));
        let parts = misses.iter().map(|miss| of_miss(miss, namespace)).chain(besides);
        let line = parts.collect::<Vec<_>>().join("; and ");
        if !line.is_empty() && !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

fn of_miss(miss: &Miss<'_>, namespace: &Namespace) -> String {
    let (key, name) = (&miss.requirement.key, &namespace.name);
    let one = |values: &[String]| values.first().cloned().unwrap_or_default();
    match (miss.bearer, &miss.requirement.operator) {
        // The API server requires this label to equal the namespace's name.
        (Bearer::Namespace, Operator::In(values)) if key == "kubernetes.io/metadata.name" => {
            format!("put the pod into namespace {}", one(values))
        }
        (Bearer::Namespace, Operator::In(values)) => {
            let overwrite = if miss.found.is_some() { " --overwrite" } else { "" };
            format!("kubectl label namespace {name} {key}={}{overwrite}", one(values))
        }
        (Bearer::Namespace, Operator::DoesNotExist) => format!("kubectl label namespace {name} {key}-"),
        (Bearer::Namespace, Operator::Exists) => format!("kubectl label namespace {name} {key}="),
        (Bearer::Namespace, Operator::NotIn(_)) => "put the pod into a separate namespace".to_owned(),
        (Bearer::Pod, Operator::In(values)) => format!("set the label {key}: {:?} on the pod", one(values)),
        (Bearer::Pod, Operator::Exists) => format!("set the label {key} on the pod"),
        (Bearer::Pod, Operator::DoesNotExist | Operator::NotIn(_)) => {
            format!("remove the label {key} from the pod")
        }
    }
}

/// Remedies if a called webhook skips the pod.
pub(crate) fn of_decision(decision: &Decision) -> Vec<String> {
    let yes = format!("set the label {INJECT}: \"true\" on the pod");
    let no_label = format!("remove the label {INJECT} from the pod, or set it to \"true\"");
    let no_annotation = format!("remove the annotation {INJECT} from the pod");
    let found: &[&str] = match decision.reason {
        _ if decision.inject => &[],
        DecisionReason::HostNetwork => {
            &["remove hostNetwork from the pod: the rules would capture the node's traffic"]
        }
        DecisionReason::OtherSystem => &["run the pod on Linux: the rules need netfilter"],
        DecisionReason::SystemNamespace => &["put the pod into a separate namespace"],
        DecisionReason::NoPolicy => &["set policy in the injector's config to enabled or disabled"],
        DecisionReason::Label => &[&no_label],
        DecisionReason::Annotation => &[&no_annotation, &yes],
        DecisionReason::NeverSelected | DecisionReason::AlwaysSelected => &[&yes],
        DecisionReason::ByPolicy => &[&yes, "set policy in the injector's config to enabled"],
    };
    found.iter().map(|text| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::LabelRequirement;

    #[test]
    fn each_unmet_label_has_a_remedy() {
        let namespace = Namespace { name: "shop".to_owned(), ..Namespace::default() };
        let values = || vec!["a".to_owned(), "b".to_owned()];
        for (bearer, operator, found, expected) in [
            (Bearer::Namespace, Operator::In(values()), None, "kubectl label namespace shop k=a"),
            (
                Bearer::Namespace,
                Operator::In(values()),
                Some("c"),
                "kubectl label namespace shop k=a --overwrite",
            ),
            (Bearer::Namespace, Operator::DoesNotExist, Some("c"), "kubectl label namespace shop k-"),
            (Bearer::Namespace, Operator::Exists, None, "kubectl label namespace shop k="),
            (
                Bearer::Namespace,
                Operator::NotIn(values()),
                Some("a"),
                "put the pod into a separate namespace",
            ),
            (Bearer::Pod, Operator::In(values()), None, "set the label k: \"a\" on the pod"),
            (Bearer::Pod, Operator::Exists, None, "set the label k on the pod"),
            (Bearer::Pod, Operator::DoesNotExist, Some("c"), "remove the label k from the pod"),
            (Bearer::Pod, Operator::NotIn(values()), Some("a"), "remove the label k from the pod"),
        ] {
            let requirement = LabelRequirement { key: "k".to_owned(), operator };
            assert_eq!(of_miss(&Miss { bearer, requirement: &requirement, found }, &namespace), expected);
        }
        let key = "kubernetes.io/metadata.name".to_owned();
        let requirement = LabelRequirement { key, operator: Operator::In(values()) };
        let named = Miss { bearer: Bearer::Namespace, requirement: &requirement, found: Some("shop") };
        assert_eq!(of_miss(&named, &namespace), "put the pod into namespace a");
    }

    #[test]
    fn nearest_webhooks_come_first_without_repetition() {
        let namespace = |revision: &str| Namespace {
            name: "shop".to_owned(),
            labels: [(REVISION.to_owned(), revision.to_owned())].into(),
            ..Namespace::default()
        };
        let requirement = |key: &str| LabelRequirement { key: key.to_owned(), operator: Operator::Exists };
        let (a, b) = (requirement("a"), requirement("b"));
        let miss = |requirement| Miss { bearer: Bearer::Pod, requirement, found: None };
        let lines = |reason, misses: &[Vec<Miss<'_>>], revision: &str| {
            let inject = reason != DecisionReason::OtherSystem;
            let decision = Decision { inject, reason, unclear: None };
            of_misses(&decision, misses, &namespace(revision), &["blue"])
        };
        let both = [vec![miss(&a), miss(&b)]];
        let near = [vec![miss(&a), miss(&b)], vec![miss(&b)], vec![miss(&b)], vec![miss(&a)]];
        let [give_a, give_b] = ["a", "b"].map(|key| format!("set the label {key} on the pod"));
        let other = "namespace shop requests revision green: use --revision green";
        let by_policy = DecisionReason::ByPolicy;
        assert_eq!(lines(by_policy, &both, "blue"), [format!("{give_a}; and {give_b}")]);
        assert_eq!(lines(by_policy, &near, "blue"), [give_b.clone(), give_a.clone()]);
        assert_eq!(lines(by_policy, &near, "green"), [other.to_owned(), give_b, give_a]);
        assert_eq!(lines(by_policy, &[vec![]], "blue"), [""; 0]);
        let alone = ["run the pod on Linux: the rules need netfilter"];
        assert_eq!(lines(DecisionReason::OtherSystem, &near, "green"), alone);
        // With a disabled policy, a called webhook would skip the pod.
        let values = Operator::In(vec!["true".to_owned()]);
        let asks = LabelRequirement { key: INJECT.to_owned(), operator: values };
        let decision = Decision { inject: false, reason: by_policy, unclear: None };
        let of_inject = Miss { bearer: Bearer::Pod, requirement: &asks, found: None };
        let skipped = [vec![miss(&a)], vec![of_inject]];
        let give = "set the label sidecar.istio.io/inject: \"true\" on the pod";
        let expected = [format!("set the label a on the pod; and {give}"), give.to_owned()];
        assert_eq!(of_misses(&decision, &skipped, &namespace("blue"), &["blue"]), expected);
    }
}
