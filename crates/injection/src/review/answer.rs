//! The answer to a call, and its report for logs and counters.

use super::reading::{Request, Review, Unreadable};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

/// The versions that are understood; the first is answered where the version of a call is unknown.
pub(super) const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
pub(super) const KIND: &str = "AdmissionReview";
const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    pub report: ReviewReport,
}

/// Logged and counted for each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewReport {
    pub outcome: ReviewOutcome,
    pub reason: String,
    /// The kind, namespace and name of the object; empty where they are unknown.
    pub object: String,
    /// The request's UID; empty where it is unknown.
    pub uid: String,
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewOutcome {
    Injected,
    Skipped,
    Refused,
    /// The call is not a review.
    Malformed,
}

impl ReviewReport {
    pub(super) fn malformed(reason: String, uid: String) -> Self {
        let (outcome, object) = (ReviewOutcome::Malformed, String::new());
        Self { outcome, reason, object, uid, warnings: Vec::new() }
    }
}

impl Answer {
    /// An answer that is not a review.
    pub fn text(status: u16, reason: &str) -> Self {
        let report = ReviewReport::malformed(reason.to_owned(), String::new());
        Self { status, content_type: TEXT, body: format!("{reason}\n").into_bytes(), report }
    }

    /// For a body that ended too early, or is too long.
    pub fn unreadable(reason: &str) -> Self {
        Self::text(400, &format!("the body can't be read: {reason}"))
    }
}

pub(crate) struct ReviewResponse {
    pub(crate) version: &'static str,
    pub(crate) report: ReviewReport,
    /// The JSON patch; `None` where the object stays as it is.
    pub(crate) patch: Option<String>,
}

impl ReviewResponse {
    /// Without warnings or a patch.
    pub(crate) fn to(review: &Review, request: Request<'_>, outcome: ReviewOutcome, reason: String) -> Self {
        let report = ReviewReport {
            outcome,
            reason,
            object: request.object_name(),
            uid: request.text("uid").to_owned(),
            warnings: Vec::new(),
        };
        Self { version: review.version, report, patch: None }
    }

    pub(crate) fn malformed(unreadable: Unreadable) -> Self {
        let Unreadable { reason, version, uid } = unreadable;
        Self { version, report: ReviewReport::malformed(reason, uid), patch: None }
    }

    pub(crate) fn answer(self) -> Answer {
        let Self { version, report, patch } = self;
        let mut response = Map::new();
        let allowed = matches!(report.outcome, ReviewOutcome::Injected | ReviewOutcome::Skipped);
        response.insert("uid".to_owned(), report.uid.clone().into());
        response.insert("allowed".to_owned(), allowed.into());
        if !allowed {
            response.insert("status".to_owned(), json!({ "message": report.reason }));
        }
        if let Some(patch) = patch {
            response.insert("patchType".to_owned(), "JSONPatch".into());
            response.insert("patch".to_owned(), BASE64.encode(patch.as_bytes()).into());
        }
        if !report.warnings.is_empty() {
            // The API server sends them as HTTP headers and drops those with control characters.
            let lines = report.warnings.iter().map(|warning| warning.replace(mesh::is_obeyed, " "));
            response.insert("warnings".to_owned(), lines.collect::<Vec<_>>().into());
        }
        let review =
            [("apiVersion", version.into()), ("kind", KIND.into()), ("response", Value::Object(response))];
        let review: Value = review.map(|(field, value)| (field.to_owned(), value)).into_iter().collect();
        Answer { status: 200, content_type: JSON, body: review.to_string().into_bytes(), report }
    }
}
