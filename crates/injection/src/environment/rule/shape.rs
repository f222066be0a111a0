//! The fields of Istio's HTTPRoute (networking.istio.io, VirtualService), so that they can be written in any case.
//!
//! Only names are known here, and what is a list or an object. Whether a number is sensible is Istio's to say.

use mesh::InputProblem;
use serde_json::{Map, Value};

pub(super) enum HttpRouteSchema {
    /// A value that is taken as it is.
    Any,
    Object(&'static [(&'static str, HttpRouteSchema)]),
    List(&'static HttpRouteSchema),
    /// An object whose keys are no names of fields, such as headers.
    Keys(&'static HttpRouteSchema),
}

use HttpRouteSchema::{Any, Keys, List, Object};

const STRING_MATCH: HttpRouteSchema = Object(&[("exact", Any), ("prefix", Any), ("regex", Any)]);
const STRING_MATCHES: HttpRouteSchema = Keys(&STRING_MATCH);
const PERCENT: HttpRouteSchema = Object(&[("value", Any)]);
const DESTINATION: HttpRouteSchema =
    Object(&[("host", Any), ("subset", Any), ("port", Object(&[("number", Any)]))]);
const OPERATIONS: HttpRouteSchema = Object(&[("set", Any), ("add", Any), ("remove", Any)]);
const HEADERS: HttpRouteSchema = Object(&[("request", OPERATIONS), ("response", OPERATIONS)]);

const MATCH: HttpRouteSchema = Object(&[
    ("name", Any),
    ("uri", STRING_MATCH),
    ("scheme", STRING_MATCH),
    ("method", STRING_MATCH),
    ("authority", STRING_MATCH),
    ("headers", STRING_MATCHES),
    ("port", Any),
    ("sourceLabels", Any),
    ("gateways", Any),
    ("queryParams", STRING_MATCHES),
    ("ignoreUriCase", Any),
    ("withoutHeaders", STRING_MATCHES),
    ("sourceNamespace", Any),
    ("statPrefix", Any),
]);

const ROUTE: HttpRouteSchema = Object(&[("destination", DESTINATION), ("weight", Any), ("headers", HEADERS)]);

const REWRITE: HttpRouteSchema = Object(&[
    ("uri", Any),
    ("authority", Any),
    ("uriRegexRewrite", Object(&[("match", Any), ("rewrite", Any)])),
]);

const RETRIES: HttpRouteSchema = Object(&[
    ("attempts", Any),
    ("perTryTimeout", Any),
    ("retryOn", Any),
    ("retryRemoteLocalities", Any),
    ("retryIgnorePreviousHosts", Any),
    ("backoff", Any),
]);

const FAULT: HttpRouteSchema = Object(&[
    (
        "delay",
        Object(&[("percent", Any), ("fixedDelay", Any), ("exponentialDelay", Any), ("percentage", PERCENT)]),
    ),
    (
        "abort",
        Object(&[("httpStatus", Any), ("grpcStatus", Any), ("http2Error", Any), ("percentage", PERCENT)]),
    ),
]);

const CORS: HttpRouteSchema = Object(&[
    ("allowOrigin", Any),
    ("allowOrigins", List(&STRING_MATCH)),
    ("allowMethods", Any),
    ("allowHeaders", Any),
    ("exposeHeaders", Any),
    ("maxAge", Any),
    ("allowCredentials", Any),
    ("unmatchedPreflights", Any),
]);

const REDIRECT: HttpRouteSchema = Object(&[
    ("uri", Any),
    ("authority", Any),
    ("port", Any),
    ("derivePort", Any),
    ("scheme", Any),
    ("redirectCode", Any),
]);

pub(super) const HTTP_ROUTE: HttpRouteSchema = Object(&[
    ("name", Any),
    ("match", List(&MATCH)),
    ("route", List(&ROUTE)),
    ("redirect", REDIRECT),
    ("directResponse", Object(&[("status", Any), ("body", Object(&[("string", Any), ("bytes", Any)]))])),
    ("delegate", Object(&[("name", Any), ("namespace", Any)])),
    ("rewrite", REWRITE),
    ("timeout", Any),
    ("retries", RETRIES),
    ("fault", FAULT),
    ("mirror", DESTINATION),
    ("mirrors", List(&Object(&[("destination", DESTINATION), ("percentage", PERCENT)]))),
    ("mirrorPercent", Any),
    ("mirrorPercentage", PERCENT),
    ("corsPolicy", CORS),
    ("headers", HEADERS),
]);

/// A value with its fields named as Istio names them. Nulls are left out. What is wrong is added to the problems of `place`.
pub(super) fn named(
    shape: &HttpRouteSchema,
    value: &Value,
    place: &str,
    problems: &mut Vec<InputProblem>,
) -> Value {
    walk(shape, value, "", &mut |text| problems.push(InputProblem::of(place, text)))
}

fn walk(shape: &HttpRouteSchema, value: &Value, path: &str, refuse: &mut dyn FnMut(String)) -> Value {
    match (shape, value) {
        (Any, value) => value.clone(),
        (List(shape), Value::Array(items)) => {
            let items = items.iter().enumerate();
            Value::Array(
                items.map(|(at, item)| walk(shape, item, &format!("{path}[{at}]"), refuse)).collect(),
            )
        }
        (Keys(shape), Value::Object(fields)) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let below =
                fields.map(|(key, value)| (key.clone(), walk(shape, value, &below(path, key), refuse)));
            Value::Object(below.collect())
        }
        (Object(known), Value::Object(fields)) => {
            let mut found = Map::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let path = below(path, key);
                let Some((name, shape)) = known.iter().find(|(name, _)| is_same(name, key)) else {
                    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                    refuse(format!("{path} is an unknown field; expected one of {}", names.join(", ")));
                    continue;
                };
                let value = walk(shape, value, &path, refuse);
                if found.insert((*name).to_owned(), value).is_some() {
                    refuse(format!("{path} is repeated, in different cases; leave one out"));
                }
            }
            Value::Object(found)
        }
        (List(_), _) => {
            refuse(format!("{path}: expected a list"));
            Value::Null
        }
        (Keys(_) | Object(_), _) => {
            refuse(format!("{path}: expected an object"));
            Value::Null
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether a key is a field's name in any case, `perTryTimeout` or `per_try_timeout`.
fn is_same(name: &str, key: &str) -> bool {
    let letters = key.chars().filter(|c| *c != '_');
    name.chars().map(|c| c.to_ascii_lowercase()).eq(letters.map(|c| c.to_ascii_lowercase()))
}
