//! Remedies for pods that are not injected: labels to set or to take away, for the webhooks that miss the least. And violations of
//! a Pod Security Standard by an injection, container by container: those of the application itself are its author's to know;
//! exemptions of a namespace are known to the API server alone.

use crate::admission::Namespace;
use crate::decision::{Decision, DecisionReason, INJECT, Operator};
use crate::webhook::{Bearer, Miss, REVISION};
use mesh::pod::Standard;
use serde_json::Value;
use std::fmt;

/// Where no webhook is called: each line does it alone.
pub(super) fn of_misses(
    decision: &Decision,
    misses: &[Vec<Miss<'_>>],
    namespace: &Namespace,
    revisions: &[&str],
) -> Vec<String> {
    use DecisionReason::{HostNetwork, NoPolicy, OtherSystem, SystemNamespace};
    // Any webhook that is called would skip it.
    if matches!(decision.reason, HostNetwork | OtherSystem | SystemNamespace | NoPolicy) {
        return of_decision(decision);
    }
    let least = misses.iter().map(Vec::len).min().unwrap_or_default();
    let nearest = misses.iter().filter(|misses| misses.len() == least);
    let mut found: Vec<String> = Vec::new();
    let other = namespace.labels.get(REVISION).filter(|other| !revisions.contains(&other.as_str()));
    found.extend(other.map(|other| {
        format!("namespace {} asks for revision {other}: explain it with --revision {other}", namespace.name)
    }));
    // The webhook would be called, and still skip the pod.
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
        // The API server holds this label to the namespace's name.
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
        (Bearer::Pod, Operator::In(values)) => format!("give the pod the label {key}: {:?}", one(values)),
        (Bearer::Pod, Operator::Exists) => format!("give the pod the label {key}"),
        (Bearer::Pod, Operator::DoesNotExist | Operator::NotIn(_)) => {
            format!("take the label {key} from the pod")
        }
    }
}

/// Where one is called and skips the pod.
pub(super) fn of_decision(decision: &Decision) -> Vec<String> {
    let yes = || format!("give the pod the label {INJECT}: \"true\"");
    match decision.reason {
        _ if decision.inject => Vec::new(),
        DecisionReason::HostNetwork => {
            vec![
                "take hostNetwork from the pod: what is captured there would be the node's traffic"
                    .to_owned(),
            ]
        }
        DecisionReason::OtherSystem => {
            vec!["run the pod on Linux: rules are set in its netfilter".to_owned()]
        }
        DecisionReason::SystemNamespace => vec!["put the pod into a separate namespace".to_owned()],
        DecisionReason::NoPolicy => {
            vec!["set policy in the injector's config to enabled or disabled".to_owned()]
        }
        DecisionReason::Label => vec![format!("take the label {INJECT} from the pod, or set it to \"true\"")],
        DecisionReason::Annotation => vec![format!("take the annotation {INJECT} from the pod"), yes()],
        DecisionReason::NeverSelected | DecisionReason::AlwaysSelected => vec![yes()],
        DecisionReason::ByPolicy => vec![yes(), "set policy in the injector's config to enabled".to_owned()],
    }
}

