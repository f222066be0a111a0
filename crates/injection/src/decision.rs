//! Whether a pod is injected: the first of Istio's reasons that holds, in its order.

use std::collections::BTreeMap;
use std::fmt;

/// The label, and where there is none the annotation, by which a pod says yes or no.
pub const INJECT: &str = "sidecar.istio.io/inject";

/// Namespaces of the cluster itself, whose pods are never injected.
pub const SYSTEM_NAMESPACES: [&str; 4] =
    ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

/// What happens to a pod that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectionPolicy {
    /// It is injected.
    Enabled,
    /// It is skipped.
    Disabled,
}

/// What decides about a pod.
#[derive(Clone, Copy, Debug)]
pub struct InjectionFacts<'a> {
    /// Where it will run; for a pod that names none, the namespace of the request.
    pub namespace: &'a str,
    /// Whether it uses the network of its node.
    pub host_network: bool,
    /// `spec.os.name`; empty where it is not set, which counts as Linux.
    pub system: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub annotations: &'a BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct InjectionRules {
    /// `None` where it is neither `enabled` nor `disabled`: then nothing is injected.
    pub policy: Option<InjectionPolicy>,
    /// Pods that match one are skipped, unless they ask for injection themselves.
    pub never: Vec<LabelSelector>,
    /// Pods that match one are injected, unless they refuse it themselves.
    pub always: Vec<LabelSelector>,
}

/// Why a pod is injected, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    HostNetwork,
    /// There is no netfilter on it, and the API server refuses Linux's security contexts.
    OtherSystem,
    SystemNamespace,
    NoPolicy,
    /// It says so itself.
    Label,
    Annotation,
    NeverSelected,
    AlwaysSelected,
    /// It says nothing, so the policy decides.
    ByPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub inject: bool,
    pub reason: DecisionReason,
    /// About a value that is neither true nor false.
    pub warning: Option<String>,
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => f.write_str("it uses the network of its node (hostNetwork)"),
            Self::OtherSystem => f.write_str("its system (spec.os.name) is not linux"),
            Self::SystemNamespace => f.write_str("its namespace is one of the cluster's own"),
            Self::NoPolicy => f.write_str("the configured policy is neither enabled nor disabled"),
            Self::Label => write!(f, "its label {INJECT} says so"),
            Self::Annotation => write!(f, "its annotation {INJECT} says so"),
            Self::NeverSelected => f.write_str("it matches a neverInjectSelector"),
            Self::AlwaysSelected => f.write_str("it matches an alwaysInjectSelector"),
            Self::ByPolicy => f.write_str("it says nothing, and the policy decides"),
        }
    }
}

pub fn decide(pod: &InjectionFacts<'_>, rules: &InjectionRules) -> Decision {
    let by = |inject, reason| Decision { inject, reason, warning: None };
    if pod.host_network {
        return by(false, DecisionReason::HostNetwork);
    }
    if !matches!(pod.system, "" | "linux") {
        return by(false, DecisionReason::OtherSystem);
    }
    if SYSTEM_NAMESPACES.contains(&pod.namespace) {
        return by(false, DecisionReason::SystemNamespace);
    }
    let Some(policy) = rules.policy else { return by(false, DecisionReason::NoPolicy) };
    // A label decides alone where there is one, whatever it says.
    let given = match pod.labels.get(INJECT) {
        Some(text) => Some((text, DecisionReason::Label)),
        None => pod.annotations.get(INJECT).map(|text| (text, DecisionReason::Annotation)),
    };
    let mut unclear = None;
    if let Some((text, reason)) = given {
        match text.as_str() {
            "true" => return by(true, reason),
            "false" => return by(false, reason),
            "" => {}
            _ => unclear = Some(text),
        }
    }
    let any = |selectors: &[LabelSelector]| selectors.iter().any(|selector| selector.matches(pod.labels));
    let (inject, reason) = if any(&rules.never) {
        (false, DecisionReason::NeverSelected)
    } else if any(&rules.always) {
        (true, DecisionReason::AlwaysSelected)
    } else {
        (policy == InjectionPolicy::Enabled, DecisionReason::ByPolicy)
    };
    let warning = unclear.map(|text| {
        let outcome = if inject { "is injected" } else { "is not injected" };
        format!(
            "{INJECT} is {text:?}, which says neither true nor false, so the pod {outcome}, as if it said nothing; \
             expected \"true\" or \"false\""
        )
    });
    Decision { inject, reason, warning }
}

