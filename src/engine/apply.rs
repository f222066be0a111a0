//! The operations: plan, apply, check, clean.

use super::compare::{DesiredState, LiveComparison, blocking, compare};
use super::steps::{steps, way_back};
use super::{provenance::doubtful, session::Choice};
use crate::backend::nftables::BlockedTable;
use crate::backend::{
    self, Backend, BackendName, CommitStep, Error, Snapshot, UnlistableTable, Variant, of_iptables,
};
use rules::{Family, Ownership, Table, desired::Desired};
use std::fmt;

pub type EngineResult<T> = Result<T, EngineError>;

const MAX_ATTEMPTS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub choice: Choice,
    pub on_drift: OnDrift,
    /// Sets all rules again, including rules in place (`--force`).
    pub force: bool,
    /// Owners whose capture prevents setting rules, unless the owner's ownership includes them.
    pub known_owners: &'static [Ownership],
}

impl Options {
    /// Replaces the owner's differing rules, and keeps its equal rules.
    pub fn replacing(choice: Choice, known_owners: &'static [Ownership]) -> Self {
        Self { choice, on_drift: OnDrift::Replace, force: false, known_owners }
    }
}

/// Treatment of the owner's differing rules. An incomplete state, left by a killed run, is completed either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDrift {
    Replace,
    Refuse,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error(
        "cannot read iptables tables, which may contain rules of this program: iptables is not on PATH; \
         install it and run this again"
    )]
    Unreadable,
    #[error(
        "{} can't show its table {} of {family} ({}), so rules can't be set or compared there; use --backend \
         nftables, or remove the rules that it does not understand: nft list table {}",
        .unlistable.program, .table.name(), .unlistable.why, of_iptables(*.family, *.table)
    )]
    Unlistable { family: Family, table: Table, unlistable: Box<UnlistableTable> },
    /// The rules are not as desired, and replacing them is not allowed.
    #[error("existing rules differ from the requested ones; --reconcile replaces them")]
    Drift(Box<LiveComparison>),
    /// Other owners capture in this namespace, each with its evidence.
    #[error("{}", captured(.by, .requested))]
    Captured { by: Vec<(Ownership, String)>, requested: &'static str },
    /// nf_tables tables are dormant or owned by a socket, so a change would fail or have no effect.
    #[error("{}", obstacles(.0))]
    BlockedTables(Vec<BlockedTable>),
    #[error(transparent)]
    Failed(#[from] Box<CommitFailure>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyPlan {
    pub before: Snapshot,
    pub target: DesiredState,
    pub steps: Vec<CommitStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Backend that has the rules now; `None` if none are desired.
    pub backend: Option<BackendName>,
    pub families: Vec<Family>,
    pub rules: usize,
    pub steps: Vec<CommitStep>,
    /// Number of conntrack flows deleted because they were older than the rules and would have bypassed them.
    pub forgotten_flows: usize,
    /// Objects that cleaning has kept because they may belong to another program.
    pub left: Vec<String>,
    /// Owners that captured before and no longer do: replaced by the owner's rules, or removed by cleaning.
    pub removed: Vec<Ownership>,
}

/// Plans the steps to the desired state. Changes nothing.
pub fn plan(backend: &mut dyn Backend, desired: &Desired, options: &Options) -> EngineResult<ApplyPlan> {
    let before = readable(backend)?;
    let others: Vec<_> = before.others(&desired.owner, options.known_owners).collect();
    if !others.is_empty() {
        return Err(EngineError::Captured { by: others, requested: desired.owner.name });
    }
    let name = options.choice.backend(backend, &before, &desired.owner);
    let target = DesiredState::of(desired, name, &before);
    require_listable(&before, &target, |_| false)?;
    let steps = require_effective(&before, &target, steps(&before, &target, options.force))?;
    // Without existing rules, the state is unfinished, not drift.
    if options.on_drift == OnDrift::Refuse && !options.force && !before.is_bare() {
        let differences = compare(&before, &target);
        if !differences.is_empty() && !differences.unfinished {
            let compared = LiveComparison { backend: name, differences, live: before };
            return Err(EngineError::Drift(Box::new(compared)));
        }
    }
    Ok(ApplyPlan { before, target, steps })
}

/// Brings a namespace to the desired state, or leaves it in the old one. Idempotent: a second call finds nothing to do.
pub fn apply(backend: &mut dyn Backend, desired: &Desired, options: &Options) -> EngineResult<Summary> {
    let ApplyPlan { before, target, steps } =
        plan_and_commit(backend, |backend| plan(backend, desired, options))?;
    let forgotten_flows = match &desired.stale_flows {
        // The rules are installed; failing to delete a flow is not a reason to roll them back.
        Some(stale) => backend.forget_flows(stale).unwrap_or_else(|error| {
            tracing::warn!(target: "conntrack", %error, "flows from before the rules may bypass them");
            0
        }),
        None => 0,
    };
    // `--replace` joins the ownerships of other meshes to the owner's.
    let owner = desired.owner.alone();
    let removed = before.others(&owner, desired.owner.joined);
    Ok(Summary {
        backend: target.contents.as_ref().map(|contents| contents.backend()),
        families: desired.families().collect(),
        rules: target.contents.as_ref().map_or(0, |contents| contents.count_of(&target.owner)),
        steps,
        forgotten_flows,
        left: Vec::new(),
        removed: removed.map(|(other, _)| other).collect(),
    })
}

/// Plans the removal of the owner's objects. Changes nothing. Objects of `known_owners` are logged and kept.
pub fn plan_clean(
    backend: &mut dyn Backend,
    owner: Ownership,
    known_owners: &'static [Ownership],
) -> EngineResult<ApplyPlan> {
    let (before, target) = (readable(backend)?, DesiredState::nothing(owner));
    for (other, evidence) in before.others(&owner, known_owners) {
        tracing::info!(target: "backend", "{} captures here ({evidence}), which is kept", other.name);
    }
    if !owner.joined.is_empty() {
        for one in owner.each() {
            if let Some(evidence) = before.evidence_of(&one) {
                tracing::info!(target: "backend", "removing the rules of {} ({evidence})", one.name);
            }
        }
    }
    let steps = require_effective(&before, &target, steps(&before, &target, false))?;
    Ok(ApplyPlan { before, target, steps })
}

/// Removes the owner's objects, whatever options made them, and objects that are certainly its predecessor's. Idempotent.
pub fn clean(
    backend: &mut dyn Backend,
    owner: Ownership,
    known: &'static [Ownership],
) -> EngineResult<Summary> {
    let ApplyPlan { before, steps, .. } =
        plan_and_commit(backend, |backend| plan_clean(backend, owner, known))?;
    let left = doubtful(&before, &owner);
    let removed = owner.each().filter(|one| before.evidence_of(one).is_some()).collect();
    Ok(Summary { backend: None, families: Vec::new(), rules: 0, steps, forgotten_flows: 0, left, removed })
}

pub fn check(backend: &mut dyn Backend, desired: &Desired, choice: Choice) -> EngineResult<LiveComparison> {
    let snapshot = readable(backend)?;
    let name = choice.backend(backend, &snapshot, &desired.owner);
    let target = DesiredState::of(desired, name, &snapshot);
    require_listable(&snapshot, &target, |unlistable| unlistable.holds_any_of(&target.owner))?;
    let differences = compare(&snapshot, &target);
    Ok(LiveComparison { backend: name, differences, live: snapshot })
}

fn require_effective(
    before: &Snapshot,
    target: &DesiredState,
    steps: Vec<CommitStep>,
) -> EngineResult<Vec<CommitStep>> {
    match blocking(before, target, &steps) {
        tables if tables.is_empty() => Ok(steps),
        tables => Err(EngineError::BlockedTables(tables)),
    }
}

/// Reads the snapshot; fails if tables are unreadable.
fn readable(backend: &mut dyn Backend) -> EngineResult<Snapshot> {
    let snapshot = backend.read()?;
    if snapshot.unreadable.is_empty() { Ok(snapshot) } else { Err(EngineError::Unreadable) }
}

/// Fails if an unlistable table `is_relevant`, or needs rules.
fn require_listable(
    live: &Snapshot,
    target: &DesiredState,
    is_relevant: impl Fn(&UnlistableTable) -> bool,
) -> EngineResult<()> {
    let nft = BackendName::Iptables(Variant::Nft);
    for (&(family, table), unlistable) in &live.unlistable {
        let is_target = target.iptables(nft, family).chains(table).next().is_some();
        if is_target || is_relevant(unlistable) {
            return Err(EngineError::Unlistable { family, table, unlistable: Box::new(unlistable.clone()) });
        }
    }
    Ok(())
}

fn plan_and_commit(
    backend: &mut dyn Backend,
    mut plan: impl FnMut(&mut dyn Backend) -> EngineResult<ApplyPlan>,
) -> EngineResult<ApplyPlan> {
    backend.hold()?;
    let mut attempts = MAX_ATTEMPTS;
    loop {
        let planned = plan(backend)?;
        attempts -= 1;
        match commit(backend, &planned.before, &planned.steps, &planned.target.owner) {
            Ok(()) => return Ok(planned),
            Err(failure) if attempts > 0 && failure.is_conflict() => {
                tracing::debug!(target: "backend", %failure, "another program changed rules; trying again");
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

fn obstacles(found: &[BlockedTable]) -> String {
    let texts: Vec<String> = found.iter().map(|one| format!("{one}; {}", one.remedy())).collect();
    format!("nothing was changed: {}", texts.join(". "))
}

fn captured(found: &[(Ownership, String)], requested: &str) -> String {
    let all = |word: fn(&(Ownership, String)) -> String, between: &str| {
        found.iter().map(word).collect::<Vec<_>>().join(between)
    };
    let verb = if found.len() == 1 { "captures" } else { "capture" };
    let who = all(|(other, evidence)| format!("{} ({evidence})", other.name), " and ");
    let commands = all(|(other, _)| format!("sidecar-init clean --mesh {}", other.mesh), ", ");
    let opt_outs = all(|(other, _)| other.opt_out.to_owned(), ", ");
    format!(
        "{who} {verb} here already, and {requested} was requested: both would capture the same connections. Remove it \
         with {commands}, or replace it in one step with sidecar-init apply --replace; to prevent its return: {opt_outs}"
    )
}

#[derive(Debug, thiserror::Error)]
#[error("{step} failed; {aftermath}")]
pub struct CommitFailure {
    pub step: String,
    pub aftermath: Aftermath,
    pub source: Error,
}

#[derive(Debug)]
pub enum Aftermath {
    RolledBack,
    /// The old state, except the owner's rules in these iptables (nft) tables, which no program can show.
    Lost {
        tables: Vec<(Family, Table)>,
    },
    /// Neither the old nor the new state: undoing these steps failed too, each for its reason.
    Left {
        steps: Vec<(CommitStep, Error)>,
    },
    Unknown(Error),
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack => f.write_str("rolled back"),
            Self::Lost { tables } => {
                let names = tables.iter().map(|(family, table)| format!("{family} {}", table.name()));
                let names: Vec<String> = names.collect();
                write!(
                    f,
                    "rolled back, except rules removed from tables that {} can't show ({}); run this again or clean",
                    Variant::Nft,
                    names.join(", ")
                )
            }
            Self::Left { steps } => {
                f.write_str("rollback failed; run this again or clean; not undone:")?;
                steps.iter().try_for_each(|(step, error)| write!(f, "\n  {step}: {error}"))
            }
            Self::Unknown(error) => write!(f, "the result of the rollback can't be read: {error}"),
        }
    }
}

impl CommitFailure {
    /// True if another program changed rules at the same time, and the change can be tried again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.aftermath, Aftermath::RolledBack | Aftermath::Lost { .. })
            && matches!(&self.source, Error::Conflict { .. })
    }
}

pub(super) fn commit(
    backend: &mut dyn Backend,
    before: &Snapshot,
    steps: &[CommitStep],
    owner: &Ownership,
) -> Result<(), Box<CommitFailure>> {
    for (index, step) in steps.iter().enumerate() {
        if let Some(next) = steps.get(index + 1) {
            backend.prepare(Some(next));
        }
        if let Err(source) = backend.commit(step) {
            let aftermath = roll_back(backend, before, &steps[..=index], owner);
            return Err(Box::new(CommitFailure { step: step.to_string(), aftermath, source }));
        }
    }
    Ok(())
}

fn roll_back(
    backend: &mut dyn Backend,
    before: &Snapshot,
    attempted: &[CommitStep],
    owner: &Ownership,
) -> Aftermath {
    backend.prepare(None);
    let now = match backend.read() {
        Ok(now) => now,
        Err(error) => return Aftermath::Unknown(error),
    };
    let mut failed = Vec::new();
    for step in way_back(before, &now, attempted, owner) {
        if let Err(error) = backend.commit(&step) {
            failed.push((step, error));
        }
    }
    let cleaned = attempted.iter().filter_map(|step| match step {
        CommitStep::CleanUnlistable(tables) => Some(tables),
        _ => None,
    });
    let is_kept = |place: &(Family, Table)| {
        now.unlistable.get(place).is_some_and(|unlistable| unlistable.holds_any_of(owner))
    };
    let tables: Vec<(Family, Table)> = cleaned.flatten().copied().filter(|place| !is_kept(place)).collect();
    match (failed.is_empty(), tables.is_empty()) {
        (true, true) => Aftermath::RolledBack,
        (true, false) => Aftermath::Lost { tables },
        (false, _) => Aftermath::Left { steps: failed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_is_retried_unless_steps_back_failed() {
        for (aftermath, is_tried_again) in [
            (Aftermath::RolledBack, true),
            (Aftermath::Lost { tables: vec![(Family::V4, Table::Filter)] }, true),
            (Aftermath::Left { steps: Vec::new() }, false),
        ] {
            let source = Error::Conflict { source: "too late".into() };
            let failure = CommitFailure { step: "a step".to_owned(), aftermath, source };
            assert_eq!(failure.is_conflict(), is_tried_again, "{failure}");
        }
    }
}
