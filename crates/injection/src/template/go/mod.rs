//! Go templates as in Istio's ConfigMap.
//!
//! - `text` rewrites parts that the engine lacks, such as method calls; then the engine parses the template.
//! - `data` makes the template's values, with Go's names.
//! - The engine renders the template with `functions`; steps, sizes and depth have limits.
//! - The result is parsed as YAML, and must be a mapping; no string of the pod may be read as structure (`standin`).
//!
//! Templates can't read the machine: `env` reads the values' `pilot.env`. No function uses a clock or random numbers. An
//! unsupported function fails when called, not when parsed, so an unused branch refuses no pod.

mod data;
mod functions;
mod standin;
mod text;

pub(crate) use data::plain;
pub(crate) use functions::codings::as_go_writes;
pub use functions::names as functions;
pub(crate) use functions::refused;

use super::TemplateContext;
use crate::{admission::Cancellation, pipeline::unread};
use gtmpl_ng::{Context, ExecError, Func, Limits, ParseError};
use mesh::{InputProblem, Problems};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Limits of one rendering: far above the needs of pods' templates, and low enough to end soon.
const LIMITS: Limits = {
    let mut limits = Limits::DEFAULT;
    limits.iterations = Some(10_000);
    limits.total_iterations = Some(50_000);
    limits.output_bytes = Some(2 << 20);
    limits.function_output = Some(functions::MAX_OUTPUT);
    limits
};

