//! Replaces application containers' long variable lists, which most injections never read, with a mark. If a template uses `.Env`
//! or a patch changes such a container, the injection fails here, and the pod is parsed completely and injected again, with the
//! same outcome as without marks.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use crate::sidecar::{INIT, PROXY, VALIDATION};
use mesh::{InputProblem, Problems};
use serde_json::Value;
use std::collections::BTreeSet;

/// The only item of an unread list.
const MARK: &str = "sidecar-injector/unread";
const FIELD: &str = "env";

pub(crate) fn mark() -> Value {
    Value::Array(vec![MARK.into()])
}

pub(crate) fn is_mark(value: &Value) -> bool {
    matches!(value.as_array().map(Vec::as_slice), Some([Value::String(text)]) if text == MARK)
}

pub(crate) fn has_mark(text: &str) -> bool {
    text.contains(MARK)
}

/// False for injected containers, whose variables users may also set.
pub(crate) fn may_be(container: &str) -> bool {
    ![PROXY, INIT, VALIDATION].contains(&container)
}

pub(crate) fn is_in(pod: &Value) -> bool {
    containers(pod).any(|(_, variables)| is_mark(variables))
}

/// True if all unread lists are unchanged or removed: a changed list can't be distinguished from an unread one.
pub(crate) fn is_kept(before: &Value, after: &Value) -> bool {
    let count = |pod| containers(pod).filter(|(_, variables)| is_mark(variables)).count();
    let left_out: BTreeSet<&str> =
        containers(before).filter(|(_, variables)| is_mark(variables)).map(|(name, _)| name).collect();
    let mut others = containers(after).filter(|(_, variables)| !is_mark(variables) && !variables.is_null());
    count(after) <= count(before) && !others.any(|(name, _)| left_out.contains(name))
}

/// Fails if templates change a container with unread variables.
pub(super) fn check(own: &CheckedPod, overlay: &CheckedPod) -> Result<(), Problems> {
    let overlay = overlay.containers_by_name();
    let mut unread = containers(own.value()).filter(|(_, variables)| is_mark(variables));
    unread.find(|(name, _)| overlay.contains_key(name)).map_or(Ok(()), |(name, _)| Err(refusal(name)))
}

/// The error of a step that needs unread variables; the pod is then parsed completely.
pub(crate) fn refusal(place: &str) -> Problems {
    Problems(vec![InputProblem::of(place, "needs variables of the pod that were not read")])
}

fn containers(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let each = PodSpecList::OF_CONTAINERS.into_iter().flat_map(|list| pod["spec"].list(list.field()));
    each.filter_map(|container| Some((container.name(), container.get(FIELD)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(variables: &Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "web", "env": variables }] } })
    }

    #[test]
    fn unread_lists_may_stay_or_go_but_not_change() {
        let before = pod(&mark());
        assert!(is_in(&before) && !is_in(&pod(&json!([]))));
        for kept in [mark(), Value::Null] {
            assert!(is_kept(&before, &pod(&kept)), "{kept}");
        }
        for changed in [json!([MARK, { "name": "A" }]), json!([]), json!([{ "name": "A" }])] {
            assert!(!is_kept(&before, &pod(&changed)), "{changed}");
        }
        let mut twice = before.clone();
        twice["spec"]["initContainers"] = twice["spec"]["containers"].clone();
        assert!(!is_kept(&before, &twice), "another one has appeared");
    }

    #[test]
    fn a_template_may_not_change_a_container_with_unread_variables() {
        let read = |value: Value| CheckedPod::read("pod", value).expect("a pod");
        let own = read(pod(&mark()));
        assert!(check(&own, &read(json!({ "spec": { "containers": [{ "name": "other" }] } }))).is_ok());
        assert!(check(&own, &read(json!({ "spec": { "initContainers": [{ "name": "web" }] } }))).is_err());
    }
}
