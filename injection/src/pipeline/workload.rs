//! Who makes a pod.

/// An object that makes pods, or the pod itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    pub name: String,
    pub namespace: String,
}
