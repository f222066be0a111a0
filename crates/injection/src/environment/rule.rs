//! Additions of a Service to its routes: a part of Istio's HTTPRoute, in the annotation `kt-virtual-environment/rule`.

use mesh::InputProblem;
use serde_json::{Map, Value, json};

pub const RULE: &str = "kt-virtual-environment/rule";

/// Fields that put something else in the place of a route's destination (Istio refuses them beside one).
const NO_ROUTE: [&str; 3] = ["redirect", "directResponse", "delegate"];

/// A part of an HTTPRoute, its fields named as Istio names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRouteRule {
    /// Everything beside matches and destinations.
    rest: Map<String, Value>,
    /// Conditions of each match besides the header and the port.
    matching: Map<String, Value>,
    /// Fields of each route besides a destination and its weight.
    route: Map<String, Value>,
}

impl HttpRouteRule {
    /// Keys may be written in any case. Of several matches and destinations the first counts.
    pub(super) fn read(place: &str, text: &str) -> Result<Self, Vec<InputProblem>> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let text = format!(
                "is not JSON ({error}); expected a part of an HTTPRoute such as {{\"timeout\": \"3s\"}}"
            );
            vec![InputProblem::of(place, text)]
        })?;
        if !value.is_object() {
            return Err(vec![InputProblem::with_item(
                place,
                text,
                "is not an HTTPRoute; expected a JSON object",
            )]);
        }
        let mut problems = Vec::new();
        let named = named(&HTTP_ROUTE, &value, place, &mut problems);
        let Value::Object(mut rest) = named else { return Err(problems) };
        for field in NO_ROUTE.iter().filter(|field| rest.contains_key(**field)) {
            let text = format!("{field} can't be combined with the route to an environment; leave it out");
            problems.push(InputProblem::of(place, text));
        }
        let mut first = |field: &str| match rest.remove(field) {
            Some(Value::Array(items)) => match items.into_iter().next() {
                Some(Value::Object(first)) => first,
                _ => Map::new(),
            },
            _ => Map::new(),
        };
        let (matching, mut route) = (first("match"), first("route"));
        // The destination is not the rule's to say.
        route.remove("destination");
        if problems.is_empty() { Ok(Self { rest, matching, route }) } else { Err(problems) }
    }

    /// A whole route: this with a match and a destination over it.
    pub(super) fn with(&self, matching: &Value, route: &Value) -> Value {
        let mut whole = self.rest.clone();
        whole.insert("match".to_owned(), json!([over(&self.matching, matching)]));
        whole.insert("route".to_owned(), json!([over(&self.route, route)]));
        Value::Object(whole)
    }
}

/// Puts fields over those of a rule. Objects on both sides are conditions on headers: each is one of several kinds, so it is
/// replaced whole.
fn over(base: &Map<String, Value>, fields: &Value) -> Map<String, Value> {
    let mut merged = base.clone();
    for (key, value) in fields.as_object().into_iter().flatten() {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => {
                // Names of headers are the same in any case.
                there.retain(|name, _| !more.keys().any(|new| new.eq_ignore_ascii_case(name)));
                there.extend(more.clone());
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    merged
}

enum HttpRouteSchema {
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

const HTTP_ROUTE: HttpRouteSchema = Object(&[
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

/// A value with its fields named as Istio names them. Nulls are left out.
fn named(shape: &HttpRouteSchema, value: &Value, place: &str, problems: &mut Vec<InputProblem>) -> Value {
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

/// Case and underscores do not count: `perTryTimeout` is `per_try_timeout`.
fn is_same(name: &str, key: &str) -> bool {
    let letters = key.chars().filter(|c| *c != '_');
    name.chars().map(|c| c.to_ascii_lowercase()).eq(letters.map(|c| c.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HttpRouteRule, String> {
        let shown =
            |problems: Vec<InputProblem>| problems.iter().map(|problem| format!("{problem}\n")).collect();
        HttpRouteRule::read("rule", text).map_err(shown)
    }

    #[test]
    fn a_rule_stays_under_the_route() {
        let rule = read(
            r#"{"Rewrite": {"Uri": "/v2"}, "RETRIES": {"per_try_timeout": "2s"}, "Match": [{"Uri": {"Prefix": "/v1"},
            "headers": {"X-A": {"exact": "1"}, "x-virtual-env": {"regex": "."}}, "port": 1}, {"uri": {"exact": "/"}}],
            "route": [{"destination": {"host": "other"}, "headers": {"request": {"set": {"X-B": "2"}}}}, {"weight": 3}]}"#,
        );
        let matching = json!({"headers": {"X-Virtual-Env": {"exact": "dev"}}, "port": 80});
        let route = json!({"destination": {"host": "cart", "subset": "dev"}, "weight": 100});
        let expected = json!({
            "rewrite": {"uri": "/v2"}, "retries": {"perTryTimeout": "2s"},
            "match": [{"uri": {"prefix": "/v1"}, "port": 80,
                "headers": {"X-A": {"exact": "1"}, "X-Virtual-Env": {"exact": "dev"}}}],
            "route": [{"destination": {"host": "cart", "subset": "dev"}, "weight": 100,
                "headers": {"request": {"set": {"X-B": "2"}}}}],
        });
        assert_eq!(rule.expect("valid").with(&matching, &route), expected);
    }

    #[test]
    fn headers_that_must_not_be_there_are_added_to_those_of_the_rule() {
        let rule = read(
            r#"{"match": [{"withoutHeaders": {"X-A": {"exact": "1"}, "x-virtual-env": {"exact": "a"}}}]}"#,
        );
        let whole = rule.expect("valid").with(&json!({"withoutHeaders": {"X-Virtual-Env": {}}}), &json!({}));
        let expected = json!([{"withoutHeaders": {"X-A": {"exact": "1"}, "X-Virtual-Env": {}}}]);
        assert_eq!(whole["match"], expected);
    }

    #[test]
    fn what_is_no_part_of_a_route_is_refused() {
        for (text, expected) in [
            ("{", "is not JSON"),
            ("[]", "expected a JSON object"),
            (r#"{"rewrit": {}}"#, "rewrit is an unknown field; expected one of"),
            (r#"{"match": [{"uri": {"begins": "/"}}]}"#, "match[0].uri.begins is an unknown field"),
            (r#"{"match": {}}"#, "match: expected a list"),
            (r#"{"rewrite": []}"#, "rewrite: expected an object"),
            (r#"{"redirect": {"uri": "/"}}"#, "redirect can't be combined with"),
            (r#"{"timeout": "1s", "Timeout": "2s"}"#, "timeout is repeated"),
        ] {
            let found = read(text).expect_err(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert_eq!(read("{}").map(|rule| rule == HttpRouteRule::default()), Ok(true));
    }
}
