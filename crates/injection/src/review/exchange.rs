//! Wire format of a review and its answer, with a report for logs and metrics.

use super::Cancellation;
use super::tree::{self, Depth};
use data_encoding::BASE64;
use mesh::pod::called;
use serde::Deserialize;
use serde_json::{Value, json};

/// Supported versions; the first is used for calls of an unknown version.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewReport {
    pub outcome: ReviewOutcome,
    pub reason: String,
    /// Kind, namespace and name of the object; empty if unknown, like `uid`.
    pub object: String,
    pub uid: String,
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewOutcome {
    Injected,
    Skipped,
    Refused,
    Malformed,
}

impl ReviewReport {
    fn malformed(reason: String, uid: String) -> Self {
        let (outcome, object) = (ReviewOutcome::Malformed, String::new());
        Self { outcome, reason, object, uid, warnings: Vec::new() }
    }

    pub(crate) fn of(request: Request<'_>, outcome: ReviewOutcome, reason: String) -> Self {
        let (object, uid) = (request.object_name(), request.text("uid").to_owned());
        Self { outcome, reason, object, uid, warnings: Vec::new() }
    }

    pub(crate) fn answer(self, version: &str, patch: Option<&str>) -> Answer {
        let allowed = matches!(self.outcome, ReviewOutcome::Injected | ReviewOutcome::Skipped);
        let mut response = json!({ "uid": self.uid, "allowed": allowed });
        if !allowed {
            response["status"] = json!({ "message": self.reason });
        }
        if let Some(patch) = patch {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64.encode(patch.as_bytes()).into();
        }
        if !self.warnings.is_empty() {
            // The API server sends warnings as HTTP headers, and drops any with control characters.
            let lines = self.warnings.iter().map(|warning| warning.replace(mesh::is_obeyed, " "));
            response["warnings"] = lines.collect();
        }
        let review = json!({ "apiVersion": version, "kind": KIND, "response": response });
        Answer { status: 200, content_type: JSON, body: review.to_string().into_bytes(), report: self }
    }
}

impl Answer {
    pub fn text(status: u16, reason: &str) -> Self {
        let report = ReviewReport::malformed(reason.to_owned(), String::new());
        Self { status, content_type: TEXT, body: format!("{reason}\n").into_bytes(), report }
    }

    pub fn unreadable(reason: &str) -> Self {
        Self::text(400, &format!("the body can't be read: {reason}"))
    }
}

pub(crate) struct Review {
    pub(crate) version: &'static str,
    fields: Value,
}

impl Review {
    /// Parses a body. For an invalid review, returns a report, and the answer's version if known.
    pub(crate) fn read(
        body: &[u8],
        depth: Depth,
        cancellation: &Cancellation,
    ) -> Result<Self, (ReviewReport, &'static str)> {
        let fields = tree::read(body, depth, cancellation).map_err(|reason| {
            let PartialReview { api_version, request } = serde_json::from_slice(body).unwrap_or_default();
            (ReviewReport::malformed(reason, request.uid), known(&api_version).unwrap_or(VERSIONS[0]))
        })?;
        let (version, kind) = (text(&fields, "apiVersion"), text(&fields, "kind"));
        let (known, request) = (known(version), &fields["request"]);
        let reason = if known.is_none() || kind != KIND {
            let versions = VERSIONS.join(" or ");
            Some(format!("the body is {kind:?} of {version:?}; expected {KIND} of {versions}"))
        } else {
            (!request.is_object()).then(|| "the review has no request".to_owned())
        };
        let (version, uid) = (known.unwrap_or(VERSIONS[0]), text(request, "uid").to_owned());
        match reason {
            Some(reason) => Err((ReviewReport::malformed(reason, uid), version)),
            None => Ok(Self { version, fields }),
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request(&self.fields["request"])
    }
}

fn known(version: &str) -> Option<&'static str> {
    VERSIONS.into_iter().find(|known| *known == version)
}

/// Parts of a JSON review that is too large or too deeply nested to be parsed completely.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialReview {
    api_version: String,
    request: PartialRequest,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialRequest {
    uid: String,
}

#[derive(Clone, Copy)]
pub(crate) struct Request<'a>(&'a Value);

impl<'a> Request<'a> {
    pub(crate) fn text(self, name: &str) -> &'a str {
        text(self.0, name)
    }

    fn object(self) -> &'a Value {
        &self.0["object"]
    }

    fn metadata(self) -> &'a Value {
        &self.object()["metadata"]
    }

    /// The pod's own namespace, rarely set on creation; else the request's.
    pub(crate) fn namespace(self) -> &'a str {
        let own = text(self.metadata(), "namespace");
        if own.is_empty() { self.text("namespace") } else { own }
    }

    /// The node that a pod names itself, bypassing the scheduler.
    pub(crate) fn node(self) -> Option<&'a str> {
        Some(text(&self.object()["spec"], "nodeName")).filter(|name| !name.is_empty())
    }

    /// Title for logs. A controller's pod has no name yet, only a prefix.
    pub(crate) fn object_name(self) -> String {
        let kind = match text(self.object(), "kind") {
            "" => text(&self.0["kind"], "kind"),
            kind => kind,
        };
        let name = called(self.metadata()).unwrap_or_else(|| self.text("name").to_owned());
        format!("{kind} {}/{name}", self.namespace()).trim_start().to_owned()
    }

    /// The request's resource if it is not pods, such as `pods/eviction`.
    pub(crate) fn other_than_pods(self) -> Option<String> {
        let resource = self.0.get("resource")?;
        let (group, name) = (text(resource, "group"), text(resource, "resource"));
        let part = self.text("subResource");
        let whole = [name, part].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("/");
        (!matches!((group, name, part), ("", "" | "pods", ""))).then_some(whole)
    }

    pub(crate) fn pod(self) -> Result<&'a Value, String> {
        let object = self.object();
        let kind = text(object, "kind");
        if !object.is_object() {
            Err("the request has no object; expected a Pod".to_owned())
        } else if !matches!(kind, "" | "Pod") {
            Err(format!("the object is a {kind}; expected a Pod"))
        } else {
            Ok(object)
        }
    }
}

fn text<'a>(fields: &'a Value, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}
