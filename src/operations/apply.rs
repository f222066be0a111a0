//! Bring a namespace to the wanted state, or leave it in the old one.
//!
//! iptables commits table by table, so one call can fail with half of its tables changed. Steps are
//! therefore ordered so that every state between them captures at least what both ends capture, and a
//! failure is followed by the way back, worked out from what is really there.

use crate::backend::{Backend, Error, Snapshot, Step, Variant, nftables};
use rules::{Family, Ownership, State, TableChange, plan, routing::Object};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What a namespace should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose rules and routing they are.
    pub owner: Ownership,
    /// The tables of each family, as they stand in an empty namespace.
    pub tables: BTreeMap<Family, State>,
    /// Policy rules, routes, addresses.
    pub routes: BTreeSet<Object>,
    /// Our own table of nf_tables. Where there is one, `tables` are empty.
    pub native: Option<nftables::bytecode::Table>,
}

impl Wanted {
    /// Nothing of the owner's.
    pub fn nothing(owner: Ownership) -> Self {
        Self { owner, tables: BTreeMap::new(), routes: BTreeSet::new(), native: None }
    }
}

/// What it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The steps; none if everything was in place.
    pub steps: Vec<Step>,
}

/// Why a namespace is not in the wanted state, and in which it is.
#[derive(Debug, thiserror::Error)]
#[error("{step} failed; {aftermath}")]
pub struct Failure {
    /// The step.
    pub step: String,
    /// What came after.
    pub aftermath: Aftermath,
    /// Why it failed.
    pub source: Error,
}

/// The state that a failed change leaves.
#[derive(Debug)]
pub enum Aftermath {
    /// The old state.
    RolledBack,
    /// Neither the old nor the new one: these steps back failed as well.
    Left {
        /// What could not be taken back, with the reason.
        steps: Vec<(Step, Error)>,
    },
    /// It can't even be read.
    Unknown(Error),
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack => f.write_str("the old state is back in place"),
            Self::Left { steps } => {
                f.write_str("it could not be taken back in full, so run this again or clean; left undone:")?;
                steps.iter().try_for_each(|(step, error)| write!(f, "\n  {step}: {error}"))
            }
            Self::Unknown(error) => write!(f, "whether the old state is back can't be read: {error}"),
        }
    }
}

/// Which variant of iptables to use: the one that is forced, else the one that holds rules of ours, else
/// legacy if it is in use already, else nft if its programs are there.
pub fn choose(
    snapshot: &Snapshot,
    owner: &Ownership,
    forced: Option<Variant>,
    nft_is_there: impl Fn() -> bool,
) -> Variant {
    match forced.or_else(|| snapshot.variants_in_use(owner).next()) {
        Some(variant) => variant,
        None if snapshot.legacy_in_use || !nft_is_there() => Variant::Legacy,
        None => Variant::Nft,
    }
}

/// Brings a namespace from the state `before` to the wanted one. `anew` makes everything again, be it in
/// place or not. Idempotent: a second call finds nothing to do.
///
/// # Errors
/// When a step fails; the error says in which state the namespace is.
pub fn apply(
    backend: &mut dyn Backend,
    before: &Snapshot,
    wanted: &Wanted,
    variant: Variant,
    anew: bool,
) -> Result<Applied, Box<Failure>> {
    let steps = steps(before, wanted, variant, anew);
    for step in &steps {
        if let Err(source) = backend.commit(step) {
            let aftermath = roll_back(backend, before, &steps, &wanted.owner);
            return Err(Box::new(Failure { step: step.to_string(), aftermath, source }));
        }
    }
    Ok(Applied { steps })
}

/// What has to be done, in order: first what rules rely on, then rules, then what nothing relies on any
/// more. Rules of ours in the other variant go once those of this one stand.
fn steps(before: &Snapshot, wanted: &Wanted, variant: Variant, anew: bool) -> Vec<Step> {
    let missing = wanted.routes.iter().filter(|object| !before.has(object));
    let mut steps: Vec<Step> = missing.copied().map(Step::Add).collect();
    let differs = !nftables::differences(before.native.as_ref(), wanted.native.as_ref()).is_empty();
    let native = (differs || (anew && wanted.native.is_some()))
        .then(|| Step::Native { live: before.native.clone(), wanted: wanted.native.clone() });
    // Whatever captures from now on stands before what captured until now goes.
    let (first, last) = if wanted.native.is_some() { (native, None) } else { (None, native) };
    steps.extend(first);
    let mut variants = Variant::ALL;
    variants.sort_by_key(|&other| other != variant);
    for variant_now in variants {
        for family in Family::BOTH {
            let live = before.state(variant_now, family);
            let target = wanted.tables.get(&family).filter(|_| variant_now == variant);
            let target = target.cloned().unwrap_or_default();
            let plan = if anew { plan::plan_anew } else { plan::plan };
            steps.extend(tables(variant_now, family, plan(&live, &target, &wanted.owner)));
        }
    }
    steps.extend(last);
    let leftover = before.routes.iter().rev().filter(|object| !wanted.routes.contains(object));
    steps.extend(leftover.chain(&before.duplicates).copied().map(Step::Remove));
    steps
}

fn tables(variant: Variant, family: Family, changes: Vec<TableChange>) -> Option<Step> {
    (!changes.is_empty()).then_some(Step::Tables { variant, family, changes })
}

fn roll_back(backend: &mut dyn Backend, before: &Snapshot, steps: &[Step], owner: &Ownership) -> Aftermath {
    let now = match backend.read() {
        Ok(now) => now,
        Err(error) => return Aftermath::Unknown(error),
    };
    let mut failed = Vec::new();
    for step in way_back(before, &now, steps, owner) {
        if let Err(error) = backend.commit(&step) {
            failed.push((step, error));
        }
    }
    match failed.is_empty() {
        true => Aftermath::RolledBack,
        false => Aftermath::Left { steps: failed },
    }
}

/// The steps from `now` back to `before`, given those that were attempted.
fn way_back(before: &Snapshot, now: &Snapshot, attempted: &[Step], owner: &Ownership) -> Vec<Step> {
    let mut back: Vec<Step> = before.routes.difference(&now.routes).copied().map(Step::Add).collect();
    for step in attempted.iter().rev() {
        match step {
            Step::Tables { variant, family, changes } => {
                let (old, new) = (before.state(*variant, *family), now.state(*variant, *family));
                let changes = plan::back(&old, &new, changes, owner);
                back.extend(tables(*variant, *family, changes));
            }
            Step::Native { .. } if now.native != before.native => {
                back.push(Step::Native { live: now.native.clone(), wanted: before.native.clone() });
            }
            Step::Native { .. } | Step::Add(_) | Step::Remove(_) => {}
        }
    }
    back.extend(now.routes.difference(&before.routes).copied().map(Step::Remove));
    back
}
