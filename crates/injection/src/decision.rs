//! Injection decision for a pod: the first applicable of Istio's reasons, in Istio's order.

use crate::admission::{ObjectLabels, texts};
use serde_json::Value;
use std::fmt;

/// The label, or in its absence the annotation, that enables or disables a pod's injection.
pub const INJECT: &str = "sidecar.istio.io/inject";

/// Namespaces of the cluster itself, whose pods are never injected.
pub const SYSTEM_NAMESPACES: [&str; 4] =
    ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

/// Default for pods with neither label nor annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectionPolicy {
    Enabled,
    Disabled,
}

#[derive(Clone, Debug)]
pub struct InjectionRules {
    /// `None` if neither `enabled` nor `disabled`: nothing is injected.
    pub policy: Option<InjectionPolicy>,
    /// Matching pods are skipped, unless they enable injection themselves.
    pub never: Vec<LabelSelector>,
    /// Matching pods are injected, unless they disable injection themselves.
    pub always: Vec<LabelSelector>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    HostNetwork,
    /// Other systems lack netfilter, and the API server refuses Linux's security contexts for them.
    OtherSystem,
    SystemNamespace,
    NoPolicy,
    Label,
    Annotation,
    NeverSelected,
    AlwaysSelected,
    ByPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub inject: bool,
    pub reason: DecisionReason,
    /// The value of the pod's label or annotation, if neither true nor false.
    pub unclear: Option<String>,
}

impl Decision {
    pub fn warning(&self) -> Option<String> {
        let text = self.unclear.as_ref()?;
        Some(format!("{INJECT} is {text:?}, which is ignored; expected \"true\" or \"false\""))
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => f.write_str("it uses the network of its node (hostNetwork)"),
            Self::OtherSystem => f.write_str("its operating system (spec.os.name) is not linux"),
            Self::SystemNamespace => f.write_str("its namespace belongs to Kubernetes"),
            Self::NoPolicy => f.write_str("the configured policy is neither enabled nor disabled"),
            Self::Label => write!(f, "its label {INJECT} decides"),
            Self::Annotation => write!(f, "its annotation {INJECT} decides"),
            Self::NeverSelected => f.write_str("it matches a neverInjectSelector"),
            Self::AlwaysSelected => f.write_str("it matches an alwaysInjectSelector"),
            Self::ByPolicy => f.write_str("no valid label or annotation is set, so the policy decides"),
        }
    }
}

/// Decides whether to inject a pod in `namespace`.
pub fn decide(namespace: &str, pod: &Value, rules: &InjectionRules) -> Decision {
    let by = |inject, reason| Decision { inject, reason, unclear: None };
    let is_linux = matches!(pod["spec"]["os"]["name"].as_str(), None | Some("" | "linux"));
    let never = [
        (pod["spec"]["hostNetwork"] == true, DecisionReason::HostNetwork),
        (!is_linux, DecisionReason::OtherSystem),
        (SYSTEM_NAMESPACES.contains(&namespace), DecisionReason::SystemNamespace),
        (rules.policy.is_none(), DecisionReason::NoPolicy),
    ];
    if let Some((_, reason)) = never.into_iter().find(|(holds, _)| *holds) {
        return by(false, reason);
    }
    // A label of any value overrides the annotation.
    let labels = texts(pod, "labels");
    let given = labels.get(INJECT).map(|text| (text.clone(), DecisionReason::Label));
    let given =
        given.or_else(|| Some((texts(pod, "annotations").remove(INJECT)?, DecisionReason::Annotation)));
    let mut unclear = None;
    if let Some((text, reason)) = given {
        match text.as_str() {
            "true" => return by(true, reason),
            "false" => return by(false, reason),
            "" => {}
            _ => unclear = Some(text),
        }
    }
    let any = |selectors: &[LabelSelector]| selectors.iter().any(|selector| selector.matches(&labels));
    let (inject, reason) = if any(&rules.never) {
        (false, DecisionReason::NeverSelected)
    } else if any(&rules.always) {
        (true, DecisionReason::AlwaysSelected)
    } else {
        (rules.policy == Some(InjectionPolicy::Enabled), DecisionReason::ByPolicy)
    };
    Decision { inject, reason, unclear }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(pub Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    /// Also met if the label is absent.
    NotIn(Vec<String>),
}

impl LabelSelector {
    /// True if the labels match; an empty selector matches nothing, as in Istio's configuration.
    pub fn matches(&self, labels: &ObjectLabels) -> bool {
        !self.0.is_empty() && self.is_met(labels)
    }

    /// True if all requirements are met; an empty selector matches everything, as in a webhook's configuration.
    pub fn is_met(&self, labels: &ObjectLabels) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(labels))
    }
}

impl LabelRequirement {
    pub fn is_met(&self, labels: &ObjectLabels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(is: bool) -> Vec<LabelSelector> {
        let requirement = LabelRequirement { key: "app".to_owned(), operator: Operator::Exists };
        if is { vec![LabelSelector(vec![requirement])] } else { vec![LabelSelector::default()] }
    }

    /// 36 combinations of policy, pod setting and selectors.
    #[test]
    fn every_combination() {
        let mut shown = String::new();
        for policy in [Some(InjectionPolicy::Enabled), Some(InjectionPolicy::Disabled), None] {
            for given in [Some("true"), Some("false"), None] {
                for (never, always) in [(false, false), (true, false), (false, true), (true, true)] {
                    let mut pod = json!({"metadata": {"labels": {"app": "web"}}});
                    if let Some(given) = given {
                        pod["metadata"]["labels"][INJECT] = given.into();
                    }
                    let rules = InjectionRules { policy, never: selects(never), always: selects(always) };
                    shown.push(if decide("shop", &pod, &rules).inject { 'y' } else { 'n' });
                }
                shown.push(' ');
            }
        }
        assert_eq!(shown.trim(), "yyyy nnnn ynyn yyyy nnnn nnyn nnnn nnnn nnnn");
    }

    #[test]
    fn a_label_counts_before_an_annotation_even_if_it_is_empty() {
        let rules =
            InjectionRules { policy: Some(InjectionPolicy::Disabled), never: Vec::new(), always: Vec::new() };
        for (namespace, label, annotation, expected) in [
            ("shop", Some(""), Some("true"), (false, DecisionReason::ByPolicy)),
            ("shop", None, Some("true"), (true, DecisionReason::Annotation)),
            ("shop", Some("true"), Some("false"), (true, DecisionReason::Label)),
            ("kube-system", Some("true"), None, (false, DecisionReason::SystemNamespace)),
        ] {
            let texts = |text: Option<&str>| text.map_or(json!({}), |text| json!({INJECT: text}));
            let mut pod = json!({"metadata": {"labels": texts(label), "annotations": texts(annotation)}});
            for (system, expected) in [("linux", expected), ("windows", (false, DecisionReason::OtherSystem))]
            {
                pod["spec"]["os"]["name"] = system.into();
                let decision = decide(namespace, &pod, &rules);
                assert_eq!((decision.inject, decision.reason), expected, "{pod}");
            }
        }
    }
}
