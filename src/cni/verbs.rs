//! The verbs: ADD sets the rules, CHECK compares them, DEL removes them; GC and STATUS concern no single container.
//! `sidecar-node` reads pods from the API server, because TLS would make the plugin half as large again.

use super::NODE_PROGRAM;
use super::decision::{CaptureDecision, ResolvedCapture, decide, resolve};
use super::namespace::{self, ADD_COMMAND, choice, enter_existing};
use super::protocol::{self, AttachmentTarget, CniError, CniErrorCode, CniResult, PluginConfiguration};
use super::state::{AttachmentKey, AttachmentRecord, AttachmentStore, StoredRecord};
use super::watch::{Done, Undo};
use mesh::pod::{self, Pod, annotated};
use mesh::{CapturePolicy, Mesh, OWNERS, sources::Raw};
use nix::unistd::{AccessFlags, access};
use rules::{Ownership, desired::Desired};
use sidecar_init::engine::{Choice, Session, Summary};
use sidecar_init::sys::exec::{ExecError, Runner};
use sidecar_init::sys::namespace::within_new;
use std::time::{Duration, SystemTime};
use std::{net::Ipv4Addr, path::Path};

const CAPTURES_NOTHING: &str = "its settings capture nothing";

pub(super) struct CallContext {
    pub(super) state: AttachmentStore,
    pub(super) timeout: Duration,
}

impl CallContext {
    /// ADD: captures the container's traffic. On failure nothing is changed, unless the error states otherwise.
    pub(super) fn add(
        &self,
        target: &AttachmentTarget,
        netns: &Path,
        configuration: &PluginConfiguration<'_>,
    ) -> CniResult<Done> {
        let skipped = |reason: String| Done::new("skipped", reason).answering(result(configuration));
        let (raw, problems) = match self.decide(configuration, target)? {
            CaptureDecision::Nothing(reason) => return Ok(skipped(reason)),
            CaptureDecision::Capture(raw, problems) => (raw, problems),
        };
        enter_existing(netns)?;
        let ResolvedCapture { capture, raw, warnings } = resolve(raw, problems, &namespace::addresses()?)?;
        if capture.facts().captures_nothing {
            return Ok(skipped(CAPTURES_NOTHING.to_owned()));
        }
        warnings.iter().for_each(|warning| tracing::warn!(target: "config", "{warning}"));
        // A concurrent DEL finds both the record and the rules, or neither.
        let mut session =
            namespace::open_locked(self.timeout, capture.owner(), choice(configuration.backend))?;
        let key = key(target, &configuration.name);
        let before = self.before(&key, capture.mesh())?;
        let record = AttachmentRecord::new(target.pod.label(), configuration.backend, &raw);
        self.state.keep(&key, &record)?;
        let summary = set(&mut session, &*capture, &raw)?;
        warn_of_preceding_rules(&mut session);
        let backend = summary.backend.map(|backend| backend.to_string()).unwrap_or_default();
        let is_changed = !summary.steps.is_empty();
        let how = if is_changed { "is in place" } else { "was in place" };
        let reason = format!("{} rules, {backend}: {how}", summary.rules);
        let state = self.state.clone();
        let undo: Undo = Box::new(move || undo_add(&state, &key, before, &mut session, is_changed));
        Ok(Done { undo: Some(undo), ..Done::new("captured", reason).answering(result(configuration)) })
    }

    /// Record of an attachment before ADD; an error for another mesh's record, because DEL removes only one mesh's rules.
    fn before(&self, key: &AttachmentKey, mesh: Mesh) -> CniResult<StoredRecord> {
        let stored = self.state.record(key)?;
        if let Some(earlier) = stored.mesh().filter(|earlier| *earlier != mesh) {
            let (earlier, now) = (earlier.ownership().name, mesh.ownership().name);
            let msg =
                format!("an earlier ADD captured this container for {earlier}, but {now} is requested now");
            let details = "call DEL before this ADD";
            return Err(CniError::new(CniErrorCode::Configuration, msg, details));
        }
        Ok(stored)
    }

    fn decide(
        &self,
        configuration: &PluginConfiguration<'_>,
        target: &AttachmentTarget,
    ) -> CniResult<CaptureDecision> {
        let time = self.timeout.mul_f64(0.75);
        decide(configuration, &target.pod, |kubeconfig, namespace, name| {
            ask_for_pod(kubeconfig, namespace, name, time)
        })
    }

