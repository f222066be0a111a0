//! A call of the API server, and what it is answered: AdmissionReview, v1 and v1beta1.

/// A request over HTTP, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub method: &'a str,
    /// Without a query.
    pub path: &'a str,
    /// The header `Content-Type`.
    pub content_type: Option<&'a str>,
    pub body: &'a [u8],
}

/// What it is answered, and what of that is counted and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    pub told: Told,
}

/// What is told of a call to those who run the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub outcome: Outcome,
    /// Why, in words.
    pub reason: String,
    /// The object: its kind, namespace and name; empty where nobody knows it.
    pub object: String,
    /// The request's UID; empty where nobody knows it.
    pub uid: String,
    pub warnings: Vec<String>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod gets a patch.
    Injected,
    /// It is let through as it is.
    Skipped,
    /// It is refused: it can't be injected.
    Refused,
    /// The call is no review.
    Malformed,
}
