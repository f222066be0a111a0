//! References to variables in a container's arguments, as Kubernetes expands them: `$(NAME)`, and `$$(` for a `$(` that
//! is meant (`third_party/forked/golang/expansion/expand.go`).

use super::facts::{Container, Value};
use std::collections::BTreeMap;

/// The variables of a container, each with those before it filled in.
pub(super) struct Environment<'a> {
    known: BTreeMap<&'a str, Value>,
    /// Whether other objects set variables too.
    is_open: bool,
}

/// A word after expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expanded {
    Text(String),
    /// It needs this variable, whose value is unknown before the container starts.
    Unknowable(String),
}

impl<'a> Environment<'a> {
    pub(super) fn of(container: &'a Container) -> Self {
        let mut environment = Self { known: BTreeMap::new(), is_open: container.has_foreign_env };
        for variable in &container.env {
            let value = match &variable.value {
                Value::Text(text) => match environment.expand(text) {
                    Expanded::Text(text) => Value::Text(text),
                    Expanded::Unknowable(_) => Value::Unknowable,
                },
                Value::Unknowable => Value::Unknowable,
            };
            environment.known.insert(&variable.name, value);
        }
        environment
    }

    /// A variable's value; `None` if it is not set.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.known.get(name)
    }

    /// Fills in the variables that a text refers to. One that is not set stays as it was written.
    pub(super) fn expand(&self, text: &str) -> Expanded {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(tail) = rest.strip_prefix('$') {
                expanded.push('$');
                rest = tail;
                continue;
            }
            let reference = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
            let Some((name, tail)) = reference else {
                expanded.push('$');
                continue;
            };
            match self.known.get(name) {
                Some(Value::Text(value)) => expanded.push_str(value),
                Some(Value::Unknowable) => return Expanded::Unknowable(name.to_owned()),
                None if self.is_open => return Expanded::Unknowable(name.to_owned()),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = tail;
        }
        expanded.push_str(rest);
        Expanded::Text(expanded)
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Variable;
    use super::*;

    #[test]
    fn references_are_filled_in_as_kubernetes_does() {
        let text = |name: &str, value: &str| Variable {
            name: name.to_owned(),
            value: Value::Text(value.to_owned()),
        };
        let secret = Variable { name: "SECRET".to_owned(), value: Value::Unknowable };
        let env = vec![text("A", "1"), text("B", "$(A)2$(C)"), secret, text("D", "$(SECRET)")];
        let mut container = Container { env, ..Container::default() };
        let check = |container: &Container, word: &str, expected: &str| {
            let expanded = match Environment::of(container).expand(word) {
                Expanded::Text(text) => text,
                Expanded::Unknowable(name) => format!("unknowable {name}"),
            };
            assert_eq!(expanded, expected, "{word:?}");
        };
        check(&container, "$(A),$(B)", "1,12$(C)");
        check(&container, "$$(A) $$$(A) $A $ $(A", "$(A) $1 $A $ $(A");
        check(&container, "$(none)", "$(none)");
        check(&container, "x$(SECRET)", "unknowable SECRET");
        check(&container, "$(D)", "unknowable D");
        check(&container, "$()é$(A)", "$()é1");
        container.has_foreign_env = true;
        check(&container, "$(none)", "unknowable none");
    }
}
