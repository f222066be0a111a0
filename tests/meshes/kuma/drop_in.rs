//! Calls of the drop-in for `kumactl`.

use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, Outcome, PATH};

/// Calls the drop-in in a namespace, with only PATH in its environment.
pub(crate) fn call(namespace: &Namespace, words: &[&str]) -> Outcome {
    let path = format!("PATH={PATH}");
    namespace.output("env", &[&["-i", &path, BINARY, "kuma-init"], words].concat(), "")
}
