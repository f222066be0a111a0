//! The answer to a call, and what of it is logged and counted.

/// The versions that are understood; the first is answered where the version of a call is unknown.
pub(super) const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
pub(super) const KIND: &str = "AdmissionReview";
const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

/// The answer, and what of it is counted and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    pub report: ReviewReport,
}

/// What is logged and counted of a call.
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
    /// The pod gets a patch.
    Injected,
    /// It is let through as it is.
    Skipped,
    /// It is refused: it can't be injected.
    Refused,
    /// The call is not a review.
    Malformed,
}

impl ReviewReport {
    /// Of a call that is not a review.
    pub(super) fn malformed(reason: String, uid: String) -> Self {
        let (outcome, object) = (ReviewOutcome::Malformed, String::new());
        Self { outcome, reason, object, uid, warnings: Vec::new() }
    }
}

impl Answer {
    /// An answer that is not a review: an HTTP status and the reason.
    pub fn text(status: u16, reason: &str) -> Self {
        let report = ReviewReport::malformed(reason.to_owned(), String::new());
        Self { status, content_type: TEXT, body: format!("{reason}\n").into_bytes(), report }
    }

    /// For a body that ended too early, or is too long.
    pub fn unreadable(reason: &str) -> Self {
        Self::text(400, &format!("the body can't be read: {reason}"))
    }
}
