//! The NetworkPolicy of a program: its own ports from everywhere, the API server and DNS, nothing else.

use super::{Component, Installation, metadata, selecting};
use serde_json::{Value, json};

/// Where API servers listen. The Service has 443, but policies apply to the endpoint behind it: 6443 of kubeadm and most others,
/// 443 of GKE, EKS and AKS, 8443 of minikube, 16443 of MicroK8s. Their addresses are not known, and may change.
const API_SERVER: [u16; 4] = [443, 6443, 8443, 16443];
/// Where resolvers listen, 5353 in OpenShift: the client looks up `kubernetes.default.svc`.
const RESOLVER: [u16; 2] = [53, 5353];

/// The API server calls a webhook from addresses outside of the pod network, which no policy can select. The same holds for
/// a Prometheus outside of the cluster.
pub(super) fn policy(
    target: &Installation,
    name: &str,
    component: Component,
    served: &[u16],
) -> Option<Value> {
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
