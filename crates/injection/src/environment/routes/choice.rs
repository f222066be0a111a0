//! Which pods of a Service get the requests of an environment.

use crate::environment::resource::EnvironmentSpec;
use std::collections::{BTreeMap, BTreeSet};

/// The subsets of a Service that requests go to, by their environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// For requests without an environment, and those for whose environment and its ancestors the Service has no pods. `None`
    /// selects all pods.
    pub default: Option<String>,
    /// For each environment of the namespace whose requests go to another subset.
    pub others: BTreeMap<String, String>,
}

impl Choices {
    /// `all` are the environments of the namespace, `own` those of the Service.
    pub(super) fn of(spec: &EnvironmentSpec, all: &BTreeSet<String>, own: &BTreeSet<&str>) -> Self {
        // A subset without pods would answer 503.
        let default = spec.default_subset.as_deref().filter(|default| own.contains(default)).map(subset);
        let target = |value: &String| Some((value.clone(), subset(target(value, spec.splitter, own)?)));
        let others = all.iter().filter_map(target).filter(|(_, subset)| Some(subset) != default.as_ref());
        Self { others: others.collect(), default }
    }

    /// The subset that gets the requests of an environment; `None` stands for all pods.
    pub fn subset(&self, environment: Option<&str>) -> Option<&str> {
        environment.and_then(|value| self.others.get(value)).or(self.default.as_ref()).map(String::as_str)
    }
}

/// The name of an environment's subset: Istio takes letters, digits and `-`.
pub fn subset(environment: &str) -> String {
    environment.replace(['_', '.'], "-")
}

/// The environment itself, or the nearest that it is derived from, among those that have pods.
fn target<'a>(value: &'a str, splitter: char, among: &BTreeSet<&str>) -> Option<&'a str> {
    let mut left = value;
    loop {
        if among.contains(left) {
            return Some(left);
        }
        left = left.rsplit_once(splitter)?.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_ancestor_gets_it() {
        let among = BTreeSet::from(["base", "base.red", "x-y"]);
        for (value, splitter, expected) in [
            ("base", '.', Some("base")),
            ("base.red", '.', Some("base.red")),
            ("base.red.x.y", '.', Some("base.red")),
            ("base.blue", '.', Some("base")),
            ("based", '.', None),
            ("other", '.', None),
            ("x-y-z", '-', Some("x-y")),
            ("x-y-z", '.', None),
        ] {
            assert_eq!(target(value, splitter, &among), expected, "{value} {splitter}");
        }
    }
}