    /// CHECK: compares the rules with the result of ADD.
    pub(super) fn check(
        &self,
        target: &AttachmentTarget,
        netns: &Path,
        configuration: &PluginConfiguration<'_>,
    ) -> CniResult<Done> {
        let stored = self.state.record(&key(target, &configuration.name))?;
        if let StoredRecord::Unreadable(why) = &stored {
            tracing::warn!(target: "state", "the record of ADD can't be read ({why}); resolving the settings again");
        }
        let mut backend = choice(configuration.backend);
        let is_recorded = stored.mesh().is_some();
        let (raw, problems) = match stored {
            StoredRecord::Valid(record) => {
                backend = record.backend().unwrap_or(backend);
                (record.raw(), Vec::new())
            }
            StoredRecord::Absent | StoredRecord::Unreadable(_) => match self.decide(configuration, target)? {
                CaptureDecision::Nothing(reason) => return Ok(Done::new("skipped", reason)),
                CaptureDecision::Capture(raw, problems) => (raw, problems),
            },
        };
        enter_existing(netns)?;
        // A record contains the addresses at the time of ADD.
        let addresses = if is_recorded { Vec::new() } else { namespace::addresses()? };
        let ResolvedCapture { capture, .. } = resolve(raw, problems, &addresses)?;
        // ADD then sets no rules and keeps no record.
        if !is_recorded && capture.facts().captures_nothing {
            return Ok(Done::new("skipped", CAPTURES_NOTHING));
        }
        let mut session = namespace::open(self.timeout, capture.owner(), backend)?;
        let compared = session
            .check(&capture.desired())
            .map_err(|error| namespace::engine_error("the rules can't be compared", error))?;
        if !compared.differences.is_empty() {
            let msg = "the container's rules differ from those of ADD: its traffic may bypass the proxy";
            return Err(CniError::new(CniErrorCode::Drift, msg, compared.differences));
        }
        warn_of_preceding_rules(&mut session);
        Ok(Done::new("equal", ""))
    }

    /// DEL: removes our rules from the namespace, if it still exists, and the record from the node.
    pub(super) fn del(
        &self,
        target: &AttachmentTarget,
        netns: Option<&Path>,
        network: &str,
    ) -> CniResult<Done> {
        let key = key(target, network);
        let nothing = || Ok(Done::new("nothing", "it has no rules"));
        let entered = netns.map(namespace::enter);
        if !matches!(entered, Some(Ok(true))) {
            let why = match entered {
                _ if self.state.record(&key)? == StoredRecord::Absent => return nothing(),
                Some(Err(fault)) => return Err(fault),
                Some(Ok(_)) => "its namespace no longer exists",
                None => "no namespace was given",
            };
            self.forget(&key);
            return Ok(Done::new("forgotten", why));
        }
        let mut removal = self.removal(&key)?;
        loop {
            let Some(Removal { owner, is_shared }) = removal else { return nothing() };
            let mut session = namespace::open_locked(self.timeout, owner, Choice::Nftables)?;
            let now = self.removal(&key)?;
            if now != removal {
                removal = now;
                continue;
            }
            if is_shared {
                // Otherwise, the other attachment's DEL would keep the rules for this record.
                self.state.forget(&key)?;
                return Ok(Done::new("forgotten", "another attachment of the container has the rules"));
            }
            let summary = clean(&mut session)?;
            self.forget(&key);
            return Ok(Done::new("cleaned", format!("{} steps", summary.steps.len())));
        }
    }

    /// The removal for DEL; `None` if no ADD has set rules for this attachment.
    fn removal(&self, key: &AttachmentKey) -> CniResult<Option<Removal>> {
        let stored = self.state.record(key)?;
        let is_shared = record_with_same_rules(&self.state, key, &stored)?.is_some();
        let owner = match stored {
            StoredRecord::Absent if is_shared => None,
            // No rule is removed. The lock makes concurrent DELs read the records one after the other.
            _ if is_shared => Some(Mesh::default().ownership()),
            StoredRecord::Valid(record) => Some(record.mesh().ownership()),
            // An unreadable record may belong to any mesh.
            StoredRecord::Unreadable(_) => Some(Mesh::default().ownership().union(OWNERS)),
            // The record may be lost. Rules of an init container are kept: the pod may still run, with other attachments.
            StoredRecord::Absent => {
                let found = namespace::mesh_set_by_add().unwrap_or_else(|error| {
                    tracing::warn!(target: "state", "could not check for an earlier ADD: {error}");
                    None
                });
                found.map(Mesh::ownership)
            }
        };
        Ok(owner.map(|owner| Removal { owner, is_shared }))
    }