/// Where the namespace's Pod Security Standard refuses what is put in.
pub(super) fn of_security(refused: &[RefusedContainer], namespace: &str) -> Vec<String> {
    let has = |fault: &SecurityViolation| refused.iter().any(|refused| refused.faults.contains(fault));
    let sets_rules = refused.iter().any(|refused| refused.name == mesh::pod::INIT);
    // Where the proxy is refused for more than its seccompProfile, as with TPROXY, the values don't help.
    let is_amendable = |fault: &SecurityViolation| {
        matches!(fault, SecurityViolation::NoSeccomp | SecurityViolation::Unconfined)
    };
    let is_sufficient =
        |one: &RefusedContainer| one.name == mesh::pod::INIT || one.faults.iter().all(is_amendable);
    let mut both = Vec::new();
    if sets_rules {
        both.push(
            "let the CNI plugin set the rules, which needs no capability in the pod: pilot.cni.enabled=true in the \
             injector's values",
        );
    }
    if has(&SecurityViolation::Unconfined) {
        both.push("set global.proxy.seccompProfile to {type: RuntimeDefault} in the injector's values");
    } else if has(&SecurityViolation::NoSeccomp) {
        both.push(
            "give the pod securityContext.seccompProfile, or set global.proxy.seccompProfile to {type: RuntimeDefault} \
             in the injector's values",
        );
    }
    let label = format!("kubectl label namespace {namespace} {}=privileged --overwrite", mesh::pod::ENFORCE);
    let is_enough = !both.is_empty() && refused.iter().all(is_sufficient);
    let both = is_enough.then(|| both.join("; and "));
    both.into_iter().chain([label]).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedContainer {
    pub(super) place: &'static str,
    pub(super) name: String,
    pub(super) faults: Vec<SecurityViolation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecurityViolation {
    Capabilities(Vec<String>),
    Privileged,
    KeepsCapabilities,
    Escalates,
    Root,
    Unconfined,
    NoSeccomp,
}

/// Capabilities that the standard `baseline` lets a container add.
const BASELINE: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const RESTRICTED: [&str; 1] = ["NET_BIND_SERVICE"];

pub(super) fn refused(standard: Standard, pod: &Value, names: &[&str]) -> Vec<RefusedContainer> {
    let mut found = Vec::new();
    for place in ["initContainers", "containers"] {
        for container in pod["spec"][place].as_array().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default();
            let faults =
                if names.contains(&name) { faults(standard, &pod["spec"], container) } else { Vec::new() };
            if !faults.is_empty() {
                found.push(RefusedContainer { place, name: name.to_owned(), faults });
            }
        }
    }
    found
}

fn faults(standard: Standard, spec: &Value, container: &Value) -> Vec<SecurityViolation> {
    let (own, of_pod) = (&container["securityContext"], &spec["securityContext"]);
    // The container's own fields win over the pod's.
    let given = |field: &str| if own[field].is_null() { &of_pod[field] } else { &own[field] };
    let listed =
        |field: &str| own["capabilities"][field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let allowed = match standard {
        Standard::Baseline => &BASELINE[..],
        Standard::Restricted => &RESTRICTED,
    };
    let added: Vec<String> = listed("add").filter(|one| !allowed.contains(one)).map(str::to_owned).collect();
    let mut found = Vec::new();
    found.extend((!added.is_empty()).then_some(SecurityViolation::Capabilities(added)));
    found.extend((own["privileged"] == true).then_some(SecurityViolation::Privileged));
    let is_unconfined = own["seccompProfile"]["type"] == "Unconfined";
    found.extend(is_unconfined.then_some(SecurityViolation::Unconfined));
    if standard == Standard::Restricted {
        let is_root = given("runAsNonRoot") != true || *given("runAsUser") == 0;
        let seccomp = given("seccompProfile")["type"].as_str().unwrap_or_default();
        let more = [
            (!listed("drop").any(|one| one == "ALL"), SecurityViolation::KeepsCapabilities),
            (own["allowPrivilegeEscalation"] != false, SecurityViolation::Escalates),
            (is_root, SecurityViolation::Root),
            (
                !is_unconfined && !["RuntimeDefault", "Localhost"].contains(&seccomp),
                SecurityViolation::NoSeccomp,
            ),
        ];
        found.extend(more.into_iter().filter(|(is, _)| *is).map(|(_, fault)| fault));
    }
    found
}

impl fmt::Display for SecurityViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities(added) => write!(f, "it adds {}", added.join(", ")),
            Self::Privileged => f.write_str("it is privileged"),
            Self::KeepsCapabilities => f.write_str("it does not drop ALL capabilities"),
            Self::Escalates => f.write_str("it does not set allowPrivilegeEscalation to false"),
            Self::Root => f.write_str("it may run as root (runAsNonRoot, runAsUser)"),
            Self::Unconfined => f.write_str("its seccompProfile is Unconfined"),
            Self::NoSeccomp => f.write_str("neither it nor the pod has a seccompProfile"),
        }
    }
}

