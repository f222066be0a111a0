//! Pod Security Standards, as far as the containers of an injection meet them: the API server looks at a pod when webhooks have
//! changed it.

use serde_json::Value;

/// The capabilities that `baseline` lets a container add.
pub const BASELINE_CAPABILITIES: [&str; 13] = [
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

/// Why a pod is refused in a namespace with these labels; `None` where it is not.
pub(crate) fn refusal(namespace: &Value, pod: &Value) -> Option<String> {
    let level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].as_str()?;
    if !["baseline", "restricted"].contains(&level) {
        return None;
    }
    let containers = ["initContainers", "containers"].map(|place| pod["spec"][place].as_array());
    let containers: Vec<&Value> = containers.into_iter().flatten().flatten().collect();
    let mut faults = Vec::new();
    for container in containers {
        let (own, of_pod) = (&container["securityContext"], &pod["spec"]["securityContext"]);
        let name = &container["name"];
        let list = |field: &str| own["capabilities"][field].as_array().cloned().unwrap_or_default();
        let added: Vec<Value> = list("add");
        let foreign: Vec<String> = added
            .iter()
            .filter(|one| one.as_str().is_none_or(|one| !BASELINE_CAPABILITIES.contains(&one)))
            .map(ToString::to_string)
            .collect();
        if !foreign.is_empty() {
            faults.push(format!(
                "non-default capabilities (container {name} must not include {} in securityContext.capabilities.add)",
                foreign.join(", ")
            ));
        }
        if level == "restricted" {
            let field = |field: &str| own.get(field).or(of_pod.get(field)).cloned().unwrap_or_default();
            let seccomp = field("seccompProfile")["type"].clone();
            for (is, fault) in [
                (own["allowPrivilegeEscalation"] != false, "allowPrivilegeEscalation != false"),
                (!list("drop").contains(&"ALL".into()), "unrestricted capabilities"),
                (field("runAsNonRoot") != true || field("runAsUser") == 0, "runAsNonRoot != true"),
                (seccomp != "RuntimeDefault" && seccomp != "Localhost", "seccompProfile"),
            ] {
                faults.extend(is.then(|| format!("{fault} (container {name})")));
            }
        }
    }
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    (!faults.is_empty()).then(|| {
        format!("pods {name:?} is forbidden: violates PodSecurity \"{level}:latest\": {}", faults.join(", "))
    })
}
