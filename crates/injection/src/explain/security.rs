//! Violations of a Pod Security Standard by injected containers, with remedies. The application's own violations are not
//! reported, and a namespace's exemptions are known only to the API server.

use crate::pipeline::pod::PodSpecItem;
use mesh::pod::Standard;
use serde_json::Value;
use std::fmt;

pub const BY_PLUGIN: &str = "let the CNI plugin set the rules, which needs no capability in the pod: pilot.cni.enabled=true in the \
                             injector's values";

pub(super) fn of_security(refused: &[RefusedContainer], namespace: &str) -> Vec<String> {
    let has = |fault: &SecurityViolation| refused.iter().any(|refused| refused.faults.contains(fault));
    let sets_rules = refused.iter().any(|refused| refused.name == mesh::pod::INIT);
    // If the proxy violates more than seccompProfile, as with TPROXY, the values don't help.
    let is_amendable = |fault: &SecurityViolation| !matches!(fault, SecurityViolation::Other(_));
    let is_sufficient =
        |one: &RefusedContainer| one.name == mesh::pod::INIT || one.faults.iter().all(is_amendable);
    let mut both = Vec::new();
    if sets_rules {
        both.push(BY_PLUGIN);
    }
    if has(&SecurityViolation::Unconfined) {
        both.push("set global.proxy.seccompProfile to {type: RuntimeDefault} in the injector's values");
    } else if has(&SecurityViolation::NoSeccomp) {
        both.push(
            "set securityContext.seccompProfile in the pod, or set global.proxy.seccompProfile to {type: RuntimeDefault} \
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SecurityViolation {
    #[error("its seccompProfile is Unconfined")]
    Unconfined,
    #[error("neither it nor the pod has a seccompProfile")]
    NoSeccomp,
    /// A violation that no value of the injector corrects.
    #[error("{0}")]
    Other(String),
}

/// Capabilities that `baseline` lets containers add.
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
        for container in pod["spec"].list(place).iter().filter(|one| names.contains(&one.name())) {
            let (name, faults) = (container.name().to_owned(), faults(standard, &pod["spec"], container));
            found.push(RefusedContainer { place, name, faults });
        }
    }
    found.retain(|one| !one.faults.is_empty());
    found
}

fn faults(standard: Standard, spec: &Value, container: &Value) -> Vec<SecurityViolation> {
    let (own, of_pod) = (&container["securityContext"], &spec["securityContext"]);
    // The container's own fields override the pod's.
    let given = |field: &str| if own[field].is_null() { &of_pod[field] } else { &own[field] };
    let listed =
        |field: &str| own["capabilities"][field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let other = |text: &str| SecurityViolation::Other(text.to_owned());
    let allowed = match standard {
        Standard::Baseline => &BASELINE[..],
        Standard::Restricted => &RESTRICTED,
    };
    let added: Vec<String> = listed("add").filter(|one| !allowed.contains(one)).map(str::to_owned).collect();
    let is_unconfined = own["seccompProfile"]["type"] == "Unconfined";
    let mut all = vec![
        (!added.is_empty(), other(&format!("it adds {}", added.join(", ")))),
        (own["privileged"] == true, other("it is privileged")),
        (is_unconfined, SecurityViolation::Unconfined),
    ];
    if standard == Standard::Restricted {
        let is_root = given("runAsNonRoot") != true || *given("runAsUser") == 0;
        let seccomp = given("seccompProfile")["type"].as_str().unwrap_or_default();
        let has_seccomp = is_unconfined || ["RuntimeDefault", "Localhost"].contains(&seccomp);
        all.extend([
            (!listed("drop").any(|one| one == "ALL"), other("it does not drop ALL capabilities")),
            (
                own["allowPrivilegeEscalation"] != false,
                other("it does not set allowPrivilegeEscalation to false"),
            ),
            (is_root, other("it may run as root (runAsNonRoot, runAsUser)")),
            (!has_seccomp, SecurityViolation::NoSeccomp),
        ]);
    }
    all.into_iter().filter(|(is, _)| *is).map(|(_, fault)| fault).collect()
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
    use serde_json::json;

    const SECCOMP: &str = "set securityContext.seccompProfile in the pod, or set global.proxy.seccompProfile to {type: \
                           RuntimeDefault} in the injector's values";

    #[test]
    fn violations_of_a_standard_have_remedies() {
        let refused =
            |name: &str, faults| RefusedContainer { place: "containers", name: name.to_owned(), faults };
        let label = "kubectl label namespace shop pod-security.kubernetes.io/enforce=privileged --overwrite";
        for (name, fault, expected) in [
            (
                "istio-init",
                SecurityViolation::Other(String::new()),
                vec![BY_PLUGIN.to_owned(), label.to_owned()],
            ),
            ("istio-proxy", SecurityViolation::NoSeccomp, vec![SECCOMP.to_owned(), label.to_owned()]),
            ("istio-proxy", SecurityViolation::Other(String::new()), vec![label.to_owned()]),
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
                vec![format!("{BY_PLUGIN}; and {SECCOMP}"), label.to_owned()],
            ),
        ] {
            assert_eq!(of_security(&[refused(name, vec![fault])], "shop"), expected, "{name}");
        }
        let both = ["istio-init", "istio-proxy"]
            .map(|name| refused(name, vec![SecurityViolation::Other(String::new())]));
        assert_eq!(of_security(&both, "shop"), [label]);
    }

    #[test]
    fn violations_are_named_after_the_standards() {
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
        // The pod's fields apply to a container without them.
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
