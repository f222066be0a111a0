//! Reads a pod from the API server, where a kubeconfig is configured.
//!
//! The plugin has no client, because TLS would make the binary half as large again. It starts `sidecar-node`, which is
//! installed next to it: that retries within its time limit, reads tokens again, logs none, and prints a manifest.

use super::protocol::{CniError, CniErrorCode};
use super::{NODE_PROGRAM, decision::PodReference};
use mesh::pod::{self, Pod};
use sidecar_init::sys::exec::{ExecError, Runner};
use std::{path::Path, time::Duration};

/// The exit code of `sidecar-node` for wrong arguments.
const BAD_INPUT: i32 = 2;

/// Reads a pod by a program, in at most this time.
///
/// # Errors
/// When the pod can't be read. The runtime may try again, unless the kubeconfig is wrong.
pub(super) fn pod(
    program: &Path,
    kubeconfig: &Path,
    PodReference { namespace, name }: PodReference<'_>,
    time: Duration,
) -> Result<Pod, CniError> {
    let kubeconfig = kubeconfig.to_string_lossy();
    let milliseconds = time.as_millis().to_string();
    let arguments = [
        "pod",
        "--kubeconfig",
        &kubeconfig,
        "--namespace",
        namespace,
        "--name",
        name,
        "--timeout",
        &milliseconds,
    ];
    let output = Runner::new(time).run(program, &arguments).map_err(|error| unknown(&error))?;
    let unreadable = "what the API server knows of the pod can't be read";
    let objects = pod::objects("the pod", &output.stdout)
        .map_err(|problems| CniError::of_problems(CniErrorCode::TryAgain, unreadable, &problems.0))?;
    match objects.into_iter().next() {
        Some(object) => Ok(object.pod),
        None => Err(CniError::new(CniErrorCode::TryAgain, unreadable, "it is none")),
    }
}

fn unknown(error: &ExecError) -> CniError {
    let what = "the pod can't be read from the API server (kubeconfig)";
    match error {
        ExecError::Start { .. } => CniError::caused(
            CniErrorCode::NotAvailable,
            format!("{what}: {NODE_PROGRAM} belongs beside the plugin"),
            error,
        ),
        ExecError::Late { .. } | ExecError::Long { .. } => {
            CniError::caused(CniErrorCode::TryAgain, what, error)
        }
        ExecError::Status { status, stderr, .. } => {
            let code = match status.code() {
                Some(BAD_INPUT) => CniErrorCode::Configuration,
                Some(_) | None => CniErrorCode::TryAgain,
            };
            CniError::new(code, format!("{what}: {}", stderr.trim()), "")
        }
    }
}
