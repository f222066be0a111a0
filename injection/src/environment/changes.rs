//! From what there is to what is to be: the writes that a namespace needs, in an order in which no request is lost.
//!
//! Ours is what a VirtualEnvironment controls. All else is the user's: it is neither changed nor deleted, and a Service for
//! which there is such an object gets no routes from us. What is as it should be is not written again.
//!
//! An object that is made has the same fields always, only their values change: a server-side apply takes away only what an
//! earlier one has set, and the first writing is none.

use super::routes::{DESTINATION_RULE, ENVOY_FILTER, Fate, Plan, VIRTUAL_SERVICE, owner};
use super::spec::{GROUP, KIND, VirtualEnvironment};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The kinds that we make.
pub const KINDS: [&str; 3] = [VIRTUAL_SERVICE, DESTINATION_RULE, ENVOY_FILTER];

/// An object of one of the kinds that we make, as far as it matters: of what is not ours, that it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Existing(Value);

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A creation, if there still is none: what came meanwhile is somebody else's.
    Create(Value),
    /// Server-side apply over what is ours, if it is still this object, in this version where one is named: none is for what
    /// an earlier step has written.
    Apply { object: Value, uid: String, version: Option<String> },
    /// The owners of an object are exchanged, if it still has this version: another VirtualEnvironment controls it, and an
    /// object can have one controller only.
    Adopt { kind: String, name: String, version: String, owners: Value },
    /// A deletion, if it is still this object in this version.
    Delete { kind: String, name: String, uid: String, version: String },
}

impl Step {
    /// The kind and the name of what it is about.
    pub fn about(&self) -> (&str, &str) {
        match self {
            Self::Create(object) | Self::Apply { object, .. } => {
                let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
                (text("/kind"), text("/metadata/name"))
            }
            Self::Adopt { kind, name, .. } | Self::Delete { kind, name, .. } => (kind, name),
        }
    }
}

/// What is to be written, and what stands in the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub steps: Vec<Step>,
    /// What is the user's own and keeps us from a Service, in words.
    pub foreign: Vec<String>,
}

impl Existing {
    /// Understands an object; `None` if it is none of the kinds that we make.
    pub fn of(mut object: Value) -> Option<Self> {
        let is_istio =
            object["apiVersion"].as_str().is_some_and(|version| version.starts_with("networking.istio.io/"));
        let is_known = KINDS.iter().any(|kind| object["kind"] == **kind);
        if !(is_istio && is_known) {
            return None;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.remove("annotations");
        }
        let mut existing = Self(object);
        if existing.controller().is_none() {
            existing.0["spec"].take();
        }
        Some(existing)
    }

