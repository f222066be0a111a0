//! An answer to a review, and how it is written.

use super::reading::{Request, Review, Unreadable};
use super::{Answer, JSON, KIND, ReviewOutcome, ReviewReport};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

pub(crate) struct ReviewResponse {
    pub(crate) version: &'static str,
    pub(crate) report: ReviewReport,
    /// The JSON patch; `None` where the object stays as it is.
    pub(crate) patch: Option<String>,
}

impl ReviewResponse {
    /// An answer to a request, without warnings or a patch.
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
