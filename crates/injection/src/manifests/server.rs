//! The programs: the webhook's server with its configuration, its pods, the Service by which it is called, its
//! PodDisruptionBudget and its NetworkPolicy; and the operator.

use super::{Component, Installation, metadata, roles, selecting, webhooks};
use crate::decision::INJECT;
use crate::environment::crd::{self, OPERATOR, Scope};
use mesh::data::{Tree, yaml};
use serde_json::{Value, json};

/// Where the server listens: Istio's port, so that firewalls between control plane and nodes that let it through suffice.
const PORT: u16 = 15017;
/// The port of metrics, without TLS.
const METRICS: u16 = 15014;
const FOLDER: &str = "/etc/sidecar-injector";

/// The configuration that the server reads, and reads again when it changes. What it leaves out has Istio's defaults.
pub(super) fn configuration(target: &Installation) -> Value {
    let config = json!({ "policy": "enabled", "defaultTemplates": ["sidecar"] });
    let mut values = json!({ "global": { "proxy": { "image": target.proxy_image },
        "proxy_init": { "image": target.init_image } } });
    if target.revision != super::installation::DEFAULT {
        values["revision"] = target.revision.as_str().into();
        // The revision is the injector's. Without this, its proxies would request certificates from an istiod of that name,
        // and their configuration from the default one.
        values["global"]["caAddress"] = "istiod.istio-system.svc:15012".into();
    }
    let mesh = json!({ "defaultConfig": { "interceptionMode": "REDIRECT" } });
    let text = |value: &Value| yaml::block(&Tree::read(&value.to_string()));
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": metadata(target, &target.name(), Component::Webhook),
        "data": { "config": text(&config), "values": text(&values), "mesh": text(&mesh) } })
}

pub(super) fn objects(target: &Installation) -> Vec<Value> {
    let (name, component) = (target.name(), Component::Webhook);
    let mut arguments = vec![
        "serve".to_owned(),
        "--self-signed".to_owned(),
        format!("--service={name}"),
        format!("--namespace={}", target.namespace),
        format!("--ca-secret={}", target.secret()),
        format!("--webhook-configurations={}", webhooks::names(target).join(",")),
        format!("--config-dir={FOLDER}"),
        format!("--metrics-address=[::]:{METRICS}"),
        "--log_as_json".to_owned(),
    ];
    if !target.environment_labels.is_empty() {
        arguments.push(format!("--environment-labels={}", target.environment_labels.join(",")));
    }
    let container = json!({
        "name": "injector", "image": target.image, "args": arguments,
        "ports": [{ "name": "webhook", "containerPort": PORT }, { "name": "metrics", "containerPort": METRICS }],
        // At the port that serves, so it is ready when it can be called. The kubelet checks no certificate. Every second,
        // since no pod can be created while no replica is known to be ready.
        "readinessProbe": { "httpGet": { "path": "/ready", "port": "webhook", "scheme": "HTTPS" },
            "periodSeconds": 1, "failureThreshold": 3 },
        "volumeMounts": [{ "name": "configuration", "mountPath": FOLDER, "readOnly": true }],
    });
    let volumes = json!([{ "name": "configuration", "configMap": { "name": name } }]);
    let selector = selecting(target, component);
    let mut objects = vec![
        deployment(target, &name, component, container, Some(volumes)),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(target, &name, component),
            "spec": { "selector": selector, "ports": [
                { "name": "https-webhook", "port": 443, "targetPort": "webhook" },
                { "name": "http-metrics", "port": METRICS, "targetPort": "metrics" },
            ] } }),
        budget(target, &name, component),
    ];
    objects.extend(policy(target, &name, component, &[PORT, METRICS]));
    objects
}

/// A Deployment of one container, with the security context, the resources and the spreading over nodes that all programs have.
fn deployment(
    target: &Installation,
    name: &str,
    component: Component,
    mut container: Value,
    volumes: Option<Value>,
) -> Value {
    container["securityContext"] = json!({ "allowPrivilegeEscalation": false, "privileged": false,
        "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] } });
    // An image that was loaded onto the nodes can't be pulled from a registry.
    container["imagePullPolicy"] = "IfNotPresent".into();
    container["resources"] =
        json!({ "requests": { "cpu": "50m", "memory": "32Mi" }, "limits": { "memory": "512Mi" } });
    let selector = selecting(target, component);
    let mut labels = selector.clone();
    // Its own pods are never sent through the webhook: without a running one none could be created.
    labels[INJECT] = "false".into();
    let mut spec = json!({
        "serviceAccountName": name,
        "securityContext": { "runAsNonRoot": true, "runAsUser": 1337, "runAsGroup": 1337,
            "seccompProfile": { "type": "RuntimeDefault" } },
        // For 5 s requests are still taken (`--drain`), then what is being answered ends.
        "terminationGracePeriodSeconds": 30,
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 100, "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchLabels": selector } } }] } },
        "topologySpreadConstraints": [{ "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": { "matchLabels": selector } }],
        "containers": [container],
    });
    if let Some(class) = &target.priority_class {
        spec["priorityClassName"] = class.as_str().into();
    }
    if let Some(volumes) = volumes {
        spec["volumes"] = volumes;
    }
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(target, name, component),
        "spec": { "replicas": target.replicas, "selector": { "matchLabels": selector },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "template": { "metadata": { "labels": labels }, "spec": spec } } })
}

