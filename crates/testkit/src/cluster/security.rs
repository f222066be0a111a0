//! Pod Security Standards, which the API server applies to a pod after webhooks have changed it. The controls come from "Pod
//! Security Standards" of Kubernetes 1.34, for Linux.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const BASELINE_CAPABILITIES: [&str; 13] = [
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

const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refused {
    pub baseline: BTreeMap<String, BTreeSet<String>>,
    pub restricted: BTreeSet<&'static str>,
}

impl Refused {
    fn baseline(&mut self, control: &str, what: &str) {
        self.baseline.entry(control.to_owned()).or_default().insert(what.to_owned());
    }

    fn restricted(&mut self, is_met: bool, control: &'static str) {
        if !is_met {
            self.restricted.insert(control);
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn refused(spec: &Value) -> Refused {
    let mut found = Refused::default();
    for control in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[control] == true {
            found.baseline(control, "yes");
        }
    }
    if !spec["securityContext"]["sysctls"].is_null() {
        found.baseline("sysctls", "yes");
    }
    for volume in list(&spec["volumes"]) {
        let kinds = volume.as_object().expect("a volume").keys().filter(|key| *key != "name");
        for kind in kinds {
            if kind == "hostPath" {
                found.baseline("hostPath", "yes");
            }
            found.restricted(VOLUMES.contains(&&**kind), "volumes");
        }
    }
    for container in containers(spec) {
        refused_of_container(&spec["securityContext"], container, &mut found);
    }
    found
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(&spec["initContainers"]).chain(list(&spec["containers"]))
}

fn refused_of_container(of_pod: &Value, container: &Value, found: &mut Refused) {
    let own = &container["securityContext"];
    // The container's values take precedence.
    let set = |field: &str| if own[field].is_null() { &of_pod[field] } else { &own[field] };
    if own["privileged"] == true {
        found.baseline("privileged", "yes");
    }
    for added in list(&own["capabilities"]["add"]).filter_map(Value::as_str) {
        if !BASELINE_CAPABILITIES.contains(&added) {
            found.baseline("capabilities", added);
        }
        found.restricted(added == "NET_BIND_SERVICE", "capabilities");
    }
    if list(&container["ports"]).any(|port| !port["hostPort"].is_null()) {
        found.baseline("hostPort", "yes");
    }
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let actions = [&container[probe]["httpGet"], &container[probe]["tcpSocket"]];
        if actions.iter().any(|action| action["host"].as_str().is_some_and(|host| !host.is_empty())) {
            found.baseline("host of a probe", "yes");
        }
    }
    if set("appArmorProfile")["type"] == "Unconfined" {
        found.baseline("appArmorProfile", "Unconfined");
    }
    if set("seccompProfile")["type"] == "Unconfined" {
        found.baseline("seccompProfile", "Unconfined");
    }
    if !set("seLinuxOptions").is_null() {
        found.baseline("seLinuxOptions", "yes");
    }
    if !own["procMount"].is_null() {
        found.baseline("procMount", "yes");
    }
    let seccomp = set("seccompProfile")["type"].as_str().unwrap_or_default();
    found.restricted(["RuntimeDefault", "Localhost"].contains(&seccomp), "seccompProfile");
    found.restricted(own["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
    found.restricted(*set("runAsNonRoot") == true && *set("runAsUser") != 0, "runAsNonRoot");
    found.restricted(list(&own["capabilities"]["drop"]).any(|name| name == "ALL"), "capabilities");
}

/// Reason why a pod is refused in a namespace with these labels; `None` if it is admitted.
pub(crate) fn refusal(namespace: &Value, pod: &Value) -> Option<String> {
    let level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].as_str()?;
    let is_refused = |found: &Refused| match level {
        "baseline" => !found.baseline.is_empty(),
        "restricted" => *found != Refused::default(),
        _ => false,
    };
    let (spec, name) = (&pod["spec"], &pod["metadata"]["name"]);
    let found = refused(spec);
    let containers = containers(spec).filter(|container| {
        let mut found = Refused::default();
        refused_of_container(&spec["securityContext"], container, &mut found);
        is_refused(&found)
    });
    let names: Vec<&Value> = containers.map(|container| &container["name"]).collect();
    is_refused(&found).then(|| {
        let violated = format!("violates PodSecurity \"{level}:latest\": {found:?}, by containers {names:?}");
        format!("pods {name} is forbidden: {violated}")
    })
}
