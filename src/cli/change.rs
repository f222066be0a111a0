//! Commands that change the namespace: `apply`, `clean`, and the drop-in for `istio-iptables`.

use super::report::{self, Because, Format};
use super::run::{Preview, ResolvedCall, Run, RunMode};
use super::{Exit, RunResult, diff, logging, render, verify};
use mesh::Capture;
use rules::{Ownership, desired::Desired};
use serde::Serialize;
use sidecar_init::engine::{self, ApplyPlan, Choice, EngineError, OnDrift, Options, Preference, Summary};
use sidecar_init::sys::namespace;
use std::{error, mem, time::Instant};

const OWN_NAMESPACE: &str = "this is the machine's own network namespace: rules here would redirect all the machine's traffic; \
                             give the pod's with --network-namespace, or allow it with --allow-host-namespace";
const UNKNOWN_NAMESPACE: &str = "this may be the machine's own network namespace, where rules would redirect all the \
                                 machine's traffic: mount /proc to check it, or allow it with --allow-host-namespace";

pub(super) fn apply(ResolvedCall { capture, run, .. }: &ResolvedCall) -> RunResult {
    if let RunMode::Preview(_) = run.mode {
        return render::preview(&**capture, form(run));
    }
    match namespace::is_host() {
        Some(true) if !run.allow_host => Err(OWN_NAMESPACE.into()),
        None if !run.allow_host => Err(UNKNOWN_NAMESPACE.into()),
        Some(_) | None => finish(run, &set(run, "apply", capture, OnDrift::Replace)?),
    }
}

pub(super) fn form(run: &Run) -> Preview {
    let prefers_nftables = run.backend == Choice::InUse(Preference::Nftables);
    match run.form() {
        Preview::Restore if prefers_nftables => Preview::Nft,
        form => form,
    }
}

pub(super) fn clean(run: &Run) -> RunResult {
    finish(run, &remove(run, run.named())?)
}

pub(super) fn finish(run: &Run, report: &ChangeReport) -> RunResult {
    if let Format::Data(encoding) = run.format {
        report::change(encoding, report, report.left_behind().as_deref().unwrap_or(report.done))?;
    }
    report.exit()
}

pub(super) fn set(
    run: &Run,
    command: &str,
    capture: &Capture,
    on_drift: OnDrift,
) -> Result<ChangeReport, Box<dyn error::Error>> {
    let start = Instant::now();
    let mut session = run.session(run.owner())?;
    session.options = Options { on_drift, force: run.force, ..session.options };
    let desired = Desired { owner: run.owner(), made: Some(run.made(command)), ..capture.desired() };
    let summary = session.apply(&desired)?;
    let mut report = ChangeReport::new(&summary, start, "rules are in place");
    report.before = warned(session.preceding_rules_if_known());
    Ok(report.logged())
}

pub(super) fn warned(texts: Vec<String>) -> Vec<String> {
    texts.iter().for_each(|text| tracing::warn!(target: "iptables", "{text}"));
    texts
}

pub(super) fn remove(run: &Run, owner: Ownership) -> Result<ChangeReport, Box<dyn error::Error>> {
    let start = Instant::now();
    let mut session = run.session(owner)?;
    let mut summary = session.clean()?;
    let left = mem::take(&mut summary.left);
    let done = match (left.is_empty(), summary.steps.is_empty()) {
        (true, true) => "no rules of this program were found",
        (true, false) => "no rules of this program remain",
        (false, _) => "sidecar-init's rules are removed",
    };
    let removed_trace = session.kernel.remove_leftover_trace().map_err(|source| {
        let left =
            left.iter().map(|text| format!("\n  kept, because another program may have made it: {text}"));
        let what = "the table of an interrupted trace can't be removed";
        Because::of(format!("{done}, but {what}{}", left.collect::<String>()), source)
    })?;
    if removed_trace {
        tracing::info!(target: "iptables", "removed the table of an interrupted trace");
    }
    let predecessors = engine::predecessors(&owner);
    let report = ChangeReport::new(&summary, start, done);
    let changed = report.changed || removed_trace;
    Ok(ChangeReport { left, predecessors, changed, ..report }.logged())
}

pub(super) fn preview_removal(run: &Run, owner: Ownership) -> RunResult {
    let ApplyPlan { before, steps, .. } = run.session(owner)?.plan_clean()?;
    let mut text: String = steps.iter().map(|step| format!("# {step}\n{}", step.script())).collect();
    if steps.is_empty() {
        text.push_str("# no rules of this program exist\n");
    }
    for doubtful in engine::doubtful(&before, &owner) {
        text.push_str(&format!("# would be kept, because another program may have made it: {doubtful}\n"));
    }
    report::text(&text)
}

/// Effects of a change, for the log and for programs.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ChangeReport {
    #[serde(skip)]
    done: &'static str,
    /// The backend that holds our rules; null without rules.
    backend: Option<String>,
    /// The families that are captured: ipv4, ipv6.
    families: Vec<&'static str>,
    /// The number of our rules now.
    rule_count: usize,
    /// True if the run changed anything.
    changed: bool,
    /// The changes, in order.
    steps: Vec<String>,
    /// The number of flows deleted from conntrack, so that they meet the rules.
    forgotten_flows: usize,
    /// Foreign rules that decide before ours.
    before: Vec<String>,
    /// Rules of unknown owners, which were kept.
    left: Vec<String>,
    /// The meshes (values of `--mesh`) whose rules `clean` removed or `apply --replace` replaced.
    removed: Vec<&'static str>,
    /// The meshes' names, for people.
    #[serde(skip)]
    owners: Vec<&'static str>,
    /// The possible owners of `left`.
    #[serde(skip)]
    predecessors: String,
    /// The duration.
    milliseconds: f64,
}