    /// Removes an attachment's record. A failure, as on a read-only file system, does not block the container's removal.
    fn forget(&self, key: &AttachmentKey) {
        if let Err(CniError { details, .. }) = self.state.forget(key) {
            tracing::warn!(
                target: "state",
                "the attachment's record can't be removed (state_dir) and is kept until GC: {details}"
            );
        }
    }

    /// GC: removes the records of attachments that the runtime does not list.
    pub(super) fn gc(&self, configuration: &PluginConfiguration<'_>) -> CniResult<Done> {
        let Some(valid) = &configuration.valid else {
            let msg = "GC was called without valid attachments";
            let details = "expected cni.dev/valid-attachments, a list of objects, each with a containerID and an ifname";
            return Err(CniError::new(CniErrorCode::Configuration, msg, details));
        };
        let mut left = Vec::new();
        let mut forgotten = 0;
        for key in self.state.keys()? {
            if key.network != configuration.name || valid.contains(&key.attachment) {
                continue;
            }
            match self.state.forget(&key) {
                Ok(()) => forgotten += 1,
                Err(CniError { details, .. }) => {
                    left.push(format!(
                        "{} {}: {details}",
                        key.attachment.container, key.attachment.interface
                    ));
                }
            }
        }
        self.state.sweep()?;
        if left.is_empty() {
            return Ok(Done::new("collected", format!("{forgotten} attachments removed")));
        }
        let msg = "attachments can't be removed (state_dir)";
        Err(CniError::new(CniErrorCode::Io, msg, left.join("\n")))
    }

