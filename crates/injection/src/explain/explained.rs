//! The explanation of an object that describes pods.

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// Kind, namespace and name.
    pub title: String,
    /// The name of its manifest.
    pub file: String,
    pub document: usize,
    pub namespace: String,
    pub verdict: InjectionVerdict,
    /// Why, in a sentence without its end.
    pub because: String,
    /// Each webhook, and what keeps it from being called.
    pub webhooks: Vec<WebhookMatch>,
    /// Of the webhook that is called; where none is, what the first one would decide.
    pub decision: ExplainedDecision,
    /// The init container that sets the rules or checks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<CaptureInitContainer>,
    /// Containers that the pod gets beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<AddedContainer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What was taken for granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// What would have it injected, each on its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    #[serde(skip)]
    pub injected: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InjectionVerdict {
    Injected,
    /// No webhook is called.
    NotCalled,
    /// One is called, and lets the pod through as it is.
    #[serde(rename = "left-alone")]
    Skipped,
    /// One is called, and refuses the pod: it can't be made.
    Refused,
}

#[derive(Clone, Debug, Serialize)]
pub struct WebhookMatch {
    pub name: String,
    /// False for all where the API server can't read the pod.
    pub called: bool,
    /// What it asks that isn't so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<String>,
}

/// What a webhook decides about the pod, and why.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDecision {
    pub inject: bool,
    pub because: String,
}

/// An init container about capture.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureInitContainer {
    pub name: String,
    pub arguments: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AddedContainer {
    pub name: String,
    pub image: String,
    /// `containers` or `initContainers`.
    pub place: &'static str,
}