impl fmt::Display for RefusedContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        write!(f, "{} {}: {}", self.place, self.name, faults.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::LabelRequirement;
    use serde_json::json;

    const CAPABILITIES: &str = "let the CNI plugin set the rules, which needs no capability in the pod: \
                                pilot.cni.enabled=true in the injector's values";
    const SECCOMP: &str = "give the pod securityContext.seccompProfile, or set global.proxy.seccompProfile to \
                           {type: RuntimeDefault} in the injector's values";

    #[test]
    fn each_label_that_is_missed_has_its_remedy() {
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
            (Bearer::Pod, Operator::In(values()), None, "give the pod the label k: \"a\""),
            (Bearer::Pod, Operator::Exists, None, "give the pod the label k"),
            (Bearer::Pod, Operator::DoesNotExist, Some("c"), "take the label k from the pod"),
            (Bearer::Pod, Operator::NotIn(values()), Some("a"), "take the label k from the pod"),
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
    fn webhooks_that_miss_the_least_come_first_and_each_line_once() {
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
        let [give_a, give_b] = ["a", "b"].map(|key| format!("give the pod the label {key}"));
        let other = "namespace shop asks for revision green: explain it with --revision green";
        let by_policy = DecisionReason::ByPolicy;
        assert_eq!(lines(by_policy, &both, "blue"), [format!("{give_a}; and {give_b}")]);
        assert_eq!(lines(by_policy, &near, "blue"), [give_b.clone(), give_a.clone()]);
        assert_eq!(lines(by_policy, &near, "green"), [other.to_owned(), give_b, give_a]);
        assert_eq!(lines(by_policy, &[vec![]], "blue"), [""; 0]);
        let alone = ["run the pod on Linux: rules are set in its netfilter"];
        assert_eq!(lines(DecisionReason::OtherSystem, &near, "green"), alone);
        // A disabled policy would have a webhook that is called skip the pod.
        let values = Operator::In(vec!["true".to_owned()]);
        let asks = LabelRequirement { key: INJECT.to_owned(), operator: values };
        let decision = Decision { inject: false, reason: by_policy, unclear: None };
        let of_inject = Miss { bearer: Bearer::Pod, requirement: &asks, found: None };
        let skipped = [vec![miss(&a)], vec![of_inject]];
        let give = "give the pod the label sidecar.istio.io/inject: \"true\"";
        let expected = [format!("give the pod the label a; and {give}"), give.to_owned()];
        assert_eq!(of_misses(&decision, &skipped, &namespace("blue"), &["blue"]), expected);
    }

    #[test]
    fn what_a_standard_refuses_has_its_remedies() {
        let refused =
            |name: &str, faults| RefusedContainer { place: "containers", name: name.to_owned(), faults };
        let label = "kubectl label namespace shop pod-security.kubernetes.io/enforce=privileged --overwrite";
        for (name, fault, expected) in [
            ("istio-init", SecurityViolation::Root, vec![CAPABILITIES.to_owned(), label.to_owned()]),
            ("istio-proxy", SecurityViolation::NoSeccomp, vec![SECCOMP.to_owned(), label.to_owned()]),
            ("istio-proxy", SecurityViolation::Root, vec![label.to_owned()]),
            (
                "istio-proxy",
                SecurityViolation::Unconfined,
                vec![
                    "set global.proxy.seccompProfile to {type: RuntimeDefault} in the injector's values"
                        .to_owned(),
                    label.to_owned(),
                ],
            ),
            (
                "istio-init",
                SecurityViolation::NoSeccomp,
                vec![format!("{CAPABILITIES}; and {SECCOMP}"), label.to_owned()],
            ),
        ] {
            assert_eq!(of_security(&[refused(name, vec![fault])], "shop"), expected, "{name}");
        }
        let both = ["istio-init", "istio-proxy"].map(|name| refused(name, vec![SecurityViolation::Root]));
        assert_eq!(of_security(&both, "shop"), [label]);
    }

    #[test]
    fn each_fault_is_named_as_the_standards_have_it() {
        let sound = json!({
            "name": "a", "securityContext": {
                "allowPrivilegeEscalation": false, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
        });
        let named = |standard, pod: &Value| -> Vec<String> {
            refused(standard, pod, &["a"]).iter().map(ToString::to_string).collect()
        };
        let root = "it may run as root (runAsNonRoot, runAsUser)";
        for (pointer, value, baseline, restricted) in [
            ("/name", json!("a"), "", ""),
            ("/name", json!("b"), "", ""),
            ("/securityContext/capabilities/add", json!(["CHOWN"]), "", "it adds CHOWN"),
            ("/securityContext/capabilities/add", json!(["NET_RAW"]), "it adds NET_RAW", "it adds NET_RAW"),
            ("/securityContext/privileged", json!(true), "it is privileged", "it is privileged"),
            ("/securityContext/capabilities/drop", json!(["A"]), "", "it does not drop ALL capabilities"),
            (
                "/securityContext/allowPrivilegeEscalation",
                json!(null),
                "",
                "it does not set allowPrivilegeEscalation to false",
            ),
            ("/securityContext/runAsNonRoot", json!(false), "", root),
            ("/securityContext/runAsUser", json!(0), "", root),
            ("/securityContext/runAsUser", json!(1), "", ""),
            (
                "/securityContext/seccompProfile/type",
                json!("Unconfined"),
                "its seccompProfile is Unconfined",
                "its seccompProfile is Unconfined",
            ),
            (
                "/securityContext/seccompProfile/type",
                json!(null),
                "",
                "neither it nor the pod has a seccompProfile",
            ),
            ("/securityContext/seccompProfile/type", json!("Localhost"), "", ""),
        ] {
            let mut container = sound.clone();
            let (within, field) = pointer.rsplit_once('/').expect("a pointer");
            let object = container.pointer_mut(within).expect("a mapping");
            object[field] = value.clone();
            for place in ["containers", "initContainers"] {
                let pod = json!({"spec": {place: [container]}});
                let expected = |fault: &str| -> Vec<String> {
                    (!fault.is_empty()).then(|| format!("{place} a: {fault}")).into_iter().collect()
                };
                assert_eq!(named(Standard::Baseline, &pod), expected(baseline), "{pointer} {value}");
                assert_eq!(named(Standard::Restricted, &pod), expected(restricted), "{pointer} {value}");
            }
        }
        // The pod's fields count for a container without them.
        let of_pod = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        let own = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let pod = json!({"spec": {"securityContext": of_pod, "containers": [{"name": "a", "securityContext": own}]}});
        assert_eq!(named(Standard::Restricted, &pod), [""; 0]);
        let several =
            json!({"spec": {"containers": [{"name": "a", "securityContext": {"runAsNonRoot": true}}]}});
        let expected = "containers a: it does not drop ALL capabilities; it does not set allowPrivilegeEscalation to false; \
                        neither it nor the pod has a seccompProfile";
        assert_eq!(named(Standard::Restricted, &several), [expected]);
    }
}
