//! What of an injection a Pod Security Standard refuses, container by container. What the application itself does not meet is its
//! author's to know; what a namespace is exempted from is known to the API server alone.

use mesh::pod::Standard;
use serde_json::Value;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedContainer {
    pub(super) place: &'static str,
    pub(super) name: String,
    pub(super) faults: Vec<SecurityViolation>,
}

/// What it is refused for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecurityViolation {
    Capabilities(Vec<String>),
    Privileged,
    KeepsCapabilities,
    Escalates,
    Root,
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

/// The containers of an injected pod, among those of these names, that a standard refuses.
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
    // What the container says wins over what the pod says.
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
    if standard == Standard::Restricted {
        let is_root = given("runAsNonRoot") != true || *given("runAsUser") == 0;
        let seccomp = given("seccompProfile")["type"].as_str().unwrap_or_default();
        let more = [
            (!listed("drop").any(|one| one == "ALL"), SecurityViolation::KeepsCapabilities),
            (own["allowPrivilegeEscalation"] != false, SecurityViolation::Escalates),
            (is_root, SecurityViolation::Root),
            (!["RuntimeDefault", "Localhost"].contains(&seccomp), SecurityViolation::NoSeccomp),
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
