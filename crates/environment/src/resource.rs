//! Parser of VirtualEnvironments that reports all problems at once.

use injection::syntax;
use mesh::{Problems, data::document::DocumentReader};
use regex_syntax::ast::{ErrorKind, parse::Parser};
use serde_json::Value;

pub const GROUP: &str = "env.alibaba.com";
pub const VERSION: &str = "v1alpha2";
pub const KIND: &str = "VirtualEnvironment";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualEnvironment {
    pub name: String,
    pub namespace: String,
    /// `None` if the object does not come from an API server.
    pub uid: Option<String>,
    /// RFC 3339 in UTC, as the API server writes it, so strings sort like times.
    pub created: String,
    /// `metadata.generation`, which the API server increments with each change of the spec.
    pub generation: Option<i64>,
    /// Deletion has begun, but finalizers keep the object, as with `--cascade=foreground` or `orphan`.
    pub is_going: bool,
    pub spec: Result<EnvironmentSpec, Problems>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentSpec {
    /// Header that holds a request's environment: an HTTP token.
    pub header: String,
    pub auto_inject: bool,
    pub aliases: Vec<Alias>,
    /// Label that holds a pod's environment.
    pub label: String,
    /// Separator between an environment and a derived environment's suffix.
    pub splitter: char,
    /// Environment for requests without one, or with one that has no pods; `None` selects all the Service's pods.
    pub default_subset: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub header: String,
    /// `None` if the header's value is the environment.
    pub pattern: Option<AliasPattern>,
}

pub(crate) const HEADER: &str = "X-Virtual-Env";
pub(crate) const LABEL: &str = "virtual-env";
pub(crate) const SPLITTER: char = '.';
/// Default placeholder for the environment in an alias's pattern.
pub(crate) const PLACEHOLDER: &str = "(@)";

/// Names that Istio reads as parts of the request line, not as headers.
const NO_HEADERS: [&str; 4] = ["uri", "scheme", "method", "authority"];

impl VirtualEnvironment {
    pub fn read(object: &Value, namespace: &str) -> Self {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        let namespace = namespace_of(object, namespace).to_owned();
        let title = format!("{KIND} {namespace}/{name}");
        Self {
            uid: text("/metadata/uid").map(str::to_owned),
            created: text("/metadata/creationTimestamp").unwrap_or_default().to_owned(),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
            is_going: text("/metadata/deletionTimestamp").is_some(),
            spec: spec(&title, object),
            name,
            namespace,
        }
    }

    pub fn title(&self) -> String {
        format!("{KIND} {}/{}", self.namespace, self.name)
    }
}

/// The namespace of an object; `default` if it has none or an empty one, as in kubectl.
pub fn namespace_of<'a>(object: &'a Value, default: &'a str) -> &'a str {
    let named = object.pointer("/metadata/namespace").and_then(Value::as_str);
    named.filter(|name| !name.is_empty()).unwrap_or(default)
}

fn spec(title: &str, object: &Value) -> Result<EnvironmentSpec, Problems> {
    let mut reader = DocumentReader::of(title, object);
    let expected = format!("{GROUP}/{VERSION}");
    if object["apiVersion"] != *expected {
        let found = object["apiVersion"].as_str().unwrap_or_default();
        reader.problem("apiVersion", Some(found), format!("is invalid; expected {expected}"));
    }
    reader.only("spec", &["envHeader", "envLabel"]);
    reader.only("spec.envHeader", &["name", "autoInject", "aliases"]);
    let header = reader.string("spec.envHeader.name").unwrap_or(HEADER).to_owned();
    check_header(&mut reader, "spec.envHeader.name", &header);
    let auto_inject = reader.boolean("spec.envHeader.autoInject").unwrap_or(false);
    let aliases = 0..reader.list("spec.envHeader.aliases").len();
    let aliases = aliases.map(|at| alias(&mut reader, &format!("spec.envHeader.aliases[{at}]"))).collect();

    reader.only("spec.envLabel", &["name", "splitter", "defaultSubset"]);
    let label = reader.string("spec.envLabel.name").unwrap_or(LABEL).to_owned();
    if !syntax::is_label_key(&label) {
        let text = format!("is not a label; {}", syntax::LABEL_KEY);
        reader.problem("spec.envLabel.name", Some(&label), text);
    }
    let default = SPLITTER.to_string();
    let splitter = reader.string("spec.envLabel.splitter").unwrap_or(&default);
    let mut characters = splitter.chars();
    let only = characters.next().filter(|_| characters.next().is_none());
    if only.is_none() {
        let text = "is not one character; expected the separator in environment names, such as .";
        reader.problem("spec.envLabel.splitter", Some(splitter), text);
    }
    let default_subset = reader.string("spec.envLabel.defaultSubset").map(str::to_owned);
    if let Some(value) = default_subset.as_ref().filter(|value| !syntax::is_label_value(value)) {
        let text =
            "is not a label value; expected an environment such as dev, or no defaultSubset for all pods";
        reader.problem("spec.envLabel.defaultSubset", Some(value), text);
    }
    Problems::check(reader.finish())?;
    let splitter = only.unwrap_or(SPLITTER);
    Ok(EnvironmentSpec { header, auto_inject, aliases, label, splitter, default_subset })
}

fn alias(reader: &mut DocumentReader<'_>, path: &str) -> Alias {
    reader.only(path, &["name", "pattern", "placeholder"]);
    let name = format!("{path}.name");
    let header = reader.string(&name);
    match header {
        Some(header) => check_header(reader, &name, header),
        None if reader.at(&name).is_none() => {
            reader.problem(&name, None, "is missing; expected the name of a header");
        }
        None => {}
    }
    let placeholder = reader.string(&format!("{path}.placeholder")).filter(|text| !text.is_empty());
    let pattern = format!("{path}.pattern");
    let text = reader.string(&pattern).filter(|text| !text.is_empty());
    let read = text.map(|text| AliasPattern::read(text, placeholder.unwrap_or(PLACEHOLDER))).transpose();
    let read = read.unwrap_or_else(|why| {
        reader.problem(&pattern, text, why);
        None
    });
    Alias { header: header.unwrap_or_default().to_owned(), pattern: read }
}

fn check_header(reader: &mut DocumentReader<'_>, path: &str, name: &str) {
    if !syntax::is_token(name) {
        let text = "is not a header name; expected letters, digits and -, such as X-Virtual-Env";
        reader.problem(path, Some(name), text);
    } else if NO_HEADERS.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        let text = "is not matched as a header by Istio, so every request would match; use another name";
        reader.problem(path, Some(name), text);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasPattern(Vec<String>);

impl AliasPattern {
    fn read(text: &str, placeholder: &str) -> Result<Self, String> {
        let pattern = Self(text.split(placeholder).map(str::to_owned).collect());
        if pattern.0.len() < 2 {
            return Err(format!(
                "lacks the placeholder {placeholder:?}, so it would match every environment; expected it in \
                 place of the environment, such as .*;env={placeholder};.*"
            ));
        }
        match fault(&pattern.of("dev.red")) {
            None => Ok(pattern),
            Some(fault) => Err(format!("is not an RE2 regular expression: {fault}")),
        }
    }

    /// The expression for an environment, with escaped dots.
    pub fn of(&self, environment: &str) -> String {
        self.0.join(&environment.replace('.', "\\."))
    }
}

/// A fault for which RE2, and so Envoy, refuses an expression. The parser's dialect differs, so only faults in both dialects
/// count; RE2 accepts a brace that repeats nothing.
fn fault(expression: &str) -> Option<ErrorKind> {
    let kind = Parser::new().parse(expression).err()?.kind().clone();
    let counts = match kind {
        ErrorKind::ClassRangeInvalid
        | ErrorKind::ClassUnclosed
        | ErrorKind::EscapeUnexpectedEof
        | ErrorKind::GroupUnclosed
        | ErrorKind::GroupUnopened
        | ErrorKind::UnsupportedBackreference
        | ErrorKind::UnsupportedLookAround => true,
        ErrorKind::RepetitionMissing => !expression.contains('{'),
        _ => false,
    };
    counts.then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(spec: &Value) -> Result<EnvironmentSpec, String> {
        let object = json!({
            "apiVersion": "env.alibaba.com/v1alpha2", "kind": KIND,
            "metadata": {"name": "demo", "namespace": "shop"}, "spec": spec,
        });
        VirtualEnvironment::read(&object, "").spec.map_err(|problems| problems.to_string())
    }

    #[test]
    fn omitted_fields_have_defaults() {
        for empty in [json!({}), Value::Null, json!({"envHeader": null, "envLabel": {"name": null}})] {
            let spec = read(&empty).expect("valid");
            assert_eq!((&*spec.header, spec.auto_inject, spec.aliases.len()), ("X-Virtual-Env", false, 0));
            assert_eq!((&*spec.label, spec.splitter, spec.default_subset), ("virtual-env", '.', None));
        }
    }

    #[test]
    fn metadata_of_the_api_server_is_read() {
        let object = json!({
            "apiVersion": "env.alibaba.com/v1alpha1", "kind": KIND, "spec": {},
            "metadata": {
                "name": "demo", "namespace": "shop", "uid": "u", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-02-01T00:00:00Z",
            },
        });
        let found = VirtualEnvironment::read(&object, "other");
        let of_server = (found.uid.as_deref(), found.created.as_str(), found.generation, found.is_going);
        assert_eq!(of_server, (Some("u"), "2026-01-01T00:00:00Z", Some(2), true));
        assert_eq!(found.title(), "VirtualEnvironment shop/demo");
        let problems: Vec<String> =
            found.spec.expect_err("another version").0.iter().map(ToString::to_string).collect();
        let expected = "VirtualEnvironment shop/demo: apiVersion: \"env.alibaba.com/v1alpha1\" is invalid; expected env.alibaba.com/v1alpha2";
        assert_eq!(problems, [expected]);
        let found = VirtualEnvironment::read(&json!({"metadata": {"name": "demo"}}), "other");
        assert_eq!(
            (found.title().as_str(), found.uid, found.is_going),
            ("VirtualEnvironment other/demo", None, false)
        );
    }

    #[test]
    fn a_splitter_is_any_one_character() {
        assert_eq!(read(&json!({"envLabel": {"splitter": "é"}})).map(|spec| spec.splitter), Ok('é'));
    }

    #[test]
    fn aliases_hold_the_environment_anywhere() {
        let alias = |alias: Value| {
            read(&json!({"envHeader": {"aliases": [alias]}})).map(|spec| spec.aliases[0].clone())
        };
        let of = |value: Value| alias(value).expect("valid").pattern.map(|pattern| pattern.of("base.red"));
        assert_eq!(
            of(json!({"name": "Cookie", "pattern": ".*;env=(@);.*"})),
            Some(".*;env=base\\.red;.*".to_owned())
        );
        assert_eq!(
            of(json!({"name": "C", "pattern": "a@b@", "placeholder": "@"})),
            Some("abase\\.redbbase\\.red".to_owned())
        );
        assert_eq!(of(json!({"name": "X-Other"})), None);
    }
}
