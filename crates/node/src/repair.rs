//! Sets a pod's rules from the node: what the plugin would have done, by the same reading and the same engine.

use crate::sandbox::Sandbox;
use mesh::{CapturePolicy, Host, Problems, pod};
use rules::desired::Desired;
use sidecar_init::backend::iptables::Lock;
use sidecar_init::engine::{self, Choice, Session};
use sidecar_init::sys::{address, namespace};
use std::{io, net::IpAddr, path::PathBuf, time::SystemTime};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepairOutcome {
    /// Its rules are as they should be, and were looked at again.
    Captured {
        backend: String,
        rules: usize,
        /// False if nothing had to be changed.
        changed: bool,
        warnings: Vec<String>,
    },
    /// Its traffic is not to be captured; why.
    Skipped(String),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PodRepairFailure {
    #[error("what the pod says can't be used:\n{0}")]
    Settings(Problems),
    #[error("the namespace {} can't be entered; CAP_SYS_ADMIN is needed", .0.display())]
    Enter(PathBuf, #[source] io::Error),
    #[error("{} is the machine's own network namespace, or may be: /proc is needed to know", .0.display())]
    Host(PathBuf),
    #[error("the pod's traffic can't be captured: {0}")]
    Engine(#[from] engine::EngineError),
    #[error("the rules were set and are not there: another program changes them\n{0}")]
    Unproven(engine::Differences),
}

/// Seconds to wait for another program that changes the pod's rules.
const LOCK_WAIT: u32 = 10;

/// Sets the rules of the pod that a manifest describes, and looks whether they stand. Idempotent.
pub(crate) fn repair(
    manifest: &str,
    sandbox: &Sandbox,
    choice: Choice,
    excluded_namespaces: &[String],
) -> Result<RepairOutcome, PodRepairFailure> {
    let objects = pod::objects("the pod", manifest).map_err(PodRepairFailure::Settings)?;
    let Some(object) = objects.first() else {
        return Ok(RepairOutcome::Skipped("it describes no pod".to_owned()));
    };
    let reading = pod::read(object, excluded_namespaces);
    if let Some(skip) = &reading.skip {
        return Ok(RepairOutcome::Skipped(skip.to_string()));
    }
    if let pod::CaptureMethod::InitContainer(name) = &reading.way {
        return Ok(RepairOutcome::Skipped(format!("its init container {name} sets the rules")));
    }
    let work = || {
        if namespace::is_host() != Some(false) {
            return Err(PodRepairFailure::Host(sandbox.found.clone()));
        }
        let resolved = reading.settings.resolve(&Inside).map_err(PodRepairFailure::Settings)?;
        let of_form = reading.warnings.iter().map(|warning| mesh::visible(&warning.text));
        let warnings = of_form.chain(resolved.warnings).collect();
        let settings = mesh::settings_text(&reading.settings.raw);
        capture(&*resolved.capture, settings, choice, warnings)
    };
    let entered = namespace::within(&sandbox.path(), work);
    entered.map_err(|error| PodRepairFailure::Enter(sandbox.found.clone(), error))?
}

fn capture(
    capture: &dyn CapturePolicy,
    settings: String,
    choice: Choice,
    mut warnings: Vec<String>,
) -> Result<RepairOutcome, PodRepairFailure> {
    if capture.facts().captures_nothing {
        return Ok(RepairOutcome::Skipped("its settings capture nothing".to_owned()));
    }
    let lock = Lock::on_node(LOCK_WAIT);
    let mut session =
        Session::open(lock, capture.owner(), choice, mesh::OWNERS).map_err(engine::EngineError::from)?;
    let at = diagnose::trace::utc(SystemTime::now());
    let made = mesh::made(env!("CARGO_PKG_VERSION"), "sidecar-node-repair", settings, &at);
    let desired = Desired { made: Some(made), ..capture.desired() };
    let summary = session.apply(&desired)?;
    let compared = session.check(&desired)?;
    if !compared.differences.is_empty() {
        return Err(PodRepairFailure::Unproven(compared.differences));
    }
    warnings.extend(session.preceding_rules_if_known());
    Ok(RepairOutcome::Captured {
        backend: compared.backend.to_string(),
        rules: summary.rules,
        changed: !summary.steps.is_empty(),
        warnings,
    })
}

/// The pod's namespace, seen from the node, whose users and DNS servers are not the pod's.
struct Inside;

impl Host for Inside {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("the node's are not the pod's"))
    }
}
