//! A namespace's active VirtualEnvironment, and all VirtualEnvironments' status conditions.

use crate::routes::{Plan, RouteDisposition};
use crate::{changes::Changes, resource::VirtualEnvironment};
use mesh::Problems;
use serde_json::{Value, json};

/// A condition in the status of a VirtualEnvironment (`metav1.Condition`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentCondition {
    pub kind: &'static str,
    pub holds: bool,
    /// Machine-readable CamelCase word.
    pub reason: &'static str,
    pub message: String,
}

pub const ACTING: &str = "Acting";
/// True once the plan is written, with a route for each Service that should have one.
pub const COMPLETE: &str = "Complete";

/// VirtualEnvironments in order of precedence: by age, then by name. Omits VirtualEnvironments being deleted: the garbage
/// collector is already removing them as owners.
pub fn ranked<'a>(all: impl IntoIterator<Item = &'a VirtualEnvironment>) -> Vec<&'a VirtualEnvironment> {
    let mut found: Vec<&VirtualEnvironment> = all.into_iter().filter(|one| !one.is_going).collect();
    // Objects from a file have no age.
    found.sort_by_key(|one| (one.created.is_empty(), &one.created, &one.name));
    found
}

/// The conditions of an inactive VirtualEnvironment; `acting` is the active one's name.
pub fn idle(acting: &str) -> Vec<EnvironmentCondition> {
    let message = format!("VirtualEnvironment {acting} is older and therefore active. Delete one of the two");
    vec![EnvironmentCondition { kind: ACTING, holds: false, reason: "NotOldest", message }]
}

/// The conditions of the active VirtualEnvironment. `failed` describes refused writes.
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

/// Kubernetes' limit for a condition's message (`metav1.Condition`, 32,768 bytes), less a margin.
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

/// Returns the new status, or `None` if nothing changes. `now` is in RFC 3339; an unchanged condition keeps its time.
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
