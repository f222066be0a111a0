//! Records an injection in two annotations in Istio's format, and undoes earlier injections. The mesh's setup may have changed
//! since, so injected parts are removed by name and the user's own parts are restored: injecting twice equals injecting once.
//! Also orders containers, which start in order.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use super::{metrics, probes};
use crate::sidecar::{INIT, PROXY, VALIDATION};
pub use mesh::pod::STATUS;
use mesh::{InputProblem, Problems};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Annotation with the user's own parts of injected items.
pub const OVERRIDES: &str = "proxy.istio.io/overrides";

/// Names of injected items; a list without items is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InjectionStatus {
    init_containers: Option<Vec<String>>,
    containers: Option<Vec<String>>,
    volumes: Option<Vec<String>>,
    image_pull_secrets: Option<Vec<String>>,
    revision: String,
}

impl InjectionStatus {
    /// A pod's record; `None` if not injected. Istio treats a pod with an unreadable record as not injected.
    pub(super) fn of(pod: &CheckedPod) -> Result<Option<Self>, serde_json::Error> {
        pod.annotation(STATUS).map(serde_json::from_str).transpose()
    }

    /// A pod's record, for inspection only. An unreadable record has no names, so the pod always differs.
    pub(crate) fn of_pod(pod: &Value) -> Option<Self> {
        let status = pod["metadata"]["annotations"][STATUS].as_str()?;
        Some(serde_json::from_str(status).unwrap_or_default())
    }

    pub(super) fn of_overlay(overlay: &CheckedPod, revision: &str) -> Self {
        let names = |list| {
            let names: Vec<String> = overlay.items(list).iter().map(|item| item.name().to_owned()).collect();
            (!names.is_empty()).then_some(names)
        };
        Self {
            init_containers: names(PodSpecList::InitContainers),
            containers: names(PodSpecList::Containers),
            volumes: names(PodSpecList::Volumes),
            image_pull_secrets: names(PodSpecList::ImagePullSecrets),
            revision: if revision.is_empty() { "default" } else { revision }.to_owned(),
        }
    }

    pub(super) fn names(&self, list: PodSpecList) -> &[String] {
        let names = match list {
            PodSpecList::InitContainers => &self.init_containers,
            PodSpecList::Containers => &self.containers,
            PodSpecList::Volumes => &self.volumes,
            PodSpecList::ImagePullSecrets => &self.image_pull_secrets,
        };
        names.as_deref().unwrap_or_default()
    }

    pub(crate) fn has(&self, list: PodSpecList, name: &str) -> bool {
        self.names(list).iter().any(|other| other == name)
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("names are JSON")
    }
}

/// The user's own parts of injected items, as written: containers as in Istio, and volumes and secrets, which Istio ignores.
pub(super) fn overrides(pod: &CheckedPod) -> Result<CheckedPod, Problems> {
    let Some(text) = pod.annotation(OVERRIDES) else { return Ok(CheckedPod::default()) };
    let unreadable = |why: String| {
        let text = format!(
            "{why}; expected {{\"containers\": [..], \"initContainers\": [..]}}, or remove it if the pod was never injected"
        );
        Problems(vec![InputProblem::of(OVERRIDES, text)])
    };
    let spec: Value =
        serde_json::from_str(text).map_err(|error| unreadable(format!("is not JSON: {error}")))?;
    if !spec.is_object() {
        return Err(unreadable("is not an object".to_owned()));
    }
    CheckedPod::read(OVERRIDES, json!({"spec": spec}))
}

pub(super) fn undone(
    given: &CheckedPod,
    status: Option<&InjectionStatus>,
    overrides: &CheckedPod,
) -> CheckedPod {
    let mut pod = given.clone();
    pod.retain_annotations(|name| ![STATUS, OVERRIDES].contains(&name));
    if let Some(status) = status {
        let listed = PodSpecList::OF_CONTAINERS.into_iter().any(|list| status.has(list, PROXY));
        if let Some((_, proxy)) = given.container(PROXY).filter(|_| listed) {
            probes::restore(&mut pod, proxy);
            metrics::restore(&mut pod, proxy);
        }
        for list in PodSpecList::ALL {
            let injected: BTreeSet<&str> = status.names(list).iter().map(String::as_str).collect();
            let kept: BTreeSet<&str> = overrides.items(list).iter().map(PodSpecItem::name).collect();
            pod.edit(list, |items| {
                items.retain(|item| !injected.contains(item.name()) || kept.contains(item.name()));
            });
        }
    }
    for list in PodSpecList::ALL {
        let mut places = pod.places(list);
        pod.edit(list, |items| {
            for item in overrides.items(list) {
                match places.get(item.name()) {
                    Some(at) => items[*at] = item.clone(),
                    None => {
                        places.insert(item.name().to_owned(), items.len());
                        items.push(item.clone());
                    }
                }
            }
        });
    }
    // An earlier injection moved the user's proxy to the init containers, where it was recorded.
    let recorded = overrides.item(PodSpecList::InitContainers, PROXY);
    let moved = recorded.is_some_and(|proxy| proxy.get("restartPolicy").is_none());
    if moved && let Some(proxy) = pod.take(PodSpecList::InitContainers, PROXY) {
        pod.edit(PodSpecList::Containers, |items| items.push(proxy));
    }
    pod
}

