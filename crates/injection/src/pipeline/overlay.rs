//! What templates say, put onto a pod, and what the user says of the same containers, put onto that.

use super::conflict;
use super::pod::{CheckedPod, PodSpecItem, PodSpecList, check_changed};
use super::record::Overrides;
use crate::cancellation::Cancellation;
use crate::merge::{SchemaKind, merge};
use crate::sidecar::PROXY;
use mesh::{InputProblem, Problems};
use serde_json::{Map, Value};

/// The image that leaves the choice of the image to the templates.
const AUTO: &str = "auto";

/// A template's patch, with the template's name.
pub(super) type Patch<'a> = (&'a str, Value);

/// A pod with patches on it.
#[derive(Clone, Debug)]
pub(super) struct Overlaid {
    pub(super) pod: CheckedPod,
    /// The patches by themselves.
    pub(super) overlay: CheckedPod,
    /// What the user wrote himself of that.
    pub(super) overrides: Overrides,
    pub(super) warnings: Vec<String>,
}

/// Puts patches onto a pod.
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
    let mut overrides = Overrides::default();
    for list in PodSpecList::OF_CONTAINERS {
        let (own, places) = (own.by_name(list), pod.places(list));
        for container in overlay.items(list) {
            let given = own.get(container.name()).zip(places.get(container.name()));
            let Some((given, at)) = given else { continue };
            let mut given = (*given).clone();
            if given.get("image").is_some_and(|image| image == AUTO || image == "") {
                given.fields_mut().remove("image");
            }
            patch_container(&mut pod, (list, *at), &without_empty_fields(&given))?;
            overrides.keep(list, given);
        }
    }
    for list in [PodSpecList::Volumes, PodSpecList::ImagePullSecrets] {
        let own = own.by_name(list);
        let both = overlay.items(list).iter().filter_map(|item| own.get(item.name()));
        both.for_each(|item| overrides.keep(list, (*item).clone()));
    }
    let warn = |name: String| {
        format!(
            "the volume {name} stays as the pod has it, though the injected proxy expects another content in it; \
             rename it if that is not intended"
        )
    };
    let warnings = conflict::volumes(&mut pod, &own, &overlay).into_iter().map(warn).collect();
    Ok(Overlaid { pod, overlay, overrides, warnings })
}

/// Merges what the user says of one container onto it.
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
    conflict::container(container.fields_mut(), patch.as_object().unwrap_or(&Map::new()));
    Ok(())
}

fn patched(pod: CheckedPod, patch: &Value, title: &str) -> Result<CheckedPod, Problems> {
    // A patch may delete, so it does not have the form of a pod itself: what it makes is checked.
    let merged = merge(pod.into_value(), patch, SchemaKind::Pod)
        .map_err(|error| Problems(vec![InputProblem::of(title, error.to_string())]))?;
    let mut merged = CheckedPod::read(title, merged)?;
    conflict::settle(&mut merged, patch);
    Ok(merged)
}

/// The pod with the user's proxy in the list where the templates have theirs: users say what they want of the proxy without
/// knowing how it will be started.
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

/// A null or an empty list of the user's says nothing, where a null of a patch deletes and an empty list replaces. Kubernetes
/// takes both for fields that are not there. The record keeps them, so that the pod comes back as it was written.
fn without_empty_fields(value: &Value) -> Value {
    let is_nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !is_nothing(value));
            Value::Object(fields.map(|(field, value)| (field.clone(), without_empty_fields(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty_fields).collect()),
        other => other.clone(),
    }
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
    fn the_users_proxy_goes_where_the_templates_have_theirs() {
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
}
