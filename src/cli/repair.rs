//! `sidecar-init cni repair`: the rules of a container that runs without them.

use super::manifest::{self, Subject};
use super::run::{self, ResolvedCall, Run};
use super::{Exit, change, verify, warn_of};
use crate::cni::{RepairTarget, count_repair};
use diagnose::lint::brief;
use mesh::sources::{Given, Raw, SettingReader};
use mesh::{InputProblem, Problems, Setting};
use rules::number::unsigned;
use sidecar_init::{engine::OnDrift, sys::namespace};
use std::path::{Path, PathBuf};
use std::{error, time::Instant};

#[derive(Debug, thiserror::Error)]
enum ContainerRepairFailure {
    #[error("this is the machine's own network namespace, or may be; name the container's")]
    Host,
    #[error("the rules were set but differ afterwards; another program changes them:\n{0}")]
    Undone(String),
}

pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let started = Instant::now();
    super::install::survive_file_size_limit();
    let Subject { raw, before, .. } = manifest::only(subjects)?;
    let mut problems = before.clone();
    let container = container(raw).unwrap_or_else(|problem| {
        problems.push(problem);
        RepairTarget::Namespace(PathBuf::new())
    });
    if problems.is_empty() {
        problems.extend(enter(raw, &container));
    }
    let mut reader = SettingReader::new(raw, problems);
    let (run, logging) = run::read(&mut reader);
    // It works on the node's file system, whatever the settings say.
    let call = run::configured(reader, &container, Run { cni: true, ..run }, logging)?;
    manifest::begin(subjects, &call.logging, [&call.warnings], call.run.stdout())?;
    let done = change::finish(&call.run, repaired(&call));
    // Trying packets takes a moment, in which the container would run without its rules.
    warn_of(brief(raw, &call.capture, &[]));
    let exit = match done {
        Exit::Done => verify::validated(&call),
        other => other,
    };
    let outcome = if matches!(exit, Exit::Done | Exit::Drift) { "repaired" } else { "failed" };
    let state = raw.get(Setting::StateDir).map(|given| Path::new(&given.value));
    if let Err(error) = count_repair(state, outcome, started.elapsed()) {
        tracing::warn!(target: "install", "the repair can't be counted: {error}");
    }
    Ok(exit)
}

fn repaired(call: &ResolvedCall) -> Result<change::ChangeReport, Box<dyn error::Error>> {
    let ResolvedCall { capture, run, .. } = call;
    if namespace::is_host() != Some(false) {
        return Err(ContainerRepairFailure::Host.into());
    }
    let report = change::set(run, "cni-repair", capture, OnDrift::Replace)?;
    let compared = run.session(capture.owner())?.check(&capture.desired())?;
    if compared.differences.is_empty() {
        Ok(report)
    } else {
        Err(ContainerRepairFailure::Undone(compared.differences.to_string()).into())
    }
}

fn container(raw: &Raw) -> Result<RepairTarget, InputProblem> {
    match (raw.get(Setting::Netns), raw.get(Setting::Pid)) {
        (Some(path), None) => Ok(RepairTarget::Namespace(PathBuf::from(&path.value))),
        (None, Some(Given { value, source })) => match unsigned(value.trim()) {
            Some(id) if id > 0 => Ok(RepairTarget::Process(id)),
            Some(_) | None => {
                Err(InputProblem::with_item(source, value, "is not a process; expected its number, from 1"))
            }
        },
        (Some(_), Some(_)) => Err(InputProblem::of("--netns", "contradicts --pid; give one of them")),
        (None, None) => Err(InputProblem::of(
            "--netns",
            "is not given, nor --pid; name the container to repair by one of them",
        )),
    }
}

fn enter(raw: &Raw, container: &RepairTarget) -> Option<InputProblem> {
    let Given { value, source } = raw.get(Setting::Netns).or(raw.get(Setting::Pid))?;
    let refused = match container {
        RepairTarget::Namespace(_) => super::enter(value),
        RepairTarget::Process(_) => namespace::enter(&container.namespace()).map_err(|error| {
            let form = "expected a process in a network namespace, and the right to enter it (CAP_SYS_ADMIN)";
            format!("can't be entered: {error}; {form}")
        }),
    };
    Some(InputProblem::with_item(source, value, refused.err()?))
}
