//! Long lists of variables of the application's own containers, which an injection has no need to read: a mark takes their place.
//! Where a template asks for `.Env` or a patch changes such a container, the injection fails here, and the pod is read as a whole
//! and injected again, with the same outcome as if nothing had been left out.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use crate::sidecar::{INIT, PROXY, VALIDATION};
use mesh::{InputProblem, Problems};
use serde_json::Value;
use std::collections::BTreeSet;

/// The only item of a list that was not read.
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

/// True for containers whose list may be left out: not for those that injections add, whose variables users may set too.
pub(crate) fn may_be(container: &str) -> bool {
    ![PROXY, INIT, VALIDATION].contains(&container)
}

pub(crate) fn is_in(pod: &Value) -> bool {
    containers(pod).any(|(_, variables)| is_mark(variables))
}

/// True if all that was not read of a pod is as it was, or gone: a changed list can't be distinguished from one that was not read.
pub(crate) fn is_kept(before: &Value, after: &Value) -> bool {
    let count = |pod| containers(pod).filter(|(_, variables)| is_mark(variables)).count();
    let left_out: BTreeSet<&str> =
        containers(before).filter(|(_, variables)| is_mark(variables)).map(|(name, _)| name).collect();
    let mut others = containers(after).filter(|(_, variables)| !is_mark(variables) && !variables.is_null());
    count(after) <= count(before) && !others.any(|(name, _)| left_out.contains(name))
}

/// Fails where templates say something of a container whose variables were not read.
pub(super) fn check(own: &CheckedPod, overlay: &CheckedPod) -> Result<(), Problems> {
    let overlay = overlay.containers_by_name();
    let mut unread = containers(own.value()).filter(|(_, variables)| is_mark(variables));
    unread.find(|(name, _)| overlay.contains_key(name)).map_or(Ok(()), |(name, _)| Err(refusal(name)))
}

/// The error of a step that needs unread variables; the pod is then read as a whole.
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
    fn what_was_not_read_may_stay_or_go_but_not_change() {
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
    fn a_template_may_not_say_something_of_its_container() {
        let read = |value: Value| CheckedPod::read("pod", value).expect("a pod");
        let own = read(pod(&mark()));
        assert!(check(&own, &read(json!({ "spec": { "containers": [{ "name": "other" }] } }))).is_ok());
        assert!(check(&own, &read(json!({ "spec": { "initContainers": [{ "name": "web" }] } }))).is_err());
    }
}
