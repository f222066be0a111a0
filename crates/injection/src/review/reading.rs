//! A review as it is sent, and its parts that matter here.

use super::tree::{self, Depth};
use super::{Cancellation, KIND, VERSIONS};
use mesh::pod::called;
use serde_json::Value;

pub(crate) struct Review {
    pub(crate) version: &'static str,
    fields: Value,
}

/// A body that is no review, with the parts of it that an answer needs, as far as they can be found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) reason: String,
    pub(crate) version: &'static str,
    pub(crate) uid: String,
}

impl Review {
    pub(crate) fn read(body: &[u8], depth: Depth, cancellation: &Cancellation) -> Result<Self, Unreadable> {
        let fields = tree::read(body, depth, cancellation).map_err(|reason| {
            let (version, uid) = version_and_uid(body);
            Unreadable { reason, version: version.unwrap_or(VERSIONS[0]), uid }
        })?;
        let (version, kind) = (text(&fields, "apiVersion"), text(&fields, "kind"));
        let known = VERSIONS.into_iter().find(|known| *known == version);
        match known.filter(|_| kind == KIND) {
            Some(version) => Ok(Self { version, fields }),
            None => Err(Unreadable {
                reason: format!(
                    "the body is {kind:?} of {version:?}; expected {KIND} of {}",
                    VERSIONS.join(" or ")
                ),
                version: known.unwrap_or(VERSIONS[0]),
                uid: fields.get("request").map(|request| text(request, "uid")).unwrap_or_default().to_owned(),
            }),
        }
    }

    pub(crate) fn request(&self) -> Option<Request<'_>> {
        self.fields.get("request").filter(|request| request.is_object()).map(Request)
    }
}

/// The version and the UID of a review that can't be read, because its text is cut, nested too deeply or not JSON. They are
/// found by the names of the outermost fields.
fn version_and_uid(body: &[u8]) -> (Option<&'static str>, String) {
    let (mut version, mut uid) = (None, String::new());
    // The open brackets around the current place, each with the name of the field that it is the value of; the last string,
    // which is a field's name if a colon follows.
    let mut path: Vec<(u8, &[u8])> = Vec::new();
    let (mut last, mut name): (&[u8], &[u8]) = (b"", b"");
    let mut at = 0;
    while let Some(byte) = body.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => path.push((*byte, std::mem::take(&mut name))),
            // An object ends with all lists in it that were left open.
            b'}' => path.truncate(path.iter().rposition(|(open, _)| *open == b'{').unwrap_or(0)),
            b']' => drop(path.pop_if(|(open, _)| *open == b'[')),
            b',' => name = b"",
            b':' => name = last,
            b'"' => {
                let Some(length) = length(&body[at..]) else { break };
                last = &body[at..at + length];
                let value = || serde_json::from_slice::<String>(&body[at - 1..=at + length]).ok();
                match (&path[..], name) {
                    ([(b'{', _)], b"apiVersion") => {
                        let given = value();
                        version =
                            VERSIONS.into_iter().find(|known| given.as_deref() == Some(*known)).or(version);
                    }
                    ([(b'{', _), (b'{', b"request")], b"uid") => uid = value().unwrap_or(uid),
                    _ => {}
                }
                at += length + 1;
            }
            _ => {}
        }
    }
    (version, uid)
}

/// The length of a JSON string after its opening quote; `None` if it has no end.
fn length(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Request<'a>(&'a Value);

impl<'a> Request<'a> {
    pub(crate) fn text(self, name: &str) -> &'a str {
        text(self.0, name)
    }

    fn object(self) -> &'a Value {
        self.0.get("object").unwrap_or(&Value::Null)
    }

    fn metadata(self) -> &'a Value {
        self.object().get("metadata").unwrap_or(&Value::Null)
    }

    /// The pod's own; a pod that is being created seldom says one.
    pub(crate) fn namespace(self) -> &'a str {
        let own = text(self.metadata(), "namespace");
        if own.is_empty() { self.text("namespace") } else { own }
    }

    /// The node of a pod that names it itself and passes the scheduler by.
    pub(crate) fn node(self) -> Option<&'a str> {
        let spec = self.object().get("spec").unwrap_or(&Value::Null);
        Some(text(spec, "nodeName")).filter(|name| !name.is_empty())
    }

    /// As the log names it. A pod that a controller makes has no name yet, but a beginning of one.
    pub(crate) fn object_name(self) -> String {
        let kind = match text(self.object(), "kind") {
            "" => self.0.get("kind").map_or("", |kind| text(kind, "kind")),
            kind => kind,
        };
        let own = |field: &str| Some(text(self.metadata(), field));
        let name = called(own("name"), own("generateName")).unwrap_or_else(|| self.text("name").to_owned());
        format!("{kind} {}/{name}", self.namespace()).trim_start().to_owned()
    }

    /// Another resource, or a part of one, such as `pods/eviction`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_needs_is_found_in_a_review_that_can_not_be_read() {
        let whole = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u\u00311","object":{"metadata":{"uid":"not \" this"},"uid":"nor this"},"name":"x"},"response":{"uid":"nor that"}}"#;
        let expected = (Some(VERSIONS[1]), "u11".to_owned());
        assert_eq!(version_and_uid(whole.as_bytes()), expected);
        let known = whole.find(r#","object""#).expect("it has one");
        for end in known..whole.len() {
            assert_eq!(version_and_uid(&whole.as_bytes()[..end]), expected, "{}", &whole[..end]);
        }
        for broken in [
            whole.replace(r#""uid":"nor this""#, "uid: nor this"),
            whole.replace(r#""nor this""#, &"[".repeat(500)),
            whole.replace("nor this", "\u{1}\n"),
        ] {
            assert_eq!(version_and_uid(broken.as_bytes()), expected, "{broken}");
        }
        // Whatever comes before it.
        let late = r#"{"request":{"object":{"a":[[[]],"b":nonsense]},"uid":"u2"},"apiVersion":"admission.k8s.io/v1"}"#;
        assert_eq!(version_and_uid(late.as_bytes()), (Some(VERSIONS[0]), "u2".to_owned()));
        for none in
            ["", "{", "null", r#"{"uid":"u"}"#, r#"{"request":[{"uid":"u"}]}"#, r#"{"request":{"uid":7}}"#]
        {
            assert_eq!(version_and_uid(none.as_bytes()), (None, String::new()), "{none}");
        }
    }
}
