//! The writes that a namespace needs, in an order that loses no request. Unmanaged objects ([`Existing::is_ours`] is false) stay,
//! and their Services get no routes. All managed objects of a kind have the same fields: a server-side apply removes only fields
//! set by an earlier apply, and an object's first write is a create.

use crate::existing::{DESTINATION_RULE, ENVOY_FILTER, Existing, KINDS, VIRTUAL_SERVICE, owners};
use crate::resource::VirtualEnvironment;
use crate::routes::{Plan, RouteDisposition};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq)]
pub enum ChangeStep {
    /// Creation; fails if the object exists by now, since it is foreign.
    Create(Value),
    /// Server-side apply to the managed object with this uid; `version` is `None` after an earlier write.
    Apply { object: Value, uid: String, version: Option<String> },
    /// Replacement of owners at this version: an object can have only one controller.
    Adopt { there: Existing, owners: Vec<Value> },
    /// Deletion, if the uid and version are unchanged.
    Delete(Existing),
}

impl ChangeStep {
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Apply { .. } => "apply",
            Self::Adopt { .. } => "adopt",
            Self::Delete(_) => "delete",
        }
    }

    pub fn about(&self) -> (&str, &str) {
        match self {
            Self::Create(object) | Self::Apply { object, .. } => {
                let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
                (text("/kind"), text("/metadata/name"))
            }
            Self::Adopt { there, .. } | Self::Delete(there) => (there.kind(), there.name()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub steps: Vec<ChangeStep>,
    /// Messages about foreign objects that prevent routes or a filter.
    pub foreign: Vec<String>,
    pub left_out: usize,
}

/// Writes that turn `existing` into the plan of the first, active VirtualEnvironment. All VirtualEnvironments own the objects.
pub fn changes(ranked: &[&VirtualEnvironment], plan: &Plan, existing: &[&Existing]) -> Changes {
    let mut changes = Changes::default();
    let Some(environment) = ranked.first() else { return changes };
    let owners = owners(ranked);
    let mut kept: BTreeSet<(&str, &str)> = BTreeSet::new();
    let find = |kind: &str, name: &str| existing.iter().copied().find(|there| there.is(kind, name));
    let kinds = [VIRTUAL_SERVICE, DESTINATION_RULE];
    for service in &plan.services {
        let name = &*service.name;
        let there = kinds.map(|kind| find(kind, name));
        match &service.disposition {
            RouteDisposition::Unrouted(_) => continue,
            RouteDisposition::Refused(_) => {
                changes.steps.extend(there.into_iter().flatten().filter_map(|one| adoption(one, &owners)));
            }
            RouteDisposition::Routed { virtual_service, destination_rule } => {
                let foreign = there.iter().flatten().filter(|one| !one.is_ours()).map(|one| one.kind());
                let foreign: Vec<&str> = foreign.collect();
                if !foreign.is_empty() {
                    changes.left_out += 1;
                    let whose = foreign.join(" and ");
                    let namespace = &environment.namespace;
                    changes.foreign.push(format!(
                        "Service {namespace}/{name}: another {whose} is kept, so the Service \
                         gets no routes; delete that {whose} to get routes"
                    ));
                    continue;
                }
                let [route, rule] = there;
                route_steps(&mut changes.steps, &owners, (route, virtual_service), (rule, destination_rule));
            }
        }
        kept.extend(kinds.map(|kind| (kind, name)));
    }
    if let Some(filter) = &plan.filter {
        let name = &*environment.name;
        let there = find(ENVOY_FILTER, name);
        if there.is_none_or(Existing::is_ours) {
            kept.insert((ENVOY_FILTER, name));
            write(&mut changes.steps, &owners, there, filter);
        } else {
            changes.foreign.push(format!(
                "{ENVOY_FILTER} {}/{name}: another program's filter is kept, so no header is added; rename the filter or the VirtualEnvironment",
                environment.namespace
            ));
        }
    }
    let is_gone = |there: &Existing| there.is_ours() && !kept.contains(&(there.kind(), there.name()));
    changes.steps.extend(deletions(existing, is_gone));
    changes
}

/// The writes if no plan is possible: objects stay, owned by all VirtualEnvironments of the namespace.
pub fn adoptions(ranked: &[&VirtualEnvironment], existing: &[&Existing]) -> Changes {
    let owners = owners(ranked);
    let steps = existing.iter().filter_map(|there| adoption(there, &owners)).collect();
    Changes { steps, ..Changes::default() }
}

/// Deletions of managed objects whose VirtualEnvironments are all missing from `uids`; orphans of `--cascade=orphan` stay.
pub fn orphans(existing: &[&Existing], uids: &BTreeSet<&str>) -> Vec<ChangeStep> {
    deletions(existing, |there| there.is_orphan_without(uids))
}

/// Deletes routes before the subsets of their destinations.
fn deletions(existing: &[&Existing], is_gone: impl Fn(&Existing) -> bool) -> Vec<ChangeStep> {
    let of = |kind| existing.iter().filter(move |there| there.kind() == kind);
    let gone = KINDS.into_iter().flat_map(of).filter(|there| is_gone(there) && !there.is_going());
    gone.map(|there| ChangeStep::Delete((*there).clone())).collect()
}

/// Routes may lead only to existing subsets: new subsets are written first, and old ones removed last.
fn route_steps(
    steps: &mut Vec<ChangeStep>,
    owners: &[Value],
    (route, wanted_route): (Option<&Existing>, &Value),
    (rule, wanted_rule): (Option<&Existing>, &Value),
) {
    let listed = |object: &Value| {
        object.pointer("/spec/subsets").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let old = rule.map(|rule| listed(rule.object())).unwrap_or_default();
    let new = listed(wanted_rule);
    let is_named = |list: &[Value], subset: &Value| list.iter().any(|there| there["name"] == subset["name"]);
    let leaving: Vec<Value> = old.iter().filter(|subset| !is_named(&new, subset)).cloned().collect();
    if leaving.is_empty() || route.is_none() {
        write(steps, owners, rule, wanted_rule);
        write(steps, owners, route, wanted_route);
        return;
    }
    if new.iter().all(|subset| old.contains(subset)) {
        write(steps, owners, route, wanted_route);
        write(steps, owners, rule, wanted_rule);
        return;
    }
    let mut both = wanted_rule.clone();
    both["spec"]["subsets"] = new.iter().chain(&leaving).cloned().collect();
    write(steps, owners, rule, &both);
    write(steps, owners, route, wanted_route);
    steps.extend(rule.map(|rule| ChangeStep::Apply {
        object: owned(wanted_rule, owners),
        uid: rule.uid().to_owned(),
        version: None,
    }));
}

fn owned(target: &Value, owners: &[Value]) -> Value {
    let mut target = target.clone();
    if !owners.is_empty() {
        target["metadata"]["ownerReferences"] = json!(owners);
    }
    target
}

fn write(steps: &mut Vec<ChangeStep>, owners: &[Value], there: Option<&Existing>, target: &Value) {
    let target = owned(target, owners);
    let Some(there) = there else {
        steps.push(ChangeStep::Create(target));
        return;
    };
    let adoption = adoption(there, owners);
    let version = adoption.is_none().then(|| there.version().to_owned());
    steps.extend(adoption);
    if !there.has(&target) {
        steps.push(ChangeStep::Apply { object: target, uid: there.uid().to_owned(), version });
    }
}

fn adoption(there: &Existing, owners: &[Value]) -> Option<ChangeStep> {
    let owners = there.owners_to_be(owners).filter(|_| there.is_ours() && !there.is_going())?;
    Some(ChangeStep::Adopt { there: there.clone(), owners })
}
