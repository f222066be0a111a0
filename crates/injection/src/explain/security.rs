//! Violations of a Pod Security Standard by an injection, container by container. Those of the application itself are its author's to
//! know; exemptions of a namespace are known to the API server alone.

use mesh::pod::Standard;
use serde_json::Value;
use std::fmt;

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
/// The same for `restricted`.
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
    use serde_json::json;

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
