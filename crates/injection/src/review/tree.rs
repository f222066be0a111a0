//! Parses a review into a tree, without fields that no webhook here needs, such as the long `managedFields`.

use crate::pipeline::size::{Allowance, TooLarge};
use crate::{admission::Cancellation, pipeline::unread};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Without the application containers' long variable lists, if possible.
    Shallow,
    Whole,
}

/// Lists of up to this many variables are always read: marks only save time for longer lists.
const FEW: usize = 32;

pub(super) fn read(body: &[u8], depth: Depth, cancellation: &Cancellation) -> Result<Value, String> {
    let reading = ReviewReading {
        depth,
        cancellation,
        left: RefCell::default(),
        too_large: Cell::new(None),
        lacks_variables: Cell::new(false),
    };
    let mut text = serde_json::Deserializer::from_slice(body);
    let read = PartSeed { reading: &reading, part: ReviewPart::Review }.deserialize(&mut text);
    let read = read.and_then(|value| text.end().map(|()| value));
    match (read, reading.too_large.get()) {
        // Only a container's name, which may follow its variables, shows whether they were needed.
        (Ok(_), _) if reading.lacks_variables.get() => self::read(body, Depth::Whole, cancellation),
        (Ok(value), _) => Ok(value),
        (Err(_), Some(too_large)) => Err(too_large.to_string()),
        (Err(error), None) => Err(format!("the body is not JSON: {error}")),
    }
}

struct ReviewReading<'a> {
    depth: Depth,
    cancellation: &'a Cancellation,
    left: RefCell<Allowance>,
    too_large: Cell<Option<TooLarge>>,
    lacks_variables: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReviewPart {
    Review,
    Request,
    Object,
    Metadata,
    Spec,
    Containers,
    Container,
    Variables,
    Other,
}

impl ReviewPart {
    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Review, "apiVersion" | "kind") => Some(Self::Other),
            (Self::Review, "request") => Some(Self::Request),
            (Self::Request, "object") => Some(Self::Object),
            (
                Self::Request,
                "uid" | "kind" | "resource" | "subResource" | "name" | "namespace" | "operation",
            ) => Some(Self::Other),
            (Self::Review | Self::Request, _) | (Self::Metadata, "managedFields") => None,
            (Self::Object, "metadata") => Some(Self::Metadata),
            (Self::Object, "spec") => Some(Self::Spec),
            (Self::Spec, "containers" | "initContainers") => Some(Self::Containers),
            (Self::Container, "env") => Some(Self::Variables),
            _ => Some(Self::Other),
        }
    }

    fn item(self) -> Self {
        if self == Self::Containers { Self::Container } else { Self::Other }
    }
}

#[derive(Clone, Copy)]
struct PartSeed<'a> {
    reading: &'a ReviewReading<'a>,
    part: ReviewPart,
}

impl PartSeed<'_> {
    fn take<E: Error>(self, target: impl FnOnce(&mut Allowance) -> Result<(), TooLarge>) -> Result<(), E> {
        self.reading.cancellation.check().map_err(E::custom)?;
        target(&mut self.reading.left.borrow_mut()).map_err(|too_large| {
            self.reading.too_large.set(Some(too_large));
            E::custom(too_large)
        })
    }

    fn scalar<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.take(|left| left.value(""))?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for PartSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PartSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<Value, E> {
        self.scalar(is)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.scalar(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.scalar(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        self.scalar(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.take(|left| left.value(text))?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.take(|left| left.value(""))?;
        let (mut items, inner) = (Vec::new(), Self { part: self.part.item(), ..self });
        let is_skipped = self.part == ReviewPart::Variables && self.reading.depth == Depth::Shallow;
        while let Some(item) = from.next_element_seed(inner)? {
            items.push(item);
            if is_skipped && items.len() > FEW {
                while from.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(unread::mark());
            }
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.take(|left| left.value(""))?;
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let Some(part) = self.part.field(&name) else {
                from.next_value::<IgnoredAny>()?;
                continue;
            };
            self.take(|left| left.field(&name, fields.len()))?;
            let value = from.next_value_seed(Self { part, ..self })?;
            fields.insert(name, value);
        }
        if self.part == ReviewPart::Container && fields.get("env").is_some_and(unread::is_mark) {
            let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
            let lacks = self.reading.depth == Depth::Shallow && !unread::may_be(name);
            self.reading.lacks_variables.set(lacks || self.reading.lacks_variables.get());
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn review(object: &Value) -> Value {
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": { "uid": "u", "operation": "CREATE", "object": object } })
    }

    fn variables(count: usize) -> Value {
        (0..count).map(|number| json!({ "name": format!("V{number}"), "value": "a:b" })).collect()
    }

    fn shallow(object: &Value) -> Value {
        read(review(object).to_string().as_bytes(), Depth::Shallow, &Cancellation::default()).expect("JSON")["request"]["object"]
            .clone()
    }

    #[test]
    fn relevant_parts_are_read_unchanged() {
        let pod = json!({
            "metadata": { "name": "a", "labels": { "env": "x" }, "generation": -1 },
            "spec": { "containers": [{ "name": "web", "env": variables(FEW), "args": [null, true, 1.5, 18_446_744_073_709_551_615_u64] }],
                "env": variables(FEW + 9), "initContainers": {} },
            "status": [],
        });
        assert_eq!(shallow(&pod), pod);
        for other in [json!(null), json!("x"), json!([{ "spec": 1 }])] {
            assert_eq!(shallow(&other), other);
        }
        let (mut sent, expected) = (review(&pod), review(&pod));
        sent["request"]["oldObject"] = pod.clone();
        sent["request"]["userInfo"] = json!({ "username": "somebody" });
        sent["request"]["object"]["metadata"]["managedFields"] = json!([{ "fieldsV1": {} }]);
        assert_eq!(read(sent.to_string().as_bytes(), Depth::Whole, &Cancellation::default()), Ok(expected));
    }

    #[test]
    fn long_lists_of_variables_are_left_out_where_they_may_be() {
        let pod =
            |name: &str| json!({ "spec": { "containers": [{ "name": name, "env": variables(FEW + 1) }] } });
        assert!(unread::is_in(&shallow(&pod("web"))));
        for read_always in ["istio-proxy", "istio-init", "istio-validation"] {
            assert_eq!(shallow(&pod(read_always)), pod(read_always));
        }
        let whole = read(review(&pod("web")).to_string().as_bytes(), Depth::Whole, &Cancellation::default())
            .expect("JSON");
        assert_eq!(whole, review(&pod("web")));
    }

    #[test]
    fn a_pod_too_large_is_distinguished_from_invalid_json() {
        let many = format!(r#"{{"request":{{"object":[{}0]}}}}"#, r#"{"a":0},"#.repeat(400_000));
        let shown = read(many.as_bytes(), Depth::Whole, &Cancellation::default()).expect_err("too large");
        assert!(shown.contains("more values than"), "{shown}");
        let elsewhere = many.replace("object", "options");
        assert!(
            read(elsewhere.as_bytes(), Depth::Whole, &Cancellation::default()).is_ok(),
            "it is not in the object"
        );
        assert!(
            read(b"{} x", Depth::Whole, &Cancellation::default())
                .expect_err("invalid")
                .contains("is not JSON")
        );
    }
}
