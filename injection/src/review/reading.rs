//! A review as it is sent, and what of it matters here.

use super::{KIND, VERSIONS};
use serde_json::Value;

/// What was sent, once it is known to be a review.
pub(super) struct Review {
    pub(super) version: &'static str,
    fields: Value,
}

impl Review {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let fields: Value =
            serde_json::from_slice(body).map_err(|error| format!("the body is no JSON: {error}"))?;
        let (version, kind) = (text(&fields, "apiVersion"), text(&fields, "kind"));
        let known = VERSIONS.into_iter().find(|known| *known == version && kind == KIND);
        let version = known.ok_or_else(|| {
            format!("the body is {kind:?} of {version:?}; expected {KIND} of {}", VERSIONS.join(" or "))
        })?;
        Ok(Self { version, fields })
    }

    pub(super) fn request(&self) -> Option<Request<'_>> {
        self.fields.get("request").filter(|request| request.is_object()).map(Request)
    }
}

/// The request of a review.
#[derive(Clone, Copy)]
pub(super) struct Request<'a>(&'a Value);

impl<'a> Request<'a> {
    pub(super) fn text(self, name: &str) -> &'a str {
        text(self.0, name)
    }

    fn object(self) -> &'a Value {
        self.0.get("object").unwrap_or(&Value::Null)
    }

    fn metadata(self) -> &'a Value {
        self.object().get("metadata").unwrap_or(&Value::Null)
    }

    /// The pod's own; a pod that is being created seldom says one.
    pub(super) fn namespace(self) -> &'a str {
        let own = text(self.metadata(), "namespace");
        if own.is_empty() { self.text("namespace") } else { own }
    }

    /// Where the pod will run, if it says so itself and passes the scheduler by.
    pub(super) fn node(self) -> Option<&'a str> {
        let spec = self.object().get("spec").unwrap_or(&Value::Null);
        Some(text(spec, "nodeName")).filter(|name| !name.is_empty())
    }

    /// As the log names it. A pod that a controller makes has no name yet, but a beginning of one.
    pub(super) fn object_name(self) -> String {
        let kind = match text(self.object(), "kind") {
            "" => self.0.get("kind").map_or("", |kind| text(kind, "kind")),
            kind => kind,
        };
        let name = match (text(self.metadata(), "name"), text(self.metadata(), "generateName")) {
            ("", "") => self.text("name").to_owned(),
            ("", beginning) => format!("{beginning}*"),
            (name, _) => name.to_owned(),
        };
        format!("{kind} {}/{name}", self.namespace()).trim_start().to_owned()
    }

    /// What is asked about, if it says so and it is no pod: another resource, or a part of one, such as `pods/eviction`.
    pub(super) fn other_than_pods(self) -> Option<String> {
        let resource = self.0.get("resource")?;
        let (group, name) = (text(resource, "group"), text(resource, "resource"));
        let part = self.text("subResource");
        let whole = [name, part].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("/");
        (!matches!((group, name, part), ("", "" | "pods", ""))).then_some(whole)
    }

    pub(super) fn pod(self) -> Result<&'a Value, String> {
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
