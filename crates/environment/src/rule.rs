//! A Service's additions to its routes: a part of Istio's HTTPRoute in the annotation `kt-virtual-environment/rule`.

use mesh::InputProblem;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

pub const RULE: &str = "kt-virtual-environment/rule";

/// Fields that replace a route's destination; Istio does not accept both.
const NO_ROUTE: [&str; 3] = ["redirect", "directResponse", "delegate"];

/// A part of an HTTPRoute with Istio's field names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRouteRule {
    rest: Map<String, Value>,
    /// Conditions of each match besides the header and the port.
    matching: Map<String, Value>,
    /// Fields of each route besides a destination and its weight.
    route: Map<String, Value>,
}

impl HttpRouteRule {
    /// Parses a rule; keys are case-insensitive. Only the first match and destination are used.
    pub(crate) fn read(place: &str, text: &str) -> Result<Self, Vec<InputProblem>> {
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
        let named = named(&HTTP_ROUTE, &value, "", &mut |text| problems.push(InputProblem::of(place, text)));
        let Value::Object(mut rest) = named else { return Err(problems) };
        for field in NO_ROUTE.iter().filter(|field| rest.contains_key(**field)) {
            let text = format!("{field} can't be combined with the route to an environment; remove it");
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
        // A rule can't change the destination.
        route.remove("destination");
        if problems.is_empty() { Ok(Self { rest, matching, route }) } else { Err(problems) }
    }

    pub(crate) fn with(&self, matching: &Value, route: &Value) -> Value {
        let mut whole = self.rest.clone();
        whole.insert("match".to_owned(), json!([over(&self.matching, matching)]));
        whole.insert("route".to_owned(), json!([over(&self.route, route)]));
        Value::Object(whole)
    }
}

/// Overrides a rule's fields. Objects are merged; a header's condition is replaced whole.
fn over(base: &Map<String, Value>, fields: &Value) -> Map<String, Value> {
    let mut merged = base.clone();
    for (key, value) in fields.as_object().into_iter().flatten() {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => {
                // Header names are case-insensitive.
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

static HTTP_ROUTE: LazyLock<Value> = LazyLock::new(|| {
    let schema = mesh::pod::values("http_route.yaml", include_str!("http_route.yaml"));
    schema.unwrap_or_else(|problems| panic!("{problems}")).remove(0)
});

/// Renames fields to Istio's names; omits nulls.
fn named(schema: &Value, value: &Value, path: &str, refuse: &mut dyn FnMut(String)) -> Value {
    match (schema, value) {
        (Value::Array(schema), Value::Array(items)) => {
            let items = items.iter().enumerate();
            items.map(|(at, item)| named(&schema[0], item, &format!("{path}[{at}]"), refuse)).collect()
        }
        (Value::Object(known), Value::Object(fields)) => {
            let mut found = Map::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let (name, schema) = match known.iter().find(|(name, _)| *name == "*" || is_same(name, key)) {
                    Some((name, schema)) if name == "*" => (key, schema),
                    Some(field) => field,
                    None => {
                        let names: Vec<&str> = known.keys().map(String::as_str).collect();
                        refuse(format!("{path} is an unknown field; expected one of {}", names.join(", ")));
                        continue;
                    }
                };
                if found.insert(name.clone(), named(schema, value, &path, refuse)).is_some() {
                    refuse(format!("{path} is repeated, in different cases; remove one"));
                }
            }
            Value::Object(found)
        }
        (Value::Array(_) | Value::Object(_), _) => {
            let expected = if schema.is_array() { "a list" } else { "an object" };
            refuse(format!("{path}: expected {expected}"));
            Value::Null
        }
        (_, value) => value.clone(),
    }
}

/// Compares ignoring case and underscores: `perTryTimeout` equals `per_try_timeout`.
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
    fn required_absent_headers_are_added_to_the_rules() {
        let rule = read(
            r#"{"match": [{"withoutHeaders": {"X-A": {"exact": "1"}, "x-virtual-env": {"exact": "a"}}}]}"#,
        );
        let whole = rule.expect("valid").with(&json!({"withoutHeaders": {"X-Virtual-Env": {}}}), &json!({}));
        let expected = json!([{"withoutHeaders": {"X-A": {"exact": "1"}, "X-Virtual-Env": {}}}]);
        assert_eq!(whole["match"], expected);
    }

    #[test]
    fn unknown_fields_are_refused() {
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