/// Keeps the submitted items' order, and earlier injected volumes that the user's containers mount without defining them.
pub(super) fn keep_order(
    given: &CheckedPod,
    status: &InjectionStatus,
    own: &CheckedPod,
    pod: &mut CheckedPod,
) {
    let mounts = own.containers().flat_map(|container| container.list("volumeMounts"));
    let mounted: BTreeSet<&str> = mounts.map(PodSpecItem::name).collect();
    let (given_volumes, mut places) = (given.by_name(PodSpecList::Volumes), pod.places(PodSpecList::Volumes));
    pod.edit(PodSpecList::Volumes, |volumes| {
        for name in status.names(PodSpecList::Volumes).iter().filter(|name| mounted.contains(name.as_str())) {
            if let (Some(volume), false) = (given_volumes.get(name.as_str()), places.contains_key(name)) {
                places.insert(name.clone(), volumes.len());
                volumes.push((*volume).clone());
            }
        }
    });
    for list in PodSpecList::ALL {
        as_in(given.items(list), pod.items_mut(list));
    }
}

/// Older templates' init container that enables the proxy's core dumps.
const CORE_DUMP: &str = "enable-core-dump";

/// Orders containers. The proxy follows the application's containers, so that `kubectl exec` selects the application, or precedes
/// them if they wait for it. An init container that validates a plugin's rules precedes the others; one that sets rules follows
/// them, to capture nothing before the proxy runs. A native proxy follows both; other init containers follow the proxy.
pub(super) fn arrange(pod: &mut CheckedPod, hold: bool) {
    let containers = pod.items_mut(PodSpecList::Containers);
    if hold {
        first(containers, PROXY);
    } else {
        last(containers, PROXY);
    }
    let starting = pod.items_mut(PodSpecList::InitContainers);
    if starting.iter().any(|container| container.name() == PROXY) {
        for name in [CORE_DUMP, PROXY, VALIDATION, INIT] {
            first(starting, name);
        }
    } else {
        first(starting, VALIDATION);
        last(starting, INIT);
        last(starting, CORE_DUMP);
    }
}

fn first(items: &mut [Value], name: &str) {
    items.sort_by_key(|item| item.name() != name);
}

fn last(items: &mut [Value], name: &str) {
    items.sort_by_key(|item| item.name() == name);
}

/// Sorts items shared with `others` into its order; other items stay in place.
pub(super) fn as_in(others: &[Value], items: &mut [Value]) {
    // Reversed, so that the first of duplicate names wins.
    let places: BTreeMap<&str, usize> =
        others.iter().enumerate().rev().map(|(at, other)| (other.name(), at)).collect();
    let place = |item: &Value| places.get(item.name()).copied();
    let slots: Vec<usize> = (0..items.len()).filter(|at| place(&items[*at]).is_some()).collect();
    let mut known: Vec<Value> = slots.iter().map(|at| items[*at].clone()).collect();
    known.sort_by_key(place);
    for (at, item) in slots.into_iter().zip(known) {
        items[at] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_status_has_istios_form() {
        let overlay = json!({"spec": {
            "initContainers": [{"name": "istio-init"}],
            "containers": [{"name": "istio-proxy"}],
            "volumes": [{"name": "a"}, {"name": "b"}],
        }});
        let overlay = CheckedPod::read("overlay", overlay).expect("a pod");
        let text = InjectionStatus::of_overlay(&overlay, "").text();
        let expected = "{\"initContainers\":[\"istio-init\"],\"containers\":[\"istio-proxy\"],\"volumes\":[\"a\",\"b\"],\
                        \"imagePullSecrets\":null,\"revision\":\"default\"}";
        assert_eq!(text, expected);
        let mut pod = CheckedPod::default();
        pod.set("annotations", STATUS, text);
        assert_eq!(
            InjectionStatus::of(&pod).expect("readable"),
            Some(InjectionStatus::of_overlay(&overlay, "default"))
        );
    }

    #[test]
    fn overrides_are_read_as_they_were_written() {
        let mut pod = CheckedPod::default();
        assert_eq!(overrides(&pod), Ok(CheckedPod::default()));
        let written = r#"{"containers":[{"name":"a"}],"initContainers":[{"name":"b"}]}"#;
        let bad = ["[]", "{", r#"{"containers":[1]}"#];
        for text in [written, "{}"].into_iter().chain(bad) {
            pod.set("annotations", OVERRIDES, text);
            let read = overrides(&pod).ok().map(|read| read.value()["spec"].to_string());
            assert_eq!(read.as_deref(), Some(text).filter(|text| !bad.contains(text)));
        }
    }

    fn check(native: bool, hold: bool, containers: &str, expected: &str) {
        let list = if native { PodSpecList::InitContainers } else { PodSpecList::Containers };
        let mut pod = CheckedPod::default();
        let items =
            |names: &str| names.split_whitespace().map(|name| json!({"name": name})).collect::<Vec<_>>();
        pod.edit(list, |list| *list = items(containers));
        arrange(&mut pod, hold);
        assert_eq!(pod.items(list), items(expected));
    }

    #[test]
    fn containers_start_in_order() {
        check(false, false, "a istio-proxy b", "a b istio-proxy");
        check(false, true, "a istio-proxy b", "istio-proxy a b");
        check(true, false, "a istio-init b", "a b istio-init");
        check(true, false, "a istio-init b istio-validation", "istio-validation a b istio-init");
        check(true, true, "a istio-proxy istio-init b", "istio-init istio-proxy a b");
        check(true, false, "enable-core-dump a istio-init b", "a b istio-init enable-core-dump");
        check(true, false, "a enable-core-dump istio-proxy", "istio-proxy enable-core-dump a");
        check(true, false, "a istio-validation istio-proxy", "istio-validation istio-proxy a");
    }

    #[test]
    fn an_order_is_taken_over() {
        let items = |names: &str| -> Vec<Value> {
            names.chars().map(|name| json!({"name": name.to_string()})).collect()
        };
        let mut found = items("xabyc");
        as_in(&items("cab"), &mut found);
        assert_eq!(found, items("xcayb"));
        let mut found = items("bca");
        as_in(&items("acba"), &mut found);
        assert_eq!(found, items("acb"));
    }
}