    /// STATUS: reports whether ADD could work, by setting rules in a new namespace.
    pub(super) fn status(&self, configuration: &PluginConfiguration<'_>) -> CniResult<Done> {
        let unavailable = |what: &str, fault: &dyn std::error::Error| {
            CniError::caused(CniErrorCode::NotAvailable, what, fault)
        };
        let writable = self.state.prepare().and_then(|()| Ok(access(&self.state.folder, AccessFlags::W_OK)?));
        writable.map_err(|error| unavailable("the state directory can't be written (state_dir)", &error))?;
        let sample = annotated(&Pod::default(), "a pod", &configuration.defaults).raw;
        let raw = configuration.capture.clone().unwrap_or(sample);
        let tried = within_new(|| {
            let addresses = [Ipv4Addr::new(192, 0, 2, 1).into()];
            let ResolvedCapture { capture, .. } = resolve(raw, Vec::new(), &addresses)?;
            // ADD refuses a namespace that may be the runtime's own.
            namespace::refuse_host_namespace()
                .map_err(|text| CniError::new(CniErrorCode::NotAvailable, text, ""))?;
            namespace::open(self.timeout, capture.owner(), choice(configuration.backend))?
                .apply(&capture.desired())
                .map_err(|error| namespace::engine_error("rules can't be set in a new namespace", error))
        });
        let tried = tried.map_err(|error| {
            unavailable("cannot create or enter a network namespace; CAP_SYS_ADMIN is required", &error)
        })?;
        match tried {
            Ok(summary) => Ok(Done::new("ready", format!("{} trial rules set", summary.rules))),
            Err(fault) => Err(CniError { code: CniErrorCode::NotAvailable, ..fault }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Removal {
    owner: Ownership,
    is_shared: bool,
}

/// Restores record and rules of an earlier ADD or another attachment, or else removes them.
fn undo_add(
    state: &AttachmentStore,
    key: &AttachmentKey,
    before: StoredRecord,
    session: &mut Session,
    is_changed: bool,
) -> CniResult<()> {
    match before {
        StoredRecord::Absent => {
            if is_changed {
                match record_with_same_rules(state, key, &state.record(key)?)? {
                    Some(StoredRecord::Valid(record)) => restore(session, &record)?,
                    // The settings of that attachment are unknown.
                    Some(StoredRecord::Absent | StoredRecord::Unreadable(_)) => {}
                    None => drop(clean(session)?),
                }
            }
            state.forget(key)
        }
        StoredRecord::Valid(record) => {
            if is_changed {
                restore(session, &record)?;
            }
            state.keep(key, &record)
        }
        // The earlier state is unknown. With the new record, DEL removes this ADD's rules.
        StoredRecord::Unreadable(_) => Ok(()),
    }
}

/// Record of the container's other attachment that has, or may have, the same mesh's rules.
fn record_with_same_rules(
    state: &AttachmentStore,
    key: &AttachmentKey,
    stored: &StoredRecord,
) -> CniResult<Option<StoredRecord>> {
    let (keys, container) = (state.keys()?, &key.attachment.container);
    for other in keys.iter().filter(|other| *other != key && other.attachment.container == *container) {
        let theirs = state.record(other)?;
        let differs = matches!((stored.mesh(), theirs.mesh()), (Some(ours), Some(theirs)) if ours != theirs);
        if theirs != StoredRecord::Absent && !differs {
            return Ok(Some(theirs));
        }
    }
    Ok(None)
}

/// Sets a record's rules, unless another version wrote it for an unknown backend.
fn restore(session: &mut Session, record: &AttachmentRecord) -> CniResult<()> {
    let Some(backend) = record.backend() else { return Ok(()) };
    let ResolvedCapture { capture, raw, .. } = resolve(record.raw(), Vec::new(), &[])?;
    session.options.choice = backend;
    set(session, &*capture, &raw).map(drop)
}

fn set(session: &mut Session, capture: &dyn CapturePolicy, raw: &Raw) -> CniResult<Summary> {
    let at = diagnose::trace::utc(SystemTime::now());
    let made = mesh::made(env!("CARGO_PKG_VERSION"), ADD_COMMAND, mesh::settings_text(raw), &at);
    let desired = Desired { made: Some(made), ..capture.desired() };
    session
        .apply(&desired)
        .map_err(|error| namespace::engine_error("the container's traffic can't be captured", error))
}

fn clean(session: &mut Session) -> CniResult<Summary> {
    session.clean().map_err(|error| namespace::engine_error("our rules can't be removed", error))
}

fn key(target: &AttachmentTarget, network: &str) -> AttachmentKey {
    AttachmentKey { network: network.to_owned(), attachment: target.attachment.clone() }
}

fn result(configuration: &PluginConfiguration<'_>) -> String {
    protocol::result(configuration.previous_result, configuration.version)
}

/// Warns about other programs' preceding rules, which we can't override.
fn warn_of_preceding_rules(session: &mut Session) {
    for text in session.preceding_rules_if_known() {
        tracing::warn!(target: "iptables", "{text}");
    }
}

const BAD_INPUT: i32 = 2;

fn ask_for_pod(kubeconfig: &Path, namespace: &str, name: &str, time: Duration) -> CniResult<Pod> {
    let kubeconfig = kubeconfig.to_string_lossy();
    let milliseconds = time.as_millis().to_string();
    let call = ["pod", "--kubeconfig", &kubeconfig, "--timeout", &milliseconds];
    let arguments = [&call[..], &["--namespace", namespace, "--name", name]].concat();
    let answer =
        Runner::new(time).run(&super::beside(NODE_PROGRAM), &arguments).map_err(|error| unknown(&error))?;
    let unreadable = "the API server's answer about the pod can't be read";
    let objects = pod::objects("the pod", &answer)
        .map_err(|problems| CniError::of_problems(CniErrorCode::TryAgain, unreadable, &problems.0))?;
    let object = objects.into_iter().next();
    let none = || CniError::new(CniErrorCode::TryAgain, unreadable, "it is not a pod");
    object.map(|object| object.pod).ok_or_else(none)
}

fn unknown(error: &ExecError) -> CniError {
    let what = "the pod can't be read from the API server (kubeconfig)";
    match error {
        ExecError::Start { .. } => {
            let msg = format!("{what}: {NODE_PROGRAM} is missing next to the plugin");
            CniError::caused(CniErrorCode::NotAvailable, msg, error)
        }
        ExecError::Late { .. } | ExecError::Long { .. } => {
            CniError::caused(CniErrorCode::TryAgain, what, error)
        }
        ExecError::Status { status, stderr, .. } => {
            let is_bad_input = status.code() == Some(BAD_INPUT);
            let code = if is_bad_input { CniErrorCode::Configuration } else { CniErrorCode::TryAgain };
            CniError::new(code, format!("{what}: {}", stderr.trim()), "")
        }
    }
}
