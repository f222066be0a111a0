//! Parameters: what a template lets the pod or the values say, by a name that its texts use.

use super::reading::Reader;
use crate::template::Sight;
use policy::Problem;
use serde_json::Value;
use std::collections::BTreeMap;

/// One parameter: the annotation wins, then MeshConfig, then the value, then the default. Where none of them says anything, it
/// isn't set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// The annotation of the pod.
    pub(super) annotation: Option<String>,
    /// The place in MeshConfig, such as `trustDomain`.
    pub(super) mesh: Option<String>,
    /// The place in the values, such as `global.caAddress`.
    pub(super) values: Option<String>,
    pub(super) default: Option<String>,
    /// Whether a pod can't be injected without it.
    pub(super) required: bool,
}

/// What a parameter is for a pod, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) source: String,
}

/// What templates may write of a parameter.
const WORDS: [&str; 5] = ["annotation", "mesh", "values", "default", "required"];

impl Parameter {
    /// Reads what stands under `parameters`.
    pub(super) fn read(written: &Value, reader: &mut Reader) -> Vec<Self> {
        let Some(entries) = reader.entries(written, "parameters") else { return Vec::new() };
        let mut found = Vec::new();
        for (name, written) in entries {
            let at = format!("parameters.{name}");
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            if !is_name {
                reader.problem(&at, None, "is no name; expected a letter, then letters and digits");
            }
            let Some(fields) = reader.entries(written, &at) else { continue };
            for word in fields.keys().filter(|word| !WORDS.contains(&word.as_str())) {
                reader.unknown(&at, word, WORDS.iter().copied());
            }
            let mut text = |word: &str| match fields.get(word) {
                None => None,
                Some(written) => {
                    let text = plain(written);
                    if text.is_none() {
                        reader.problem(&format!("{at}.{word}"), None, "is no text");
                    }
                    text
                }
            };
            let (annotation, mesh, values) = (text("annotation"), text("mesh"), text("values"));
            let default = text("default");
            let required = match fields.get("required") {
                None => false,
                Some(Value::Bool(is)) => *is,
                Some(_) => {
                    reader.problem(&format!("{at}.required"), None, "is neither true nor false");
                    false
                }
            };
            if [&annotation, &mesh, &values, &default].iter().all(|way| way.is_none()) {
                reader.problem(&at, None, "can never be set; expected annotation, mesh, values or default");
            }
            found.push(Self { name: name.clone(), annotation, mesh, values, default, required });
        }
        found
    }

    /// What it is for a pod; `None` where it isn't set.
    ///
    /// # Errors
    /// When it has to be set and isn't, or the value is a list or a mapping.
    pub(super) fn of(&self, sight: &Sight<'_>) -> Result<Option<Said>, Problem> {
        let annotated = self.annotation.as_ref().and_then(|key| {
            let value = sight.pod.get("metadata")?.get("annotations")?.get(key)?.as_str()?;
            Some(Said { text: value.to_owned(), source: format!("annotation {key}") })
        });
        if annotated.is_some() {
            return Ok(annotated);
        }
        let configuration = sight.configuration;
        let trees = [
            ("mesh", &self.mesh, &configuration.mesh.raw),
            ("values", &self.values, &configuration.values.raw),
        ];
        for (name, path, tree) in trees {
            let Some(path) = path else { continue };
            match path.split('.').try_fold(tree, |value, key| value.get(key)) {
                None | Some(Value::Null) => {}
                Some(value) => match plain(value) {
                    Some(text) if text.is_empty() => {}
                    Some(text) => return Ok(Some(Said { text, source: format!("{name}: {path}") })),
                    None => {
                        let name = format!("{name}: {path}");
                        return Err(Problem::of(&name, "is a list or a mapping; expected a text"));
                    }
                },
            }
        }
        match &self.default {
            Some(text) => Ok(Some(Said { text: text.clone(), source: format!("parameter {}", self.name) })),
            None if self.required => {
                let ways: Vec<String> =
                    (self.annotation.iter().map(|key| format!("the pod's annotation {key}")))
                        .chain(self.mesh.iter().map(|path| format!("{path} of MeshConfig")))
                        .chain(self.values.iter().map(|path| format!("{path} of the values")))
                        .collect();
                let text = format!("has to be set; say it with {}", ways.join(" or "));
                Err(Problem::of(&format!("parameter {}", self.name), text))
            }
            None => Ok(None),
        }
    }
}

/// A scalar as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// All of them for a pod, by name.
///
/// # Errors
/// Every one that can't be.
pub(super) fn all(
    parameters: &[Parameter],
    sight: &Sight<'_>,
) -> Result<BTreeMap<String, Said>, Vec<Problem>> {
    let (mut said, mut problems) = (BTreeMap::new(), Vec::new());
    for parameter in parameters {
        match parameter.of(sight) {
            Ok(found) => said.extend(found.map(|found| (parameter.name.clone(), found))),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(said) } else { Err(problems) }
}