impl ChangeReport {
    fn new(summary: &Summary, start: Instant, done: &'static str) -> Self {
        Self {
            done,
            backend: summary.backend.map(|backend| backend.to_string()),
            families: summary.families.iter().map(|family| family.word()).collect(),
            rule_count: summary.rules,
            changed: !summary.steps.is_empty(),
            steps: summary.steps.iter().map(ToString::to_string).collect(),
            forgotten_flows: summary.forgotten_flows,
            removed: summary.removed.iter().map(|one| one.mesh).collect(),
            owners: summary.removed.iter().map(|one| one.name).collect(),
            milliseconds: start.elapsed().as_secs_f64() * 1e3,
            ..Self::default()
        }
    }

    pub(super) fn exit(&self) -> RunResult {
        match self.left_behind() {
            Some(left) => Err(left.into()),
            None if self.before.is_empty() => Ok(Exit::Done),
            None => Ok(Exit::Drift),
        }
    }

    fn left_behind(&self) -> Option<String> {
        let left: String = self.left.iter().map(|doubtful| format!("\n  {doubtful}")).collect();
        let text = format!(
            "sidecar-init's rules are removed; rules that {} or another program may have made are kept; \
             remove them by hand if they are not needed:{left}",
            self.predecessors
        );
        (!left.is_empty()).then_some(text)
    }

    fn sentence(&self) -> Option<String> {
        if !self.left.is_empty() {
            return None;
        }
        let names: Vec<&str> =
            self.families.iter().map(|one| if *one == "ipv4" { "IPv4" } else { "IPv6" }).collect();
        let (count, families) = (self.rule_count, names.join(" and "));
        let rules = if count == 1 { "rule" } else { "rules" };
        Some(match (&self.backend, self.changed) {
            (Some(backend), true) => {
                let milliseconds = self.milliseconds;
                format!("Applied {count} {rules} with {backend} for {families} in {milliseconds:.1} ms.")
            }
            (Some(backend), false) => {
                format!("Nothing to change: {count} {rules} in place with {backend} for {families}.")
            }
            (None, true) if self.owners.is_empty() => "Removed the remains of earlier rules.".to_owned(),
            (None, true) => format!("Removed the rules of {}.", self.owners.join(" and ")),
            (None, false) => "Nothing to remove.".to_owned(),
        })
    }

    fn logged(self) -> Self {
        if logging::is_plain() {
            self.sentence().iter().for_each(|text| logging::sentence(text));
            return self;
        }
        let (done, changed) = (self.done, self.changed);
        let milliseconds = (self.milliseconds * 1e3).round() / 1e3;
        match &self.backend {
            Some(backend) => tracing::info!(
                target: "iptables",
                backend,
                families = self.families.join(","),
                rules = self.rule_count,
                changed,
                milliseconds,
                "{done}"
            ),
            // Without rules the other fields would be empty.
            None => tracing::info!(target: "iptables", changed, milliseconds, "{done}"),
        }
        self
    }
}

/// Exit code of a drop-in whose original has only 0 and 1. Other programs' rules before ours are not failures.
pub(super) fn exit_of_two(exit: Exit) -> Exit {
    match exit {
        Exit::Done | Exit::Drift => Exit::Done,
        Exit::Failed | Exit::BadInput | Exit::ValidationFailed => Exit::Failed,
    }
}

/// Warning of a drop-in, which sets rules even in the machine's own namespace.
pub(super) fn host_warning() -> Option<&'static str> {
    match namespace::is_host() {
        Some(false) => None,
        Some(true) => Some("this is the machine's own network namespace"),
        None => Some("this may be the machine's own network namespace: mount /proc to check it"),
    }
}

pub(super) fn drop_in(call: &ResolvedCall) -> RunResult {
    let ResolvedCall { capture, run, .. } = call;
    if matches!(run.mode, RunMode::Apply | RunMode::Clean) {
        host_warning().iter().for_each(|text| tracing::warn!(target: "iptables", "{text}"));
    }
    let done = match run.mode {
        RunMode::Preview(form) => return render::preview(&**capture, form),
        RunMode::PreviewClean => return preview_removal(run, run.mesh.ownership()),
        RunMode::Clean => return remove(run, run.mesh.ownership())?.exit(),
        RunMode::Apply => {
            // Without `--reconcile`, differing rules are an error.
            let on_drift = if run.reconcile { OnDrift::Replace } else { OnDrift::Refuse };
            let run = Run { backend: run.backend.preferring(Preference::Iptables), ..run.clone() };
            let done = set(&run, "istio-iptables", capture, on_drift);
            let done = done.map_err(|error| match error.downcast() {
                Ok(refusal) => match *refusal {
                    EngineError::Drift(compared) => diff::refused(&run, capture, compared).into(),
                    other => other.into(),
                },
                Err(other) => other,
            });
            done?.exit()?
        }
        RunMode::Nothing => Exit::Done,
    };
    if done == Exit::Done { verify::validated(call) } else { Ok(done) }
}
