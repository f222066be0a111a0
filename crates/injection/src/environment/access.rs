//! What the operator asks of the API server, so that its role can grant exactly that.

use super::crd::PLURAL;
use super::resource::GROUP;

/// Where the operator has access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In each namespace that is looked at.
    Watched,
    /// In the namespace of the Lease, by which one operator of several leads.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub group: &'static str,
    /// With `/status` where it is about that.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    pub scope: Scope,
}

const fn watched(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Access {
    Access { group, resource, verbs, scope: Scope::Watched }
}

const READ: &[&str] = &["list", "watch"];
const WRITE: &[&str] = &["list", "watch", "create", "patch", "delete"];
const ISTIO: &str = "networking.istio.io";

pub const OPERATOR: &[Access] = &[
    watched(GROUP, PLURAL, READ),
    watched(GROUP, "virtualenvironments/status", &["patch"]),
    watched("", "services", READ),
    watched("apps", "deployments", READ),
    watched("apps", "statefulsets", READ),
    watched(ISTIO, "virtualservices", WRITE),
    watched(ISTIO, "destinationrules", WRITE),
    watched(ISTIO, "envoyfilters", WRITE),
    Access {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["get", "create", "update"],
        scope: Scope::Own,
    },
];
