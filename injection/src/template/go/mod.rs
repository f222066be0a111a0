//! Templates in Go's language, as Istio's ConfigMap has them.
//!
//! ```text
//! text       read       methods become fields; parsed; functions known
//! Sight      data       by Go's names
//! both       functions  filled: steps, sizes and depth have limits
//! YAML       output     whole, a mapping; nothing of the pod's is read as structure
//! ```
//!
//! Nothing is asked of the machine: `env` answers from `pilot.env` of the values, and no function knows a clock or chance.

mod data;
mod fields;
mod functions;
mod odd;
mod output;
mod standin;
mod text;

use super::Sight;
use gtmpl_ng::{Context, ExecError, Limits, ParseError};
use policy::{Problem, Problems};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The most that one filling may do: far beyond any template for pods, and soon over.
const LIMITS: Limits = {
    let mut limits = Limits::DEFAULT;
    limits.iterations = Some(10_000);
    limits.total_iterations = Some(50_000);
    limits.output_bytes = Some(2 << 20);
    limits.function_output = Some(512 << 10);
    limits
};

/// A text that was parsed. Copies share it.
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
    /// Parses a template. `name` is what problems call it.
    ///
    /// # Errors
    /// What is no template, by its line; functions that aren't known, by name.
    pub fn read(name: &str, text: &str) -> Result<Self, Problems> {
        let text = text::prepare(name, text).map_err(Problems)?;
        let mut parsed = gtmpl_ng::Template::with_limits(LIMITS);
        parsed.funcs.extend(functions::all().map(|(name, function)| (name.to_owned(), function)));
        parsed.parse(text).map_err(|error| Problems(vec![Problem::of(name, malformed(&error))]))?;
        Ok(Self { name: name.into(), parsed: Arc::new(parsed) })
    }

    /// The patch of the pod.
    ///
    /// # Errors
    /// What of the template can't be filled in, what it makes if that is no patch, and texts of the pod that would be read
    /// as YAML in it.
    pub fn render(&self, sight: &Sight<'_>) -> Result<Value, Problems> {
        let plain = self.filled(sight, &str::to_owned).and_then(|text| output::patch(&self.name, &text));
        if odd::texts(sight).is_empty() {
            return plain;
        }
        let covered = self.filled(sight, &standin::cover).and_then(|text| output::patch(&self.name, &text));
        match (plain, covered.map(output::uncovered)) {
            (Ok(patch), Ok(meant)) => match output::difference(&patch, &meant) {
                None => Ok(patch),
                Some(path) => Err(self.refused(sight, &meant, &path)),
            },
            // Only what the pod says makes the difference.
            (Err(_), Ok(meant)) => Err(self.refused(sight, &meant, "")),
            (_, Err(problems)) => Err(problems),
        }
    }

    fn filled(&self, sight: &Sight<'_>, text: &dyn Fn(&str) -> String) -> Result<String, Problems> {
        let context = Context::from(data::root(sight, text));
        let filled = functions::with(&data::variables(sight), || self.parsed.render(&context));
        filled.map_err(|error| Problems(vec![Problem::of(&*self.name, failed(&error))]))
    }

    /// Names the texts of the pod that would be structure: each one that makes a difference alone.
    fn refused(&self, sight: &Sight<'_>, meant: &Value, path: &str) -> Problems {
        let mut problems = Vec::new();
        for (place, text) in odd::texts(sight) {
            let cover = |other: &str| if other == text { other.to_owned() } else { standin::cover(other) };
            let alone = self.filled(sight, &cover).and_then(|text| output::patch(&self.name, &text));
            if !alone.is_ok_and(|patch| output::difference(&output::uncovered(patch), meant).is_none()) {
                let (name, remedy) = (&self.name, "a template should hand it to quote, toJson or toYaml");
                let what = format!(
                    "would be read as YAML where {name} puts it; expected a text that is no YAML, or {remedy}"
                );
                problems.push(Problem::with_item(&place, text, what));
            }
        }
        if problems.is_empty() {
            let at = if path.is_empty() { "its result" } else { path };
            let what = format!(
                "would read texts of the pod as YAML, in {at}: a template should hand them to quote or toJson"
            );
            problems.push(Problem::of(&*self.name, what));
        }
        Problems(problems)
    }
}

/// What the engine says about a text that it can't parse.
fn malformed(error: &ParseError) -> String {
    let ParseError::WithContext(place, text) = error else { return format!("is no template: {error}") };
    let text = text.rsplit_once(": ").map_or(text.as_str(), |(_, last)| last);
    let unknown = text.strip_prefix("function ").and_then(|rest| rest.strip_suffix(" not defined"));
    let what = match unknown {
        Some(function) => match functions::missing(function) {
            Some(why) => format!("function {function} is not offered: {why}"),
            None => format!("function {function} is unknown"),
        },
        None => text.to_owned(),
    };
    format!("line {}: {what}", place.line)
}

/// What the engine says about a template that it can't fill: the innermost place.
fn failed(error: &ExecError) -> String {
    match error.as_structured() {
        Some(error) => format!("line {}: {}", error.context.line, shortened(&error.message)),
        None => format!("can't be filled: {}", shortened(&error.to_string())),
    }
}

/// The engine prints whole values with what is wrong with them.
fn shortened(message: &str) -> String {
    const MOST: usize = 300;
    let mut short: String = message.chars().take(MOST).collect();
    if message.chars().nth(MOST).is_some() {
        short.push_str("..");
    }
    short
}
