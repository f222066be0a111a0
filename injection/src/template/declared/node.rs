//! A part of a template as it was understood: nothing in it can be wrong but what its references will stand for.

use super::condition::When;
use super::shape::{Field, MOUNT, Shape, VARIABLE, VOLUME};
use super::text::Text;
use crate::sidecar::Sidecar;
use crate::template::Sight;
use policy::istio::annotations::{USER_MOUNTS, USER_VOLUMES};
use serde_json::{Value, json};

/// A part of a template.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A text, and what has to come of it.
    Text(Text, Kind),
    Number(i64),
    Bool(bool),
    Texts(Vec<(String, Node)>),
    List(Vec<Node>),
    /// Its fields, and those of which one has to be set.
    Object(Vec<(&'static Field, Node)>, &'static [&'static str]),
    /// What is there if the condition holds.
    When(When, Box<Node>),
    /// The first one whose condition holds and that is set.
    Choose(Vec<(Option<When>, Node)>),
    /// Several items of a list.
    Each(Each),
    Whole(Whole),
}

/// What a text has to be once it is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Word(&'static [&'static str]),
    Number(i64, i64),
    Bool,
    Port,
}

/// What becomes several items of a list: `each: proxyMetadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Each {
    /// The variables that ProxyConfig gives the proxy, in the order of their names.
    ProxyMetadata,
    /// Volumes that the pod has for its proxy.
    UserVolumes,
    /// Where the proxy mounts volumes of the pod's.
    UserVolumeMounts,
}

/// What is taken as a whole, as the configuration writes it: `${proxyResources}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    ProxyResources,
    InitResources,
    /// `global.proxy.lifecycle`.
    ProxyLifecycle,
    /// `global.proxy.seccompProfile`.
    ProxySeccomp,
    /// `global.imagePullSecrets`.
    PullSecrets,
}

/// Each with its name.
pub(super) const EACH: [(&str, Each); 3] = [
    ("proxyMetadata", Each::ProxyMetadata),
    ("userVolumes", Each::UserVolumes),
    ("userVolumeMounts", Each::UserVolumeMounts),
];

/// Each with its name.
pub(super) const WHOLES: [(&str, Whole); 5] = [
    ("proxyResources", Whole::ProxyResources),
    ("initResources", Whole::InitResources),
    ("proxyLifecycle", Whole::ProxyLifecycle),
    ("proxySeccomp", Whole::ProxySeccomp),
    ("pullSecrets", Whole::PullSecrets),
];

impl Each {
    /// What its items are.
    pub(super) fn shape(self) -> &'static Shape {
        match self {
            Self::ProxyMetadata => &VARIABLE,
            Self::UserVolumes => &VOLUME,
            Self::UserVolumeMounts => &MOUNT,
        }
    }

    /// What tells one item from the template's own, and the annotation that says it, where it must not be one of those.
    pub(super) fn apart(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::ProxyMetadata => None,
            Self::UserVolumes => Some(("name", USER_VOLUMES)),
            Self::UserVolumeMounts => Some(("mountPath", USER_MOUNTS)),
        }
    }

    /// The items.
    pub(super) fn items(self, sidecar: &Sidecar) -> Vec<Value> {
        match self {
            Self::UserVolumes => sidecar.user_volumes.clone(),
            Self::UserVolumeMounts => sidecar.user_mounts.clone(),
            Self::ProxyMetadata => {
                let metadata = sidecar.proxy_metadata.iter();
                metadata.map(|(name, value)| json!({"name": name, "value": value})).collect()
            }
        }
    }
}

impl Whole {
    /// What it is for a pod; `None` where it isn't set.
    pub(super) fn value(self, sight: &Sight<'_>) -> Option<Value> {
        let values = &sight.configuration.values;
        let found = match self {
            Self::ProxyResources => sight.sidecar.resources.clone(),
            Self::InitResources => sight.sidecar.init_resources.clone(),
            Self::ProxyLifecycle => values.proxy.lifecycle.clone(),
            Self::ProxySeccomp => values.proxy.seccomp.clone(),
            Self::PullSecrets => values.pull_secrets.iter().map(|name| json!({"name": name})).collect(),
        };
        let is_empty = match &found {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            other => other.is_null(),
        };
        (!is_empty).then_some(found)
    }
}
