//! A pod's annotations, read one by one; every problem with any of them is collected.

use crate::mesh_config::list::{excess, listed};
use crate::namespaces::strings;
use crate::quantity;
use mesh::settings::mapping::AnnotationForm;
use mesh::sources::{Wildcard, boolean};
use mesh::{InputProblem, pod};
use serde_json::Value;
use std::collections::BTreeMap;

/// The annotations of a pod, with the problems and warnings found so far.
pub(super) struct Annotations<'a> {
    given: BTreeMap<&'a str, &'a str>,
    pub(super) problems: Vec<InputProblem>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Annotations<'a> {
    pub(super) fn of(pod: &'a Value) -> Self {
        let given: BTreeMap<&str, &str> = strings(pod, "annotations").collect();
        let warnings = pod::unknown_among(given.keys());
        Self { given, problems: Vec::new(), warnings }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.given.get(name).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.given.iter().map(|(name, value)| (*name, *value))
    }

    pub(super) fn problem(&mut self, name: &str, item: &str, text: impl Into<String>) {
        self.problems.push(InputProblem::with_item(name, item, text));
    }

    /// An annotation that `read` reads; `expected` says what would be right.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(name)?;
        let parsed = read(value);
        if parsed.is_none() {
            self.problem(name, value, expected);
        }
        parsed
    }

    /// A number of seconds or failures; Istio takes no sign and no space.
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        self.read(name, "is not a number; expected one from 0 to 2147483647, without a sign", |text| {
            quantity::count(text).filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
        })
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        self.read(name, "is not a boolean; expected true or false", boolean)
    }

    pub(super) fn quantity(&mut self, name: &str) -> Option<(&'a str, f64)> {
        let value = self.get(name)?;
        match quantity::read(value) {
            Ok(amount) => Some((value, amount)),
            Err(text) => {
                self.problem(name, value, text);
                None
            }
        }
    }

    /// A word that becomes part of an argument or names an image, which Go templates insert into YAML as it is.
    pub(super) fn word(&mut self, name: &str) -> Option<&'a str> {
        let value = self.get(name)?;
        let fits = |c: char| c.is_ascii_graphic() && !"\"'`\\{}#".contains(c);
        if value.chars().all(fits) {
            return Some(value);
        }
        self.problem(
            name,
            value,
            "holds a space, a quote or another character that no such name has; remove it",
        );
        None
    }

    /// A list, checked by the policy.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        form: AnnotationForm,
        read: fn(&str) -> Option<T>,
    ) -> Option<Wildcard<T>> {
        let text = self.get(name)?;
        if let Some(excess) = excess(text) {
            self.problems.push(InputProblem::of(name, excess));
            return None;
        }
        match listed(text, form, read) {
            Ok(list) => Some(list),
            Err(faults) => {
                for (item, text) in faults {
                    self.problem(name, &item, text);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mesh::istio::annotations::OF_INJECTION;

    #[test]
    fn the_document_names_each_that_is_read() {
        let document = include_str!("../../../../docs/injection.md");
        for name in OF_INJECTION {
            assert!(document.contains(&format!("`{name}`")), "docs/injection.md does not name {name}");
        }
    }
}