/// One at a time may be taken away: with a single replica, a node can still be drained.
fn budget(target: &Installation, name: &str, component: Component) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": metadata(target, name, component),
        "spec": { "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": { "matchLabels": selecting(target, component) } } })
}

/// The port of metrics and health.
const OPERATOR_METRICS: u16 = 8383;

/// The operator that keeps routes of environments: its roles, its pods, and the CRD of the resource that it reads.
pub(super) fn operator(target: &Installation) -> Vec<Value> {
    let (name, component) = (target.with_revision("sidecar-injector-environment"), Component::Operator);
    let mut objects = vec![crd::definition(), roles::account(target, &name, component)];
    objects.extend(roles::role(target, &name, component, &rules(Scope::Own, &name)));
    objects.extend(roles::cluster_role(target, &name, component, &rules(Scope::Watched, &name)));
    let address = format!("--metrics-address=[::]:{OPERATOR_METRICS}");
    let (lease, namespace) = (format!("--lease={name}"), format!("--lease-namespace={}", target.namespace));
    let mut arguments = vec!["environment", "operator", "--all-namespaces", &lease, &namespace, &address];
    let hosts: Vec<&str> = target.allow_hosts.iter().map(|host| &*host.0).collect();
    let hosts = format!("--allow-hosts={}", hosts.join(","));
    arguments.extend((!target.allow_hosts.is_empty()).then_some(&*hosts));
    arguments.push("--log_as_json");
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "metrics" } });
    let container = json!({
        "name": "operator", "image": target.image, "args": arguments,
        "ports": [{ "name": "metrics", "containerPort": OPERATOR_METRICS }],
        "readinessProbe": probe("/readyz"), "livenessProbe": probe("/healthz"),
    });
    objects.push(deployment(target, &name, component, container, None));
    objects.push(budget(target, &name, component));
    objects.extend(policy(target, &name, component, &[OPERATOR_METRICS]));
    objects
}

/// The rules of one scope. In the operator's own namespace they are limited to the object of this name, except for `create`,
/// which RBAC can't limit by name.
fn rules(scope: Scope, name: &str) -> Value {
    let accesses = OPERATOR.iter().filter(|access| access.scope == scope);
    let rules = accesses.flat_map(|access| {
        let rule = |verbs: Vec<&str>, names: Option<&str>| {
            let mut rule =
                json!({ "apiGroups": [access.group], "resources": [access.resource], "verbs": verbs });
            if let Some(name) = names {
                rule["resourceNames"] = json!([name]);
            }
            (!verbs.is_empty()).then_some(rule)
        };
        let (created, named): (Vec<&str>, Vec<&str>) =
            access.verbs.iter().partition(|verb| **verb == "create");
        match scope {
            Scope::Watched => vec![rule(access.verbs.to_vec(), None)],
            Scope::Own => vec![rule(created, None), rule(named, Some(name))],
        }
    });
    rules.flatten().collect()
}

/// Where API servers listen. The Service has 443, but policies apply to the endpoint behind it: 6443 of kubeadm and most others,
/// 443 of GKE, EKS and AKS, 8443 of minikube, 16443 of MicroK8s. Their addresses are not known, and may change.
const API_SERVER: [u16; 4] = [443, 6443, 8443, 16443];
/// Where resolvers listen, 5353 in OpenShift: the client looks up `kubernetes.default.svc`.
const RESOLVER: [u16; 2] = [53, 5353];

/// The NetworkPolicy of a program: its own ports from everywhere, the API server and DNS, nothing else. The API server calls a
/// webhook from addresses outside of the pod network, which no policy can select. The same holds for
/// a Prometheus outside of the cluster.
fn policy(target: &Installation, name: &str, component: Component, served: &[u16]) -> Option<Value> {
    let ports = |protocol: &str, ports: &[u16]| -> Vec<Value> {
        ports.iter().map(|port| json!({ "protocol": protocol, "port": port })).collect()
    };
    let resolver = [ports("UDP", &RESOLVER), ports("TCP", &RESOLVER)].concat();
    target.network_policy.then(|| {
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": metadata(target, name, component),
            "spec": {
                "podSelector": { "matchLabels": selecting(target, component) },
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{ "ports": ports("TCP", served) }],
                "egress": [
                    { "ports": ports("TCP", &API_SERVER) },
                    { "ports": resolver },
                ],
            } })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Configuration, ConfigurationText, Texts};
    use crate::manifests::Installation;
    use crate::manifests::installation::tests::plain;

    #[test]
    fn the_configuration_that_is_printed_says_the_defaults() {
        let target = Installation::read(plain()).expect("right");
        let map = configuration(&target);
        let text = |name: &'static str| {
            let text = map["data"][name].as_str().expect("a text");
            Some(ConfigurationText::new(name, text))
        };
        let texts = Texts { config: text("config"), values: text("values"), mesh: text("mesh") };
        let read = Configuration::read(&texts).expect("it is understood");
        let default = Configuration::read(&Texts::default()).expect("defaults");
        let mut expected = default.values.raw;
        for image in ["proxy", "proxy_init"] {
            expected["global"][image]["image"] = "mesh/proxy:1".into();
        }
        assert_eq!(read.values.raw, expected);
        assert_eq!(read.mesh.raw, default.mesh.raw);
        assert_eq!(read.default_templates, default.default_templates);
        assert_eq!(read.warnings, Vec::<String>::new());
    }
}
