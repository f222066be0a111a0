//! Webhook that passes a pod's environment to its proxy, as the variable `VIRTUAL_ENVIRONMENT_TAG`. Its patches are alibaba's
//! virtual-environment's, but also work for a proxy without variables or among the init containers, and for a variable with
//! `valueFrom`.

use crate::pipeline::pod::{CheckedPod, PodSpecItem, PodSpecList};
use crate::review::{Answer, Depth, JSON, Request, Review, ReviewOutcome, ReviewReport, WebhookCall};
use crate::{decision::SYSTEM_NAMESPACES, sidecar::PROXY, syntax};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};

/// The variable that the proxy's filter reads.
pub const VARIABLE: &str = "VIRTUAL_ENVIRONMENT_TAG";

/// Parses comma-separated label keys; the first one that a pod has gives its environment. `name` is the flag or variable. Errors:
/// the list is empty, or an item is not a label key.
pub fn labels(name: &str, text: &str) -> Result<Vec<String>, Problems> {
    if text.trim().is_empty() {
        let text = "is empty; expected labels such as virtual-env,team-env";
        return Err(Problems(vec![InputProblem::of(name, text)]));
    }
    let mut found: Vec<String> = Vec::new();
    let mut problems = Vec::new();
    for item in text.split(',').map(str::trim) {
        if !syntax::is_label_key(item) {
            let text = format!("is not a label; {}", syntax::LABEL_KEY);
            problems.push(InputProblem::with_item(name, item, text));
        } else if !found.iter().any(|there| there == item) {
            found.push(item.to_owned());
        }
    }
    Problems::check(problems).map(|()| found)
}

pub fn answer(call: &WebhookCall<'_>, labels: &[String]) -> Answer {
    if call.method != "POST" {
        return Answer::text(405, &format!("{} is not supported; expected POST", call.method));
    }
    if call.content_type != Some(JSON) {
        let found = call.content_type.unwrap_or_default();
        return Answer::text(400, &format!("Content-Type is {found:?}; expected {JSON}"));
    }
    let review = match Review::read(call.body, Depth::Whole, &call.cancellation) {
        Ok(review) => review,
        Err((report, _)) => return Answer::text(400, &report.reason),
    };
    let request = review.request();
    let (outcome, reason, operation) = match decide(request, labels) {
        Ok((reason, None)) => (ReviewOutcome::Skipped, reason, None),
        Ok((reason, operation)) => (ReviewOutcome::Injected, reason, operation),
        Err(reason) => (ReviewOutcome::Refused, reason, None),
    };
    let patch = operation.map(|operation| json!([operation]).to_string());
    ReviewReport::of(request, outcome, reason).answer(review.version, patch.as_deref())
}

/// Returns a reason, and a patch operation if needed; fails if the pod can't be read.
fn decide(request: Request<'_>, labels: &[String]) -> Result<(String, Option<Value>), String> {
    let namespace = request.text("namespace");
    if SYSTEM_NAMESPACES.contains(&namespace) {
        return Ok((format!("namespace {namespace} belongs to Kubernetes"), None));
    }
    if let Some(other) = request.other_than_pods() {
        return Ok((format!("the request is for {other}; only pods get a tag"), None));
    }
    if !matches!(request.text("operation"), "" | "CREATE") {
        return Ok(("pods get a tag only on CREATE".to_owned(), None));
    }
    let pod = CheckedPod::read("pod", request.pod()?.clone())
        .map_err(|problems| format!("the pod can't be read: {}", problems.joined()))?;
    let Some((label, tag)) = labels.iter().find_map(|label| Some((label, pod.label(label)?))) else {
        return Ok((format!("it has no label {}", labels.join(" or ")), None));
    };
    if tag.is_empty() {
        return Ok((format!("its label {label} is empty"), None));
    }
    Ok(match change(&pod, tag) {
        Ok(operation) => (format!("its label {label} is {tag}"), Some(operation)),
        Err(reason) => (reason.to_owned(), None),
    })
}

/// The operation (RFC 6902) that sets the variable.
fn change(pod: &CheckedPod, tag: &str) -> Result<Value, &'static str> {
    // The last of duplicate names wins.
    let proxy = PodSpecList::OF_CONTAINERS.into_iter().find_map(|list| {
        let at = pod.items(list).iter().rposition(|container| container.name() == PROXY)?;
        Some((format!("/spec/{}/{at}", list.field()), &pod.items(list)[at]))
    });
    let (path, proxy) = proxy.ok_or("it has no container istio-proxy")?;
    let entry = json!({"name": VARIABLE, "value": tag});
    if proxy.get("env").is_none_or(Value::is_null) {
        return Ok(json!({"op": "add", "path": format!("{path}/env"), "value": [entry]}));
    }
    let variables = proxy.list("env");
    let Some(at) = variables.iter().rposition(|variable| variable["name"] == VARIABLE) else {
        return Ok(json!({"op": "add", "path": format!("{path}/env/0"), "value": entry}));
    };
    let variable = &variables[at];
    match variable.get("value").filter(|_| variable["valueFrom"].is_null()) {
        Some(value) if value == tag => Err("its proxy has the tag already"),
        Some(_) => Ok(json!({"op": "replace", "path": format!("{path}/env/{at}/value"), "value": tag})),
        // The API server refuses a value beside `valueFrom`, and an empty variable has no field to replace.
        None => Ok(json!({"op": "replace", "path": format!("{path}/env/{at}"), "value": entry})),
    }
}
