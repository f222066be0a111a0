//! The verbs that are not about one container: GC and STATUS.

use super::{
    Done,
    decision::{ResolvedCapture, resolve},
    protocol::{CniError, CniErrorCode, PluginConfiguration},
    state::AttachmentStore,
    verbs::state_read_error,
};
use mesh::pod::{Pod, annotated};
use nix::unistd::{AccessFlags, access};
use sidecar_init::sys::namespace;
use std::{net::Ipv4Addr, time::Duration};

/// GC: removes the records of attachments that the runtime does not list.
pub(super) fn gc(configuration: &PluginConfiguration<'_>, state: &AttachmentStore) -> Result<Done, CniError> {
    let Some(valid) = &configuration.valid else {
        let details =
            "expected cni.dev/valid-attachments, a list of objects, each with a containerID and an ifname";
        return Err(CniError::new(
            CniErrorCode::Configuration,
            "GC is called without valid attachments",
            details,
        ));
    };
    let mut left = Vec::new();
    let mut forgotten = 0;
    for key in state.keys().map_err(|error| state_read_error(&error))? {
        if key.network != configuration.name || valid.contains(&key.attachment) {
            continue;
        }
        match state.forget(&key) {
            Ok(_) => forgotten += 1,
            Err(error) => {
                left.push(format!("{} {}: {error}", key.attachment.container, key.attachment.interface));
            }
        }
    }
    state.sweep().map_err(|error| state_read_error(&error))?;
    match left.is_empty() {
        true => Ok(Done::new("collected", format!("{forgotten} attachments forgotten"))),
        false => Err(CniError::new(
            CniErrorCode::Io,
            "attachments can't be forgotten (state_dir)",
            left.join("\n"),
        )),
    }
}

/// STATUS: whether ADD could serve. It sets rules in a new namespace to find out.
pub(super) fn status(
    configuration: &PluginConfiguration<'_>,
    state: &AttachmentStore,
    timeout: Duration,
) -> Result<Done, CniError> {
    let unavailable =
        |what: &str, fault: &dyn std::error::Error| CniError::caused(CniErrorCode::NotAvailable, what, fault);
    let writable = state.prepare().and_then(|()| Ok(access(state.folder(), AccessFlags::W_OK)?));
    writable.map_err(|error| unavailable("the state directory can't be written (state_dir)", &error))?;
    let sample = annotated(&Pod::default(), "a pod", &configuration.defaults).raw;
    let raw = configuration.capture.clone().unwrap_or(sample);
    let ResolvedCapture { capture, .. } = resolve(raw, Vec::new(), &[Ipv4Addr::new(192, 0, 2, 1).into()])
        .map_err(|fault| CniError { code: CniErrorCode::NotAvailable, ..fault })?;
    let tried = namespace::within_new(|| {
        // ADD refuses where it is not known whether the namespace is the runtime's own.
        super::namespace::refuse_host_namespace()
            .map_err(|text| CniError::new(CniErrorCode::NotAvailable, text, ""))?;
        super::namespace::open(timeout, capture.owner(), super::namespace::choice(configuration.backend))?
            .apply(&capture.desired())
            .map_err(|error| super::namespace::engine_error("rules can't be set in a new namespace", &error))
    });
    match tried {
        Ok(Ok(summary)) => Ok(Done::new("ready", format!("{} rules set on trial", summary.rules))),
        Ok(Err(fault)) => Err(CniError { code: CniErrorCode::NotAvailable, ..fault }),
        Err(error) => {
            Err(unavailable("no network namespace can be made or entered; CAP_SYS_ADMIN is needed", &error))
        }
    }
}
