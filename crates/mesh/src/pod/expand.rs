//! References to variables in a container's arguments, as Kubernetes expands them: `$(NAME)` is replaced by the value, and
//! `$$` becomes `$` (`third_party/forked/golang/expansion/expand.go`).

use super::facts::{Container, Value};
use std::collections::BTreeMap;

/// The variables of a container, each with those before it filled in.
pub(super) struct Environment<'a> {
    variables: BTreeMap<&'a str, Value>,
    /// Whether other objects set variables too.
    has_foreign_env: bool,
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
        let mut environment = Self { variables: BTreeMap::new(), has_foreign_env: container.has_foreign_env };
        for variable in &container.env {
            let value = match &variable.value {
                Value::Text(text) => match environment.expand(text) {
                    Expanded::Text(text) => Value::Text(text),
                    Expanded::Unknowable(_) => Value::Unknowable,
                },
                Value::Unknowable => Value::Unknowable,
            };
            environment.variables.insert(&variable.name, value);
        }
        environment
    }

    /// A variable's value; `None` if it is not set.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.variables.get(name)
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
            match self.variables.get(name) {
                Some(Value::Text(value)) => expanded.push_str(value),
                Some(Value::Unknowable) => return Expanded::Unknowable(name.to_owned()),
                None if self.has_foreign_env || is_of_service(name) => {
                    return Expanded::Unknowable(name.to_owned());
                }
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = tail;
        }
        expanded.push_str(rest);
        Expanded::Text(expanded)
    }
}

/// Whether the kubelet may set a variable for a Service of the namespace, which `enableServiceLinks` switches off for all but
/// `KUBERNETES_*` (`FromServices` in `pkg/kubelet/envvars`).
fn is_of_service(name: &str) -> bool {
    let has = |part: &str| name.find(part).is_some_and(|at| at > 0);
    let is_of_port = |part: &str| {
        name.split_once(part).is_some_and(|(service, port)| {
            !service.is_empty()
                && (port.is_empty() || port.starts_with(|c: char| c == '_' || c.is_ascii_digit()))
        })
    };
    has("_SERVICE_HOST") || is_of_port("_SERVICE_PORT") || is_of_port("_PORT_") || name.ends_with("_PORT")
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
        for of_service in
            ["KUBERNETES_SERVICE_HOST", "DB_SERVICE_PORT", "DB_SERVICE_PORT_HTTP", "DB_PORT_80_TCP_ADDR"]
        {
            check(&container, &format!("x$({of_service})"), &format!("unknowable {of_service}"));
        }
        check(&container, "$(_SERVICE_HOST) $(DB_PORTS)", "$(_SERVICE_HOST) $(DB_PORTS)");
        container.has_foreign_env = true;
        check(&container, "$(none)", "unknowable none");
    }
}
