//! The operations: plan, apply, check, clean.

use super::commit::{CommitFailure, commit};
use super::compare::{DesiredState, LiveComparison, compare};
use super::{finding::blocking, provenance::doubtful, session::Choice, steps::steps};
use crate::backend::nftables::BlockedTable;
use crate::backend::{
    self, Backend, BackendName, CommitStep, Snapshot, UnlistableTable, Variant, of_iptables,
};
use rules::{Family, Ownership, Table, desired::Desired};

/// How often a change is planned again when another program changes the rules at the same time.
const MAX_ATTEMPTS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub choice: Choice,
    pub on_drift: OnDrift,
    /// Sets all rules again, also those that are in place (`--force`).
    pub force: bool,
    /// Ownerships of other programs that capture traffic. Where one of them captures, nothing is set, unless the owner's
    /// ownership includes it. The owner itself may be among them.
    pub known_owners: &'static [Ownership],
}

impl Options {
    /// Replaces rules of the owner that differ, and keeps those that are in place.
    pub fn replacing(choice: Choice, known_owners: &'static [Ownership]) -> Self {
        Self { choice, on_drift: OnDrift::Replace, force: false, known_owners }
    }
}

/// Treatment of rules of the owner that differ from the desired ones. An incomplete state, which a killed run leaves, is
/// completed either way.
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
        "tables of iptables are there and its programs are not on PATH to read them, which may contain rules of this program; \
         install iptables and run this again"
    )]
    Unreadable,
    #[error(
        "{} can't show its table {} of {family} ({}), so rules can't be set or compared there; use --backend nftables, or \
         remove what it does not understand: nft list table {}",
        .unlistable.program, .table.name(), .unlistable.why, of_iptables(*.family, *.table)
    )]
    Unlistable { family: Family, table: Table, unlistable: Box<UnlistableTable> },
    /// The rules are not as desired, and replacing them is not allowed.
    #[error("rules of this program are there and differ; run with --reconcile to replace them")]
    Drift(Box<LiveComparison>),
    /// Other owners capture in this namespace, each with its evidence, and the change is for another one.
    #[error("{}", captured(.by, .requested))]
    Captured { by: Vec<(Ownership, String)>, requested: &'static str },
    /// Tables of nf_tables are dormant or owned by a socket, so a change would fail or have no effect.
    #[error("{}", obstacles(.0))]
    BlockedTables(Vec<BlockedTable>),
    #[error(transparent)]
    Failed(#[from] Box<CommitFailure>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyPlan {
    pub before: Snapshot,
    pub target: DesiredState,
    /// Empty if everything is in place.
    pub steps: Vec<CommitStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The backend that has the rules now; `None` where none are desired.
    pub backend: Option<BackendName>,
    pub families: Vec<Family>,
    /// Rules of the owner that are there now.
    pub rules: usize,
    /// Empty if everything was in place.
    pub steps: Vec<CommitStep>,
    /// Flows that conntrack has forgotten, because they were older than the rules and would have passed them by.
    pub forgotten_flows: usize,
    /// Objects that cleaning has left because they may belong to another program.
    pub left: Vec<String>,
    /// Owners that captured before and capture no more: replaced by the owner's rules, or removed by cleaning.
    pub removed: Vec<Ownership>,
}

/// Plans the way to the desired state. Changes nothing.
///
/// # Errors
/// When the namespace can't be read, or has rules that differ and may not be replaced.
pub fn plan(
    backend: &mut dyn Backend,
    desired: &Desired,
    options: &Options,
) -> Result<ApplyPlan, EngineError> {
    let before = readable(backend)?;
    let others: Vec<_> = before.others(&desired.owner, options.known_owners).collect();
    if !others.is_empty() {
        return Err(EngineError::Captured { by: others, requested: desired.owner.name });
    }
    let name = options.choice.backend(backend, &before, &desired.owner);
    let target = DesiredState::of(desired, name, &before);
    require_listable(&before, &target, |_| false)?;
    let steps = require_effective(&before, &target, steps(&before, &target, options.force))?;
    // Where nothing is installed, everything is missing as a whole: unfinished, so there is nothing to refuse.
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
///
/// # Errors
/// As [`plan()`], or when a step fails; the error says in which state the namespace is.
pub fn apply(
    backend: &mut dyn Backend,
    desired: &Desired,
    options: &Options,
) -> Result<Summary, EngineError> {
    let ApplyPlan { before, target, steps } =
        plan_and_commit(backend, |backend| plan(backend, desired, options))?;
    let forgotten_flows = match &desired.stale_flows {
        // The rules are installed; failing to forget a flow is not a reason to roll them back.
        Some(stale) => backend.forget_flows(stale).unwrap_or_else(|error| {
            tracing::warn!(target: "conntrack", %error, "flows from before the rules may pass them by");
            0
        }),
        None => 0,
    };
    Ok(Summary {
        backend: target.contents.as_ref().map(|contents| contents.backend()),
        families: desired.families().collect(),
        rules: target.contents.as_ref().map_or(0, |contents| contents.count_of(&target.owner)),
        steps,
        forgotten_flows,
        left: Vec::new(),
        // `--replace` joins the ownerships of other meshes to the owner's.
        removed: before
            .others(&desired.owner.alone(), desired.owner.joined)
            .map(|(other, _)| other)
            .collect(),
    })
}

/// Plans the removal of all that is the owner's. Changes nothing. `known_owners` may capture here: what other
/// owners have is logged and kept.
pub fn plan_clean(
    backend: &mut dyn Backend,
    owner: Ownership,
    known_owners: &'static [Ownership],
) -> Result<ApplyPlan, EngineError> {
    let (before, target) = (readable(backend)?, DesiredState::nothing(owner));
    for (other, evidence) in before.others(&owner, known_owners) {
        tracing::info!(target: "backend", "{} captures here ({evidence}), which stays", other.name);
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

/// Removes all that is the owner's, whatever options made it, and all that is surely its predecessor's. Idempotent. `known_owners` as
/// for [`plan_clean`].
///
/// # Errors
/// When the namespace can't be read in full, or when a step fails; the error says in which state it is.
pub fn clean(
    backend: &mut dyn Backend,
    owner: Ownership,
    known_owners: &'static [Ownership],
) -> Result<Summary, EngineError> {
    let ApplyPlan { before, steps, .. } =
        plan_and_commit(backend, |backend| plan_clean(backend, owner, known_owners))?;
    // No step touches what is doubtful.
    let left = doubtful(&before, &owner);
    let removed = owner.each().filter(|one| before.evidence_of(one).is_some()).collect();
    Ok(Summary { backend: None, families: Vec::new(), rules: 0, steps, forgotten_flows: 0, left, removed })
}

/// Compares a namespace with the desired state. Changes nothing.
pub fn check(
    backend: &mut dyn Backend,
    desired: &Desired,
    choice: Choice,
) -> Result<LiveComparison, EngineError> {
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
) -> Result<Vec<CommitStep>, EngineError> {
    match blocking(before, target, &steps) {
        tables if tables.is_empty() => Ok(steps),
        tables => Err(EngineError::BlockedTables(tables)),
    }
}

/// The complete snapshot: a table that can't be read is not absent.
fn readable(backend: &mut dyn Backend) -> Result<Snapshot, EngineError> {
    let snapshot = backend.read()?;
    if snapshot.unreadable.is_empty() { Ok(snapshot) } else { Err(EngineError::Unreadable) }
}

/// Fails if an unlistable table is one in which rules are desired, or `is_relevant`.
fn require_listable(
    live: &Snapshot,
    target: &DesiredState,
    is_relevant: impl Fn(&UnlistableTable) -> bool,
) -> Result<(), EngineError> {
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
    mut plan: impl FnMut(&mut dyn Backend) -> Result<ApplyPlan, EngineError>,
) -> Result<ApplyPlan, EngineError> {
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
        "{who} {verb} here already, and {requested} was requested: both would capture the same connections. Remove what is there \
         with {commands}, or exchange it in one step with sidecar-init apply --replace; to keep it from coming back: \
         {opt_outs}"
    )
}
