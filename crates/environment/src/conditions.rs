//! The VirtualEnvironment of a namespace that acts, and the conditions in the status of each.

use crate::changes::Changes;
use crate::resource::VirtualEnvironment;
use crate::routes::{Plan, RouteDisposition};
use mesh::Problems;
use serde_json::{Value, json};

/// A condition in the status of a VirtualEnvironment (`metav1.Condition`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentCondition {
    pub kind: &'static str,
    pub holds: bool,
    /// One word.
    pub reason: &'static str,
    pub message: String,
}

pub const ACTING: &str = "Acting";
/// True where all that it says is done.
pub const COMPLETE: &str = "Complete";

/// VirtualEnvironments that count, in the order in which they act: the oldest first, of one second the first by name. One that is
/// being deleted does not count: the garbage collector is taking it away as an owner already.
pub fn ranked<'a>(all: impl IntoIterator<Item = &'a VirtualEnvironment>) -> Vec<&'a VirtualEnvironment> {
    let mut found: Vec<&VirtualEnvironment> = all.into_iter().filter(|one| !one.is_going).collect();
    // What comes from no API server has no age.
    found.sort_by_key(|one| (one.created.is_empty(), &one.created, &one.name));
    found
}

/// The conditions of one that does not act; `acting` is the name of the one that does.
pub fn idle(acting: &str) -> Vec<EnvironmentCondition> {
    let message = format!("VirtualEnvironment {acting} is older; a namespace has one. Delete one of the two");
    vec![EnvironmentCondition { kind: ACTING, holds: false, reason: "NotOldest", message }]
}

/// The conditions of the one that acts. `failed` describes refused writes.
pub fn conditions(
    plan: &Result<Plan, Problems>,
    changes: &Changes,
    failed: &[String],
) -> Vec<EnvironmentCondition> {
    let oldest = "it is the oldest in the namespace".to_owned();
    let acts = EnvironmentCondition { kind: ACTING, holds: true, reason: "Oldest", message: oldest };
    let complete = |holds, reason, message| EnvironmentCondition { kind: COMPLETE, holds, reason, message };
    let plan = match plan {
        Ok(plan) => plan,
        Err(problems) => {
            let message = lines(problems.0.iter().map(ToString::to_string));
            return vec![acts, complete(false, "Invalid", format!("nothing is changed: {message}"))];
        }
    };
    let (mut refused, mut planned) = (Vec::new(), 0_usize);
    for service in &plan.services {
        match &service.disposition {
            RouteDisposition::Refused(problems) => {
                refused.extend(problems.0.iter().map(ToString::to_string));
            }
            RouteDisposition::Routed { .. } => planned += 1,
            RouteDisposition::Unrouted(_) => {}
        }
    }
    let routed = planned.saturating_sub(changes.left_out);
    let (holds, reason) = match (failed.is_empty(), refused.is_empty() && changes.foreign.is_empty()) {
        (false, _) => (false, "WriteRefused"),
        (true, false) => (false, "ServicesLeftOut"),
        (true, true) if !plan.warnings.is_empty() => (true, "Warnings"),
        (true, true) => (true, "Routed"),
    };
    let have = if failed.is_empty() { "have" } else { "should have" };
    let summary = format!("{routed} of {} Services {have} routes", plan.services.len());
    let details = failed.iter().chain(&refused).chain(&changes.foreign).chain(&plan.warnings).cloned();
    vec![acts, complete(holds, reason, lines([summary].into_iter().chain(details)))]
}

/// The longest message of a condition (Kubernetes' `metav1.Condition`), in bytes, with some to spare.
const MAX_MESSAGE: usize = 32_000;

fn lines(items: impl Iterator<Item = String>) -> String {
    let mut text = items.collect::<Vec<_>>().join("\n");
    if text.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n...");
    }
    text
}

/// `now` is in RFC 3339; a condition that has not changed keeps its time. `None` where the status has all that already.
pub fn status(
    before: &Value,
    generation: Option<i64>,
    conditions: &[EnvironmentCondition],
    now: &str,
) -> Option<Value> {
    let old = before["conditions"].as_array().cloned().unwrap_or_default();
    let find = |kind: &str| old.iter().find(|there| there["type"] == kind);
    let written = conditions.iter().map(|condition| {
        let status = if condition.holds { "True" } else { "False" };
        let since = find(condition.kind).filter(|there| there["status"] == status);
        let since = since.and_then(|there| there["lastTransitionTime"].as_str()).unwrap_or(now);
        let mut written = json!({
            "type": condition.kind, "status": status, "reason": condition.reason, "message": condition.message,
            "lastTransitionTime": since,
        });
        if let Some(generation) = generation {
            written["observedGeneration"] = json!(generation);
        }
        written
    });
    let after = Value::Array(written.collect());
    (before["conditions"] != after).then(|| json!({"conditions": after}))
}
