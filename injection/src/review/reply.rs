//! An answer to a review, and how it is written.

use super::reading::{Request, Review, Unreadable};
use super::{Answer, JSON, KIND, ReviewOutcome, ReviewReport};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

pub(crate) struct ReviewResponse {
    pub(crate) version: &'static str,
    pub(crate) outcome: ReviewOutcome,
    pub(crate) reason: String,
    pub(crate) object: String,
    pub(crate) uid: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) patch: Option<String>,
}

impl ReviewResponse {
    /// An answer to a request, without warnings or a patch.
    pub(crate) fn to(review: &Review, request: Request<'_>, outcome: ReviewOutcome, reason: String) -> Self {
        Self {
            version: review.version,
            outcome,
            reason,
            object: request.object_name(),
            uid: request.text("uid").to_owned(),
            warnings: Vec::new(),
            patch: None,
        }
    }

    pub(crate) fn malformed(unreadable: Unreadable) -> Self {
        let Unreadable { reason, version, uid } = unreadable;
        let (outcome, object) = (ReviewOutcome::Malformed, String::new());
        Self { version, outcome, reason, object, uid, warnings: Vec::new(), patch: None }
    }

    pub(crate) fn answer(self) -> Answer {
        let mut response = Map::new();
        let allowed = matches!(self.outcome, ReviewOutcome::Injected | ReviewOutcome::Skipped);
        response.insert("uid".to_owned(), self.uid.clone().into());
        response.insert("allowed".to_owned(), allowed.into());
        if !allowed {
            response.insert("status".to_owned(), json!({ "message": self.reason }));
        }
        if let Some(patch) = &self.patch {
            response.insert("patchType".to_owned(), "JSONPatch".into());
            response.insert("patch".to_owned(), BASE64.encode(patch.as_bytes()).into());
        }
        if !self.warnings.is_empty() {
            // They become headers of the API server's answer, which hold no line breaks.
            let lines = self.warnings.iter().map(|warning| warning.lines().collect::<Vec<_>>().join(" "));
            response.insert("warnings".to_owned(), lines.collect::<Vec<_>>().into());
        }
        let review = [
            ("apiVersion", self.version.into()),
            ("kind", KIND.into()),
            ("response", Value::Object(response)),
        ];
        let review: Value = review.map(|(field, value)| (field.to_owned(), value)).into_iter().collect();
        let Self { outcome, reason, object, uid, warnings, .. } = self;
        let report = ReviewReport { outcome, reason, object, uid, warnings };
        Answer { status: 200, content_type: JSON, body: review.to_string().into_bytes(), report }
    }
}
