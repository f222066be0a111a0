//! What is known of the cluster that calls, beside what a review says. Where that comes from, and how fresh it is, is left to
//! the server.

use crate::admission::Namespace;

/// The first minor version of Kubernetes 1 in which native sidecars are stable; Istio waits for the same one.
const STABLE_MINOR: u32 = 33;

/// A cluster. It is queried during a review, so it answers at once, with what it knows.
pub trait Cluster {
    /// A namespace, with its labels and annotations as far as they are known.
    fn namespace(&self, name: &str) -> Namespace;

    /// Whether the kubelet of this node can run native sidecars; of a pod that has no node yet, whether all can.
    fn native_sidecars(&self, node: Option<&str>) -> bool;
}

/// A cluster about which nothing is known, so that native sidecars count as unsupported.
#[derive(Clone, Copy, Debug)]
pub struct UnknownCluster;

impl Cluster for UnknownCluster {
    fn namespace(&self, name: &str) -> Namespace {
        Namespace { name: name.to_owned(), ..Namespace::default() }
    }

    fn native_sidecars(&self, _: Option<&str>) -> bool {
        false
    }
}

/// Whether a kubelet of this version can run native sidecars, unless it is disabled; `None` if the version can't be parsed.
///
/// Distributions add to versions: `v1.33.1-gke.1`, `v1.33.2+k3s1`, `v1.33+`.
pub fn runs_native_sidecars(version: &str) -> Option<bool> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let major: u32 = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    let minor: u32 = minor[..end].parse().ok()?;
    Some((major, minor) >= (1, STABLE_MINOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubelets() {
        for new in ["v1.33.0", "1.33", "v1.33+", "v1.34.1-gke.1", "v1.33.2+k3s1", "v2.0.0"] {
            assert_eq!(runs_native_sidecars(new), Some(true), "{new}");
        }
        for old in ["v1.32.9", "v1.29.3-eks-ae9a62a", "1.9.0", "v0.40.0"] {
            assert_eq!(runs_native_sidecars(old), Some(false), "{old}");
        }
        for none in ["", "v1", "1.", "v1.x", "vv1.33", "latest", "v-1.33", "1.99999999999"] {
            assert_eq!(runs_native_sidecars(none), None, "{none:?}");
        }
    }
}