    fn text(&self, at: &str) -> &str {
        self.0.pointer(at).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The UID of the VirtualEnvironment that controls it; `None` if it is not ours.
    pub fn controller(&self) -> Option<&str> {
        let owners = self.0.pointer("/metadata/ownerReferences")?.as_array()?;
        let group = format!("{GROUP}/");
        let is_one = |owner: &&Value| {
            owner["controller"] == true
                && owner["kind"] == KIND
                && owner["apiVersion"].as_str().is_some_and(|version| version.starts_with(&group))
        };
        owners.iter().find(is_one).and_then(|owner| owner["uid"].as_str())
    }

    /// Whether it says the same, in whichever version.
    pub fn says_as(&self, other: &Self) -> bool {
        let parts = [
            "/spec",
            "/metadata/labels",
            "/metadata/ownerReferences",
            "/metadata/uid",
            "/metadata/deletionTimestamp",
        ];
        parts.iter().all(|at| self.0.pointer(at) == other.0.pointer(at))
    }

    fn is(&self, kind: &str, name: &str) -> bool {
        self.kind() == kind && self.name() == name
    }

    fn is_going(&self) -> bool {
        self.0.pointer("/metadata/deletionTimestamp").is_some()
    }

    fn uid(&self) -> String {
        self.text("/metadata/uid").to_owned()
    }

    fn version(&self) -> String {
        self.text("/metadata/resourceVersion").to_owned()
    }

    fn deletion(&self) -> Step {
        Step::Delete {
            kind: self.kind().to_owned(),
            name: self.name().to_owned(),
            uid: self.uid(),
            version: self.version(),
        }
    }

    /// Whether it has all that is wanted of it. More labels, or more at the top of its spec, are somebody else's.
    fn has(&self, wanted: &Value) -> bool {
        let within = |at: &str| match (self.0.pointer(at), wanted.pointer(at)) {
            (Some(Value::Object(there)), Some(Value::Object(wanted))) => {
                wanted.iter().all(|(key, value)| there.get(key).is_some_and(|there| is_equal(there, value)))
            }
            (_, None) => true,
            (Some(there), Some(wanted)) => is_equal(there, wanted),
            (None, Some(_)) => false,
        };
        within("/metadata/labels") && within("/spec")
    }
}

/// The writes that lead from what there is in a VirtualEnvironment's namespace to its plan.
pub fn changes(environment: &VirtualEnvironment, plan: &Plan, existing: &[Existing]) -> Changes {
    let mut changes = Changes::default();
    let mut kept: BTreeSet<(&str, &str)> = BTreeSet::new();
    let find = |kind: &str, name: &str| existing.iter().find(|there| there.is(kind, name));
    let is_foreign =
        |kind: &str, name: &str| find(kind, name).is_some_and(|there| there.controller().is_none());
    for service in &plan.services {
        let name = &*service.name;
        match &service.fate {
            Fate::Unrouted(_) => {}
            Fate::Refused(_) => kept.extend([(VIRTUAL_SERVICE, name), (DESTINATION_RULE, name)]),
            Fate::Routed { virtual_service, destination_rule } => {
                let kinds = [VIRTUAL_SERVICE, DESTINATION_RULE];
                let foreign: Vec<&str> = kinds.into_iter().filter(|kind| is_foreign(kind, name)).collect();
                if !foreign.is_empty() {
                    let whose = foreign.join(" and ");
                    let namespace = &environment.namespace;
                    changes.foreign.push(format!(
                        "Service {namespace}/{name}: it has a {whose} of its own, which is left alone, so it gets no routes; \
                         delete that for routes from here"
                    ));
                    continue;
                }
                kept.extend([(VIRTUAL_SERVICE, name), (DESTINATION_RULE, name)]);
                let [route, rule] = [find(VIRTUAL_SERVICE, name), find(DESTINATION_RULE, name)];
                route_steps(&mut changes, environment, (route, virtual_service), (rule, destination_rule));
            }
        }
    }
    if let Some(filter) = &plan.filter {
        let name = &*environment.name;
        if is_foreign(ENVOY_FILTER, name) {
            changes.foreign.push(format!(
                "{ENVOY_FILTER} {}/{name}: it is not ours and is left alone, so no header is added; rename one of the two",
                environment.namespace
            ));
        } else {
            kept.insert((ENVOY_FILTER, name));
            write(&mut changes.steps, environment, find(ENVOY_FILTER, name), filter);
        }
    }
    // Routes go before the subsets that they lead to.
    for kind in KINDS {
        let gone = existing.iter().filter(|there| there.kind() == kind && there.controller().is_some());
        let gone = gone.filter(|there| !kept.contains(&(there.kind(), there.name())) && !there.is_going());
        changes.steps.extend(gone.map(Existing::deletion));
    }
    changes
}

/// What is ours but whose VirtualEnvironment is gone. `uids` are those of all that there are in the namespace.
pub fn orphans(existing: &[Existing], uids: &BTreeSet<&str>) -> Vec<Step> {
    let is_orphan =
        |there: &&Existing| there.controller().is_some_and(|uid| !uids.contains(uid)) && !there.is_going();
    let of = |kind: &'static str| existing.iter().filter(move |there| there.kind() == kind).filter(is_orphan);
    KINDS.into_iter().flat_map(of).map(Existing::deletion).collect()
}

/// A route may lead only to a subset that there is: new subsets come before the routes, old ones go after them.
fn route_steps(
    changes: &mut Changes,
    environment: &VirtualEnvironment,
    (route, wanted_route): (Option<&Existing>, &Value),
    (rule, wanted_rule): (Option<&Existing>, &Value),
) {
    let steps = &mut changes.steps;
    let listed = |object: &Value| {
        object.pointer("/spec/subsets").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (old, new) = (rule.map(|rule| listed(&rule.0)).unwrap_or_default(), listed(wanted_rule));
    let is_named = |list: &[Value], subset: &Value| list.iter().any(|there| there["name"] == subset["name"]);
    let leaving: Vec<Value> = old.iter().filter(|subset| !is_named(&new, subset)).cloned().collect();
    if leaving.is_empty() || route.is_none() {
        write(steps, environment, rule, wanted_rule);
        write(steps, environment, route, wanted_route);
        return;
    }
    if new.iter().all(|subset| old.contains(subset)) {
        write(steps, environment, route, wanted_route);
        write(steps, environment, rule, wanted_rule);
        return;
    }
    let mut both = wanted_rule.clone();
    both["spec"]["subsets"] = new.iter().chain(&leaving).cloned().collect();
    write(steps, environment, rule, &both);
    write(steps, environment, route, wanted_route);
    steps.extend(rule.map(|rule| Step::Apply {
        object: wanted_rule.clone(),
        uid: rule.uid(),
        version: None,
    }));
}

fn write(steps: &mut Vec<Step>, environment: &VirtualEnvironment, there: Option<&Existing>, wanted: &Value) {
    let Some(there) = there else {
        steps.push(Step::Create(wanted.clone()));
        return;
    };
    let mut version = Some(there.version());
    let is_anothers = there.controller() != environment.uid.as_deref();
    if let (true, Some(owner)) = (is_anothers, owner(environment)) {
        let owners = there.0.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned();
        let mut owners: Vec<Value> = owners.unwrap_or_default();
        owners.retain(|owner| owner["controller"] != true);
        owners.push(owner);
        steps.push(Step::Adopt {
            kind: there.kind().to_owned(),
            name: there.name().to_owned(),
            version: there.version(),
            owners: json!(owners),
        });
        version = None;
    }
    if !there.has(wanted) {
        steps.push(Step::Apply { object: wanted.clone(), uid: there.uid(), version });
    }
}

/// Whether two values say the same. 50.0 and 50 do: the API server keeps a number in its own form.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| is_equal(a, b));
            a.len() == b.len() && a.iter().all(has)
        }
        _ => a == b,
    }
}
