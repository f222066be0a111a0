//! The webhook that tells a pod's proxy the environment of the pod, as the variable `VIRTUAL_ENVIRONMENT_TAG`.
//!
//! The table of answers is that of alibaba's virtual-environment. Where its patches fail, ours don't: a proxy without
//! variables, one among the init containers, and a variable that is filled from elsewhere. A review is answered in its own
//! version.

mod patch;

pub use patch::VARIABLE;

use super::words;
use crate::review::{self, Answer, Call, Outcome, Told};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use patch::{Pod, change};
use policy::{Problem, Problems};
use serde_json::{Value, json};

/// Whose pods get no tag.
const SYSTEM_NAMESPACES: [&str; 2] = ["kube-system", "kube-public"];
/// The versions of AdmissionReview that are answered.
const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// The labels of which the first that a pod has is its environment, from a list with commas. `name` is that of the flag or
/// variable, for problems.
///
/// # Errors
/// When none is named, and for each one that is no key of a label.
pub fn labels(name: &str, text: &str) -> Result<Vec<String>, Problems> {
    if text.trim().is_empty() {
        let text = "names no label; expected a list such as virtual-env,team-env";
        return Err(Problems(vec![Problem::of(name, text)]));
    }
    let mut found: Vec<String> = Vec::new();
    let mut problems = Vec::new();
    for item in text.split(',').map(str::trim) {
        match words::is_label_key(item) {
            true if found.iter().any(|there| there == item) => {}
            true => found.push(item.to_owned()),
            false => {
                let text = format!("is no label; {}", words::LABEL_KEY);
                problems.push(Problem::with_item(name, item, text));
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(Problems(problems)) }
}

/// Answers a call. `labels` are those of which the first that the pod has names its environment.
pub fn answer(call: &Call<'_>, labels: &[String]) -> Answer {
    let review = match Review::read(call) {
        Ok(review) => review,
        Err((status, reason)) => return refused_call(status, reason),
    };
    match review.decide(labels) {
        Ok(Verdict::Skip(reason)) => review.answer(&json!({"allowed": true}), Outcome::Skipped, reason),
        Ok(Verdict::Patch { operation, reason }) => {
            let patch = STANDARD.encode(Value::Array(vec![operation]).to_string());
            let response = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch});
            review.answer(&response, Outcome::Injected, reason)
        }
        Err(reason) => {
            let response = json!({"allowed": false, "status": {"message": reason}});
            review.answer(&response, Outcome::Refused, reason)
        }
    }
}

/// What becomes of a pod.
enum Verdict {
    Skip(String),
    Patch { operation: Value, reason: String },
}

/// A call that is a review.
struct Review {
    version: &'static str,
    uid: String,
    request: Value,
}

impl Review {
    /// The status and the reason where it is none.
    fn read(call: &Call<'_>) -> Result<Self, (u16, String)> {
        if call.method != "POST" {
            return Err((405, format!("{} is not answered here; expected POST", call.method)));
        }
        if call.content_type != Some("application/json") {
            let found = call.content_type.unwrap_or_default();
            return Err((400, format!("Content-Type: {found:?} is not taken; expected application/json")));
        }
        let review = review::fields(call.body)
            .map_err(|error| (400, format!("the body is no AdmissionReview: {error}")))?;
        let version = VERSIONS.into_iter().find(|version| review["apiVersion"] == *version);
        let (Some(version), true) = (version, review["kind"] == "AdmissionReview") else {
            let expected = VERSIONS.join(" or ");
            return Err((400, format!("the body is no AdmissionReview; expected one of {expected}")));
        };
        match review.get("request") {
            Some(request @ Value::Object(_)) => {
                let uid = request["uid"].as_str().unwrap_or_default().to_owned();
                Ok(Self { version, uid, request: request.clone() })
            }
            _ => Err((400, "the AdmissionReview has no request".to_owned())),
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.request.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `Err` where the pod can't be read.
    fn decide(&self, labels: &[String]) -> Result<Verdict, String> {
        let namespace = self.text("/namespace");
        if SYSTEM_NAMESPACES.contains(&namespace) {
            return Ok(Verdict::Skip(format!("namespace {namespace} is the cluster's own")));
        }
        let resource = ["/resource/group", "/resource/version", "/resource/resource"].map(|at| self.text(at));
        if resource != ["", "v1", "pods"] || !self.text("/subResource").is_empty() {
            return Ok(Verdict::Skip("it is about no pod".to_owned()));
        }
        if !matches!(self.text("/operation"), "" | "CREATE") {
            return Ok(Verdict::Skip("a pod gets its variable when it is created".to_owned()));
        }
        let pod = Pod::read(self.request.get("object").unwrap_or(&Value::Null))?;
        let Some((label, tag)) = labels.iter().find_map(|label| Some((label, pod.labels.get(label)?))) else {
            return Ok(Verdict::Skip(format!("it has no label {}", labels.join(" or "))));
        };
        let Some(tag) = tag.as_deref().filter(|tag| !tag.is_empty()) else {
            return Ok(Verdict::Skip(format!("its label {label} is empty")));
        };
        Ok(match change(&pod, tag) {
            Ok(operation) => Verdict::Patch { operation, reason: format!("its label {label} says {tag}") },
            Err(reason) => Verdict::Skip(reason.to_owned()),
        })
    }

    fn answer(&self, response: &Value, outcome: Outcome, reason: String) -> Answer {
        let mut response = response.clone();
        response["uid"] = json!(self.uid);
        let body = json!({"apiVersion": self.version, "kind": "AdmissionReview", "response": response});
        Answer {
            status: 200,
            content_type: "application/json",
            body: body.to_string().into_bytes(),
            told: Told {
                outcome,
                reason,
                object: self.object(),
                uid: self.uid.clone(),
                warnings: Vec::new(),
            },
        }
    }

    /// Its kind, namespace and name; a pod that its controller names has only the beginning of one yet.
    fn object(&self) -> String {
        let name = match (self.text("/name"), self.text("/object/metadata/name")) {
            ("", "") => format!("{}*", self.text("/object/metadata/generateName")),
            ("", name) | (name, _) => name.to_owned(),
        };
        let kind = match self.text("/kind/kind") {
            "" => self.text("/resource/resource"),
            kind => kind,
        };
        match self.text("/namespace") {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        }
    }
}

fn refused_call(status: u16, reason: String) -> Answer {
    let body = format!("{reason}\n").into_bytes();
    let (object, uid) = (String::new(), String::new());
    let told = Told { outcome: Outcome::Malformed, reason, object, uid, warnings: Vec::new() };
    Answer { status, content_type: "text/plain; charset=utf-8", body, told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_labels_are_trimmed_and_checked() {
        let read = |text| labels("--env-label", text).map_err(|problems| problems.to_string());
        assert_eq!(read("virtual-env"), Ok(vec!["virtual-env".to_owned()]));
        assert_eq!(read(" a , b/c,a "), Ok(vec!["a".to_owned(), "b/c".to_owned()]));
        assert!(read("").is_err_and(|text| text.contains("--env-label: names no label")));
        assert!(read(" ").is_err());
        let both = read("a,,b c").expect_err("two are wrong");
        assert!(both.contains("2 problems") && both.contains("\"b c\" is no label"), "{both}");
    }
}