/// A parsed template; clones share it.
#[derive(Clone)]
pub struct Template {
    name: Arc<str>,
    parsed: Arc<gtmpl_ng::Template>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Template {
    /// Parses a template; `name` is its name in problems. A syntax error includes its line.
    pub fn read(name: &str, text: &str) -> Result<Self, Problems> {
        Ok(Self { name: name.into(), parsed: Arc::new(parsed(name, text, &[])?) })
    }

    /// The patch of the pod, and `warnings` about it. Errors: a part of the template can't be rendered, the result is not a
    /// patch, or a string of the pod would be read as YAML.
    pub fn render(
        &self,
        context: &TemplateContext<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Problems> {
        let covered = self.filled(context, standin::cover);
        warnings.extend(functions::remarks().iter().map(|remark| format!("{}: {remark}", self.name)));
        if let Ok(covered) = &covered
            && !standin::are_left(covered)
        {
            // The result contains no raw pod string with a meaning in YAML.
            return patch(&self.name, covered, warnings);
        }
        let plain = self.filled(context, str::to_owned).and_then(|text| patch(&self.name, &text, warnings));
        let intended = covered.as_ref().ok().and_then(|covered| self.intended(covered));
        // Both patches are equal unless a string of the pod was read as structure in the first (`standin`).
        match (plain, intended) {
            (Ok(plain), Some(intended)) if plain == intended => Ok(plain),
            (Err(problems), None) => Err(problems),
            (_, intended) => Err(self.refused(context, &covered.unwrap_or_default(), intended.as_ref())),
        }
    }

    /// The patch of a result with stand-ins, which are then resolved.
    fn intended(&self, covered: &str) -> Option<Value> {
        patch(&self.name, covered, &mut Vec::new()).ok().map(uncovered)
    }

    fn filled(&self, context: &TemplateContext<'_>, text: fn(&str) -> String) -> Result<String, Problems> {
        let root = data::root(context, text);
        functions::begin(context.values.environment(), context.admission.cancellation.clone());
        let filled = rendered(&self.name, &self.parsed, root)?;
        // The engine prints `Function` for the value that replaces unread variables.
        if filled.contains("Function") && unread::is_in(context.pod) {
            return Err(unread::refusal(&self.name));
        }
        Ok(filled)
    }

    /// Reports lines, or the annotations in them, that are read as structure: resolving only such a line's stand-ins changes the
    /// `intended` patch. Without an intended patch, the template needs structure: keeping only such a line's stand-ins prevents a
    /// patch.
    fn refused(&self, context: &TemplateContext<'_>, covered: &str, intended: Option<&Value>) -> Problems {
        const MAX_LINES: usize = 64;
        let lines: Vec<&str> = covered.lines().collect();
        let is_harmful = |at: &usize| {
            let line = |(other, line): (usize, &&str)| {
                if (other == *at) == intended.is_some() { standin::uncover(line) } else { (*line).to_owned() }
            };
            let text = lines.iter().enumerate().map(line).collect::<Vec<_>>().join("\n");
            let made = self.intended(&text);
            made.is_none() || (intended.is_some() && made.as_ref() != intended)
        };
        let suspicious = (0..lines.len()).filter(|at| standin::are_left(lines[*at])).take(MAX_LINES);
        let annotations = context.pod.pointer("/metadata/annotations").and_then(Value::as_object);
        let mut problems = Vec::new();
        for at in suspicious.filter(is_harmful) {
            let line = standin::uncover(lines[at]);
            let mut texts =
                annotations.into_iter().flatten().filter_map(|(key, text)| Some((&**key, text.as_str()?)));
            let held = texts.find(|(_, text)| standin::is_suspicious(text) && line.contains(text));
            let (who, text) = held.unwrap_or((&self.name, line.trim()));
            let what = format!(
                "would be read as YAML in the output of {}; expected a plain string, or a template that \
                 passes it to quote, toJson or toYaml",
                self.name
            );
            problems.push(InputProblem::with_item(who, text, what));
        }
        if problems.is_empty() {
            let what = "strings of the pod would be read as YAML in its output; pass them to quote, toJson or toYaml";
            problems.push(InputProblem::of(&*self.name, what));
        }
        Problems(Problems::first(problems))
    }
}

type FurtherFunctions = [(&'static str, Func)];

pub(crate) fn parsed(
    name: &str,
    text: &str,
    further: &FurtherFunctions,
) -> Result<gtmpl_ng::Template, Problems> {
    let is_further = |name: &str| further.iter().any(|(known, _)| *known == name);
    let text = text::prepare(text, &|name| functions::lacking(name).filter(|_| !is_further(name)));
    let mut parsed = gtmpl_ng::Template::with_limits(LIMITS);
    let hidden =
        [(text::MEMBER, functions::durations::member as Func), (text::UNUSABLE, functions::unusable)];
    let offered = functions::all().chain(hidden).chain(further.iter().copied());
    parsed.funcs.extend(offered.map(|(name, function)| (name.to_owned(), function)));
    parsed.parse(text).map_err(|error| Problems(vec![InputProblem::of(name, malformed(&error))]))?;
    Ok(parsed)
}

pub(crate) fn rendered(
    name: &str,
    parsed: &gtmpl_ng::Template,
    data: gtmpl_ng::Value,
) -> Result<String, Problems> {
    let filled = parsed.render(&Context::from(data));
    filled.map_err(|error| Problems(vec![InputProblem::of(name, failed(&error))]))
}

pub(crate) fn filled(
    name: &str,
    text: &str,
    further: &FurtherFunctions,
    data: &Value,
) -> Result<String, Problems> {
    functions::begin(BTreeMap::new(), Cancellation::default());
    rendered(name, &parsed(name, text, further)?, plain(data))
}

pub(crate) fn made(name: &str, parsed: &gtmpl_ng::Template, data: &Value) -> Result<Value, Problems> {
    functions::begin(BTreeMap::new(), Cancellation::default());
    patch(name, &rendered(name, parsed, plain(data))?, &mut Vec::new())
}

fn malformed(error: &ParseError) -> String {
    let ParseError::WithContext(place, text) = error else { return format!("is not a template: {error}") };
    let text = text.rsplit_once(": ").map_or(text.as_str(), |(_, last)| last);
    format!("line {}: {text}", place.line)
}

/// Template data that later Istio releases lack, and the releases whose templates use it.
const OLDER: &[(&str, &str)] = &[("EstimatedConcurrency", "1.9 to 1.17")];

/// The engine's message with the innermost location.
fn failed(error: &ExecError) -> String {
    match error.as_structured() {
        Some(error) => {
            let older = OLDER.iter().find(|(field, _)| error.message.contains(&format!("`{field}`")));
            let older = older.map(|(_, releases)| {
                format!("; this is a template of Istio {releases}; supported are 1.24 to 1.31")
            });
            format!("line {}: {}{}", error.context.line, shortened(&error.message), older.unwrap_or_default())
        }
        None => format!("can't be rendered: {}", shortened(&error.to_string())),
    }
}

/// The message up to the first map in it, which may be a whole pod, or contain secrets of the values.
fn shortened(message: &str) -> String {
    const MAX_LENGTH: usize = 300;
    let end = message.find("map[").unwrap_or(message.len());
    let mut short: String = message[..end].chars().take(MAX_LENGTH).collect();
    if short.len() < end {
        short.push_str("..");
    } else if end < message.len() {
        short.push_str("a map");
    }
    short
}

/// Go's output for nil.
const NOTHING: [&str; 2] = ["<no value>", "<nil>"];

/// The patch in a rendered result: its first document, a mapping. The last of duplicate keys wins, as in Istio, whose templates
/// write a volume's `name` and then the pod's volume. `warnings` gets these keys.
fn patch(name: &str, text: &str, warnings: &mut Vec<String>) -> Result<Value, Problems> {
    Problems::check(text.lines().zip(1..).filter_map(|(line, number)| {
        let nothing = NOTHING.iter().find(|nothing| line.contains(**nothing))?;
        let what = format!(
            "prints {nothing} on line {number} of its output, for a value that is not set; set it, or give a default"
        );
        Some(InputProblem::with_item(name, line.trim(), what))
    }))?;
    let (documents, remarks) = mesh::pod::values_of_later_keys(name, text)?;
    warnings.extend(remarks.iter().map(|remark| format!("{name}: in its output, {remark}")));
    match documents.into_iter().next() {
        Some(patch @ Value::Object(_)) => Ok(patch),
        // A template may have no changes for a pod.
        Some(Value::Null) | None => Ok(Value::Object(Map::new())),
        Some(_) => {
            let text = "renders to YAML that is not a mapping; expected a pod's metadata and spec";
            Err(Problems(vec![InputProblem::of(name, text)]))
        }
    }
}

fn uncovered(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(standin::uncover(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(uncovered).collect()),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(key, value)| (standin::uncover(&key), uncovered(value))).collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn engine_errors_are_cut_before_values() {
        let (most, wide) = ("a".repeat(300), "é".repeat(300));
        for (message, expected) in [
            ("no field".to_owned(), "no field".to_owned()),
            ("in map[a:1]".to_owned(), "in a map".to_owned()),
            ("map[a:map[b:1]]".to_owned(), "a map".to_owned()),
            (most.clone(), most.clone()),
            (wide.clone(), wide.clone()),
            (format!("{most}b"), format!("{most}..")),
            (format!("{wide}b"), format!("{wide}..")),
            (format!("{most}map[]"), format!("{most}a map")),
            (format!("{most}bmap[]"), format!("{most}..")),
        ] {
            assert_eq!(shortened(&message), expected, "{message}");
        }
    }

    #[test]
    fn a_patch_is_whole_and_a_mapping() {
        let patch = |text: &str| patch("t", text, &mut Vec::new());
        assert_eq!(patch("a: 1\n---\nb: 2\n"), Ok(json!({"a": 1})));
        assert_eq!(patch(" \n# nothing\n"), Ok(json!({})));
        let shown = patch("a:\n- b: <no value>\n- '<nil>'\n").expect_err("nothing").to_string();
        assert!(
            shown.contains("\"- b: <no value>\" prints <no value> on line 2") && shown.contains("line 3"),
            "{shown}"
        );
        for (text, expected) in [("- a\n", "not a mapping"), ("a: [\n", "is not YAML")] {
            let shown = patch(text).expect_err("no patch").to_string();
            assert!(shown.contains(expected), "{shown}");
        }
    }
}