/// A label selector. An empty one matches nothing, as in Istio's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(pub Vec<LabelRequirement>);

/// What a selector requires of one label.
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
    /// Met where the label is absent too.
    NotIn(Vec<String>),
}

impl LabelSelector {
    /// Whether the labels meet all requirements.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.0.is_empty() && self.is_met(labels)
    }

    /// The same, but an empty selector matches everything, as in a webhook's configuration.
    pub fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(labels))
    }
}

impl LabelRequirement {
    /// Whether the label meets the requirement.
    pub fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
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

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn selects(is: bool) -> Vec<LabelSelector> {
        let requirement = LabelRequirement { key: "app".to_owned(), operator: Operator::Exists };
        if is { vec![LabelSelector(vec![requirement])] } else { vec![LabelSelector::default()] }
    }

    /// Policy, what the pod says, which selectors match: 36 decisions.
    #[test]
    fn every_combination() {
        let mut shown = String::new();
        for policy in [Some(InjectionPolicy::Enabled), Some(InjectionPolicy::Disabled), None] {
            for given in [Some("true"), Some("false"), None] {
                for (never, always) in [(false, false), (true, false), (false, true), (true, true)] {
                    let mut of_pod = labels(&[("app", "web")]);
                    of_pod.extend(given.map(|given| (INJECT.to_owned(), given.to_owned())));
                    let pod = InjectionFacts {
                        namespace: "shop",
                        host_network: false,
                        system: "",
                        labels: &of_pod,
                        annotations: &BTreeMap::new(),
                    };
                    let rules = InjectionRules { policy, never: selects(never), always: selects(always) };
                    shown.push(if decide(&pod, &rules).inject { 'y' } else { 'n' });
                }
                shown.push(' ');
            }
        }
        assert_eq!(shown.trim(), "yyyy nnnn ynyn yyyy nnnn nnyn nnnn nnnn nnnn");
    }

    fn check(
        namespace: &str,
        of_pod: &[(&str, &str)],
        annotated: &[(&str, &str)],
        expected: (bool, DecisionReason),
    ) {
        let (of_pod, annotations) = (labels(of_pod), labels(annotated));
        let facts = |system| InjectionFacts {
            namespace,
            host_network: false,
            system,
            labels: &of_pod,
            annotations: &annotations,
        };
        let rules =
            InjectionRules { policy: Some(InjectionPolicy::Disabled), never: Vec::new(), always: Vec::new() };
        let decision = decide(&facts("linux"), &rules);
        assert_eq!((decision.inject, decision.reason), expected, "{of_pod:?} {annotations:?}");
        let decision = decide(&facts("windows"), &rules);
        assert_eq!((decision.inject, decision.reason), (false, DecisionReason::OtherSystem));
    }

    #[test]
    fn a_label_counts_before_an_annotation_even_if_it_is_empty() {
        check("shop", &[(INJECT, "")], &[(INJECT, "true")], (false, DecisionReason::ByPolicy));
        check("shop", &[], &[(INJECT, "true")], (true, DecisionReason::Annotation));
        check("shop", &[(INJECT, "true")], &[(INJECT, "false")], (true, DecisionReason::Label));
        check("kube-system", &[(INJECT, "true")], &[], (false, DecisionReason::SystemNamespace));
    }
}
