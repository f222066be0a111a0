//! Applies template patches to a pod, then the user's settings for the same containers. A strategic merge keeps mutually
//! exclusive fields; this module removes the older one, because the API server refuses, for example, a variable with two sources.

use super::pod::{CheckedPod, PROBES, PodSpecItem, PodSpecList, check_changed};
use crate::merge::{SchemaKind, merge};
use crate::{admission::Cancellation, mesh_config::without, sidecar::PROXY};
use mesh::{InputProblem, Problems};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The image name that templates replace.
const AUTO: &str = "auto";

pub(super) type Patch<'a> = (&'a str, Value);

#[derive(Clone, Debug)]
pub(super) struct Overlaid {
    pub(super) pod: CheckedPod,
    pub(super) overlay: CheckedPod,
    pub(super) overrides: CheckedPod,
    pub(super) warnings: Vec<String>,
}

pub(super) fn apply(
    own: &CheckedPod,
    patches: &[Patch<'_>],
    cancellation: &Cancellation,
) -> Result<Overlaid, Problems> {
    let mut overlay = CheckedPod::default();
    for (name, patch) in patches {
        overlay = patched(overlay, patch, &format!("template {name}"))?;
    }
    let own = with_proxy_in_list_of(&overlay, own);
    let mut pod = own.clone();
    for (name, patch) in patches {
        cancellation.check()?;
        pod = patched(pod, patch, &format!("template {name}"))?;
    }
    let mut overrides = CheckedPod::default();
    for list in PodSpecList::OF_CONTAINERS {
        let (own, places) = (own.by_name(list), pod.places(list));
        for container in overlay.items(list) {
            let given = own.get(container.name()).zip(places.get(container.name()));
            let Some((given, at)) = given else { continue };
            let mut given = (*given).clone();
            if given.get("image").is_some_and(|image| image == AUTO || image == "") {
                given.fields_mut().remove("image");
            }
            patch_container(&mut pod, (list, *at), &without(&given, is_nothing))?;
            overrides.edit(list, |kept| kept.push(given));
        }
    }
    for list in [PodSpecList::Volumes, PodSpecList::ImagePullSecrets] {
        let own = own.by_name(list);
        let both = overlay.items(list).iter().filter_map(|item| own.get(item.name()));
        overrides.edit(list, |kept| kept.extend(both.map(|item| (*item).clone())));
    }
    let warnings = keep_volumes(&mut pod, &own, &overlay);
    Ok(Overlaid { pod, overlay, overrides, warnings })
}

fn patch_container(
    pod: &mut CheckedPod,
    (list, at): (PodSpecList, usize),
    patch: &Value,
) -> Result<(), Problems> {
    let title = format!("container {}", patch.name());
    let container = &mut pod.items_mut(list)[at];
    *container = merge(container.take(), patch, SchemaKind::Container)
        .map_err(|error| Problems(vec![InputProblem::of(&title, error.to_string())]))?;
    check_changed(&title, list, at, container)?;
    settle_container(container.fields_mut(), patch.as_object().unwrap_or(&Map::new()));
    Ok(())
}

fn patched(pod: CheckedPod, patch: &Value, title: &str) -> Result<CheckedPod, Problems> {
    // A patch may contain deletions, so only the merged pod must be valid.
    let merged = merge(pod.into_value(), patch, SchemaKind::Pod)
        .map_err(|error| Problems(vec![InputProblem::of(title, error.to_string())]))?;
    let mut merged = CheckedPod::read(title, merged)?;
    settle(&mut merged, patch);
    Ok(merged)
}

/// Moves the user's proxy to the list with the templates' proxy; users need not know how it starts.
fn with_proxy_in_list_of(overlay: &CheckedPod, own: &CheckedPod) -> CheckedPod {
    let mut pod = own.clone();
    let (target, other) = match overlay.container(PROXY) {
        Some((PodSpecList::InitContainers, _)) => (PodSpecList::InitContainers, PodSpecList::Containers),
        Some(_) => (PodSpecList::Containers, PodSpecList::InitContainers),
        None => return pod,
    };
    if let Some(mut proxy) = pod.take(other, PROXY) {
        if target == PodSpecList::Containers {
            proxy.fields_mut().remove("restartPolicy");
        }
        pod.edit(target, |items| items.push(proxy));
    }
    pod
}

/// True for a user's null or empty list, which has no effect; in a patch, it would delete or replace a list. The record keeps it,
/// to restore the pod as written.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

const VALUES: &[&str] = &["value", "valueFrom"];
const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn settle(merged: &mut CheckedPod, patch: &Value) {
    for list in PodSpecList::OF_CONTAINERS {
        let places = merged.places(list);
        for over in patch["spec"].list(list.field()) {
            if let (Some(at), Some(fields)) = (places.get(over.name()), over.as_object()) {
                settle_container(merged.items_mut(list)[*at].fields_mut(), fields);
            }
        }
    }
}

fn settle_container(merged: &mut Map<String, Value>, over: &Map<String, Value>) {
    if let (Some(Value::Array(env)), Some(Value::Array(others))) = (merged.get_mut("env"), over.get("env")) {
        // The last of duplicate names wins.
        let others: BTreeMap<&str, &Map<String, Value>> =
            others.iter().filter_map(|other| Some((other.name(), other.as_object()?))).collect();
        for variable in env.iter_mut().filter_map(Value::as_object_mut) {
            let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(other) = others.get(name) {
                one_of(variable, other, VALUES);
                within(variable, other, "valueFrom", |fields, over| one_of(fields, over, SOURCES));
            }
        }
    }
    for probe in PROBES {
        within(merged, over, probe, |fields, over| one_of(fields, over, HANDLERS));
    }
    within(merged, over, "lifecycle", |fields, over| {
        for hook in ["preStop", "postStart"] {
            within(fields, over, hook, |fields, over| one_of(fields, over, HANDLERS));
        }
    });
}

fn within(
    merged: &mut Map<String, Value>,
    over: &Map<String, Value>,
    field: &str,
    settle: impl Fn(&mut Map<String, Value>, &Map<String, Value>),
) {
    if let (Some(Value::Object(merged)), Some(Value::Object(over))) = (merged.get_mut(field), over.get(field))
    {
        settle(merged, over);
    }
}

/// If a patch sets one of several exclusive fields, removes the others. A null only deletes a field.
fn one_of(merged: &mut Map<String, Value>, over: &Map<String, Value>, fields: &[&str]) {
    let given = |field: &str| over.get(field).is_some_and(|value| !value.is_null());
    if fields.iter().any(|field| given(field)) {
        merged.retain(|field, _| given(field) || !fields.contains(&field.as_str()));
    }
}

/// Keeps the user's volumes whose content differs from the overlay's. Returns warnings.
fn keep_volumes(merged: &mut CheckedPod, own: &CheckedPod, overlay: &CheckedPod) -> Vec<String> {
    let content = |volume: &Value| -> Vec<String> {
        let fields = volume.as_object().into_iter().flat_map(Map::keys);
        fields.filter(|field| *field != "name").cloned().collect()
    };
    let (own, overlay) = (own.by_name(PodSpecList::Volumes), overlay.by_name(PodSpecList::Volumes));
    let mut found = Vec::new();
    for volume in merged.items_mut(PodSpecList::Volumes) {
        let name = volume.name();
        if let (Some(own), Some(other)) = (own.get(name), overlay.get(name))
            && content(own) != content(other)
        {
            found.push(format!(
                "the volume {name} is kept as in the pod, although the injected proxy expects other content; \
                 rename it if that is not intended"
            ));
            *volume = (*own).clone();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec_of(pod: &CheckedPod) -> Value {
        pod.value()["spec"].clone()
    }

    fn apply_to(own: &Value, patch: &Value) -> Overlaid {
        let own = CheckedPod::read("pod", json!({"spec": own})).expect("a pod");
        apply(&own, &[("t", json!({"spec": patch}))], &Cancellation::default()).expect("it fits")
    }

    #[test]
    fn the_users_proxy_moves_to_the_list_of_the_templates() {
        let user = json!({"name": "istio-proxy", "tty": true});
        let native = json!({"initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]});
        let done = apply_to(&json!({"containers": [{"name": "app"}, user]}), &native);
        let proxy = json!({"name": "istio-proxy", "restartPolicy": "Always", "tty": true});
        assert_eq!(
            spec_of(&done.pod),
            json!({"containers": [{"name": "app"}], "initContainers": [proxy.clone()]})
        );
        let done = apply_to(
            &json!({"containers": [{"name": "app"}], "initContainers": [proxy]}),
            &json!({"containers": [{"name": "istio-proxy"}]}),
        );
        let expected = json!({"containers": [{"name": "app"}, {"name": "istio-proxy", "tty": true}]});
        assert_eq!(spec_of(&done.pod), expected);
    }

    #[test]
    fn a_volume_has_one_content_and_the_users_counts() {
        let own = json!({"containers": [], "volumes": [{"name": "a", "secret": {}}, {"name": "b", "emptyDir": {"medium": "Memory"}}]});
        let done = apply_to(
            &own,
            &json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}),
        );
        assert_eq!(spec_of(&done.pod), own);
        assert_eq!(done.warnings.len(), 1, "{:?}", done.warnings);
    }

    #[test]
    fn patches_that_make_no_pod_are_refused() {
        let own = CheckedPod::read("pod", json!({"spec": {"containers": [{"name": "app"}]}})).expect("a pod");
        for patch in [
            json!([]),
            json!({"spec": 1}),
            json!({"spec": {"containers": {}}}),
            json!({"spec": {"containers": [{}]}}),
            json!({"metadata": {"labels": {"a": 1}}}),
        ] {
            let shown = apply(&own, &[("mine", patch.clone())], &Cancellation::default())
                .expect_err("no pod")
                .to_string();
            assert!(shown.contains("template mine: "), "{patch}: {shown}");
        }
    }

    fn pod(spec: &Value) -> CheckedPod {
        CheckedPod::read("pod", json!({"spec": spec})).expect("a pod")
    }

    #[test]
    fn the_later_of_two_that_exclude_each_other_stays() {
        let both = json!({
            "name": "a",
            "env": [
                {"name": "x", "value": "1", "valueFrom": {"fieldRef": {}}},
                {"name": "y", "valueFrom": {"fieldRef": {}, "secretKeyRef": {}}},
                {"name": "z", "value": "1"},
            ],
            "readinessProbe": {"httpGet": {}, "tcpSocket": {}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"exec": {}, "sleep": {}}},
        });
        let over = json!({
            "name": "a",
            "env": [
                {"name": "x", "valueFrom": {"fieldRef": {}}},
                {"name": "x", "value": "1"},
                {"name": "y", "valueFrom": {"secretKeyRef": {}}},
            ],
            "readinessProbe": {"tcpSocket": {}},
            "lifecycle": {"preStop": {"sleep": {}}},
        });
        let expected = json!({
            "name": "a",
            "env": [
                {"name": "x", "value": "1"},
                {"name": "y", "valueFrom": {"secretKeyRef": {}}},
                {"name": "z", "value": "1"},
            ],
            "readinessProbe": {"tcpSocket": {}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"sleep": {}}},
        });
        let mut merged = pod(&json!({"containers": [both]}));
        settle(&mut merged, &json!({"spec": {"containers": [over]}}));
        assert_eq!(merged, pod(&json!({"containers": [expected]})));
    }
}
