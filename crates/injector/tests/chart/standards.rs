//! What the Pod Security Standards refuse of the chart's pods: nothing of those that need no rights of the node; of the others
//! what the table of docker/README.md states.
//!
//! The controls are those of "Pod Security Standards" of Kubernetes 1.34, for Linux.

use super::rendered::{chart, injector, root};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};
use testkit::cluster::BASELINE_CAPABILITIES;

/// Kinds of volumes that `restricted` admits.
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

/// What the standards refuse of a pod, by the control's name, each with what is refused.
#[derive(Debug, Default, PartialEq, Eq)]
struct Refused {
    baseline: BTreeMap<String, BTreeSet<String>>,
    restricted: BTreeSet<&'static str>,
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

fn refused(spec: &Value) -> Refused {
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
    let containers: Vec<&Value> = list(&spec["initContainers"]).chain(list(&spec["containers"])).collect();
    assert!(!containers.is_empty());
    for container in containers {
        refused_of_container(&spec["securityContext"], container, &mut found);
    }
    found
}

fn refused_of_container(of_pod: &Value, container: &Value, found: &mut Refused) {
    let own = &container["securityContext"];
    // What the container has takes precedence.
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
    // No standard, but a rule of this project.
    assert_eq!(own["readOnlyRootFilesystem"], true, "{container:#}");
}

/// The chart's pods, by the name of what creates them.
fn pods(values: &Value) -> BTreeMap<String, Value> {
    let all = chart("mesh", values);
    let creators = all.iter().filter(|object| !object["spec"]["template"].is_null());
    creators
        .map(|object| {
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            (name, object["spec"]["template"]["spec"].clone())
        })
        .collect()
}

fn of_nodes(action: &str) -> BTreeMap<String, Value> {
    pods(&json!({ "injector": { "enabled": false },
        "cni": { "enabled": true, "image": "example/sidecar-init:1", "metrics": true },
        "repair": { "enabled": true, "image": "example/sidecar-node:1", "action": action } }))
}

#[test]
fn what_needs_no_rights_is_restricted() {
    let mut pods = pods(&injector(json!({ "operator": { "enabled": true } })));
    for action in ["label", "delete"] {
        let all = of_nodes(action);
        pods.insert(action.to_owned(), all["sidecar-node"].clone());
    }
    assert_eq!(pods.len(), 4);
    for (name, spec) in pods {
        assert_eq!(refused(&spec), Refused::default(), "{name}");
    }
}

#[test]
fn exceptions_to_baseline_are_those_of_the_table() {
    let document = fs::read_to_string(root().join("docker/README.md")).expect("the document");
    let (_, table) = document.split_once("| exception to `baseline` |").expect("the table");
    let (heads, rows) = table.split_once('\n').expect("rows");
    let pods = of_nodes("repair");
    let named: Vec<&str> = heads.split('|').map(|head| head.trim().trim_matches('`')).take(2).collect();
    assert_eq!(named, pods.keys().collect::<Vec<_>>());
    let mut stated: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for row in rows.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [control, cells @ .., _reason] = &cells[..] else { panic!("{row}") };
        for (name, cell) in named.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let what = cell.split(", ").map(str::to_owned).collect();
            stated.entry(*name).or_default().insert(control.replace('`', ""), what);
        }
    }
    for (name, spec) in &pods {
        assert_eq!(refused(spec).baseline, stated[&**name], "{name}");
    }
}

#[test]
fn each_control_is_noticed() {
    let spec = json!({ "hostNetwork": true, "hostIPC": true, "volumes": [{ "name": "a", "hostPath": { "path": "/" } }],
        "securityContext": { "sysctls": [{ "name": "net.ipv4.ip_forward", "value": "1" }], "seLinuxOptions": {} },
        "containers": [{ "ports": [{ "containerPort": 1, "hostPort": 1 }],
            "livenessProbe": { "tcpSocket": { "host": "192.0.2.1", "port": 1 } },
            "securityContext": { "readOnlyRootFilesystem": true, "privileged": true, "runAsUser": 0, "runAsNonRoot": true,
                "procMount": "Unmasked", "seccompProfile": { "type": "Unconfined" },
                "appArmorProfile": { "type": "Unconfined" }, "capabilities": { "add": ["NET_RAW", "KILL"] } } }] });
    let found = refused(&spec);
    let controls = [
        "appArmorProfile",
        "capabilities",
        "host of a probe",
        "hostIPC",
        "hostNetwork",
        "hostPath",
        "hostPort",
        "privileged",
        "procMount",
        "seLinuxOptions",
        "seccompProfile",
        "sysctls",
    ];
    assert_eq!(found.baseline.keys().collect::<Vec<_>>(), controls);
    assert_eq!(found.baseline["capabilities"], BTreeSet::from(["NET_RAW".to_owned()]));
    let controls = ["allowPrivilegeEscalation", "capabilities", "runAsNonRoot", "seccompProfile", "volumes"];
    assert_eq!(found.restricted.iter().copied().collect::<Vec<_>>(), controls);
}
