//! An earlier injection: its record in two annotations of an injected pod, of Istio's form, and how it is undone.
//!
//! A pod can be injected twice, and its mesh's setup may have changed between. So what was injected is taken out by its
//! names, what the user had written of it comes back, and the new injection starts from there. Injecting twice is then the
//! same as injecting once.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use super::{metrics, order, probes};
use crate::sidecar::PROXY;
pub use mesh::pod::STATUS;
use mesh::{InputProblem, Problems};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The user's own parts of them.
pub const OVERRIDES: &str = "proxy.istio.io/overrides";

/// A list without items is null.
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
    /// `None` where the pod was not injected. Istio treats an unreadable one as not injected.
    pub(super) fn of(pod: &CheckedPod) -> Result<Option<Self>, serde_json::Error> {
        pod.annotation(STATUS).map(serde_json::from_str).transpose()
    }

    /// Of a pod that is only looked at: an unreadable one has no names, and the pod differs at least by it.
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

/// The user's own parts of injected items, as he wrote them. Istio keeps containers here; volumes and secrets are ours, and Istio
/// passes over them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Overrides([Vec<Value>; PodSpecList::ALL.len()]);

impl Overrides {
    pub(super) fn of(pod: &CheckedPod) -> Result<Self, Problems> {
        let Some(text) = pod.annotation(OVERRIDES) else { return Ok(Self::default()) };
        let unreadable = |why: String| {
            let text = format!(
                "{why}; expected {{\"containers\": [..], \"initContainers\": [..]}}, as an injection writes it: \
                 remove it if the pod was never injected"
            );
            Problems(vec![InputProblem::of(OVERRIDES, text)])
        };
        let spec: Value =
            serde_json::from_str(text).map_err(|error| unreadable(format!("is not JSON: {error}")))?;
        if !spec.is_object() {
            return Err(unreadable("is not an object".to_owned()));
        }
        let kept = CheckedPod::read(OVERRIDES, json!({"spec": spec}))?;
        Ok(Self(PodSpecList::ALL.map(|list| kept.items(list).to_vec())))
    }

    pub(super) fn items(&self, list: PodSpecList) -> &[Value] {
        &self.0[list as usize]
    }

    pub(super) fn item(&self, list: PodSpecList, name: &str) -> Option<&Value> {
        self.items(list).iter().find(|item| item.name() == name)
    }

    pub(super) fn keep(&mut self, list: PodSpecList, item: Value) {
        self.0[list as usize].push(item);
    }

    /// For the annotation; `None` where there is nothing to keep.
    pub(super) fn text(&self) -> Option<String> {
        let lists = [
            PodSpecList::Containers,
            PodSpecList::InitContainers,
            PodSpecList::Volumes,
            PodSpecList::ImagePullSecrets,
        ];
        let parts: Vec<String> = lists
            .into_iter()
            .filter(|list| !self.items(*list).is_empty())
            .map(|list| {
                let items = serde_json::to_string(self.items(list)).expect("items are JSON");
                format!("\"{}\":{items}", list.field())
            })
            .collect();
        (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
    }
}

pub(super) fn undone(
    given: &CheckedPod,
    status: Option<&InjectionStatus>,
    overrides: &Overrides,
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
    // Among the containers that start first, the user's proxy was recorded where an injection had moved it.
    let recorded = overrides.item(PodSpecList::InitContainers, PROXY);
    let moved = recorded.is_some_and(|proxy| proxy.get("restartPolicy").is_none());
    if moved && let Some(proxy) = pod.take(PodSpecList::InitContainers, PROXY) {
        pod.edit(PodSpecList::Containers, |items| items.push(proxy));
    }
    pod
}

/// Keeps the order of items that both injections have, and volumes that the user's own containers mount though he never wrote them.
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
        order::as_in(given.items(list), pod.items_mut(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_has_the_form_that_others_read() {
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
        let mut kept = Overrides::default();
        assert_eq!(kept.text(), None);
        kept.keep(PodSpecList::InitContainers, json!({"name": "b"}));
        kept.keep(PodSpecList::Containers, json!({"name": "a"}));
        let text = kept.text().expect("some");
        assert_eq!(text, r#"{"containers":[{"name":"a"}],"initContainers":[{"name":"b"}]}"#);
        let mut pod = CheckedPod::default();
        for (text, is_good) in
            [(&*text, true), ("{}", true), ("[]", false), ("{", false), (r#"{"containers":[1]}"#, false)]
        {
            pod.set("annotations", OVERRIDES, text);
            assert_eq!(Overrides::of(&pod).is_ok(), is_good, "{text}");
        }
    }
}
