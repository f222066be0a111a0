//! The objects of a document: what lies in lists, kind by kind, and where each kind holds the template of its pods.

use super::node::{ManifestNode, ManifestValue};
use std::rc::Rc;

/// A kind: its name, the groups it is of (`apps`; nothing for `v1`), and where in it a pod is described.
struct WorkloadKind {
    kind: &'static str,
    groups: &'static [&'static str],
    template: &'static [&'static str],
}

const fn row(
    kind: &'static str,
    groups: &'static [&'static str],
    template: &'static [&'static str],
) -> WorkloadKind {
    WorkloadKind { kind, groups, template }
}

/// Where most kinds have it, those of others too.
const TEMPLATE: &[&str] = &["spec", "template"];

/// The groups that have, or had, the kinds of Deployments.
const APPS: &[&str] = &["apps", "extensions"];

/// The kinds whose controllers make pods, from `k8s.io/api` and `github.com/openshift/api/apps`.
const KINDS: &[WorkloadKind] = &[
    row("Pod", &[""], &[]),
    row("PodTemplate", &[""], &["template"]),
    row("ReplicationController", &[""], TEMPLATE),
    row("Deployment", APPS, TEMPLATE),
    row("StatefulSet", APPS, TEMPLATE),
    row("DaemonSet", APPS, TEMPLATE),
    row("ReplicaSet", APPS, TEMPLATE),
    row("Job", &["batch"], TEMPLATE),
    row("CronJob", &["batch"], &["spec", "jobTemplate", "spec", "template"]),
    // Its first version stood in the core group.
    row("DeploymentConfig", &["apps.openshift.io", ""], TEMPLATE),
];

/// The names of the kinds that describe pods.
pub fn kinds() -> impl Iterator<Item = &'static str> + Clone {
    KINDS.iter().map(|row| row.kind)
}

/// The most objects of a manifest: a list may hold aliases.
pub(super) const MAX_OBJECTS: usize = 10_000;

/// Lists in lists make no sense, but are read.
const DEEPEST: usize = 8;

/// A value where an object is expected, outside of lists.
pub(super) struct FoundObject<'a> {
    pub(super) node: &'a Rc<ManifestNode>,
    /// Its path in the document, as a JSON pointer.
    pub(super) pointer: String,
    /// Its own kind, or the kind of the list's items.
    pub(super) kind: Option<&'a str>,
    /// The same for `apiVersion`.
    pub(super) version: Option<&'a str>,
}

/// Shows each object of a document, and adds their number, lists included, to `count`, which stops past [`MAX_OBJECTS`].
pub(super) fn walk<'a>(
    document: &'a Rc<ManifestNode>,
    count: &mut usize,
    show: &mut dyn FnMut(FoundObject<'a>),
) {
    let met = FoundObject { node: document, pointer: String::new(), kind: None, version: None };
    within(met, 0, count, show);
}

/// `met` holds the kind and the version of the list.
fn within<'a>(
    mut met: FoundObject<'a>,
    depth: usize,
    count: &mut usize,
    show: &mut dyn FnMut(FoundObject<'a>),
) {
    let node = met.node;
    if node.is_null() || *count > MAX_OBJECTS {
        return;
    }
    *count += 1;
    let text = |key: &str| node.get(key).and_then(|value| value.text());
    let is_map = matches!(node.value, ManifestValue::Map(_));
    met.kind = text("kind").or(met.kind).filter(|_| is_map);
    met.version = text("apiVersion").or(met.version);
    if let Some(ManifestValue::List(items)) = node.get("items").map(|items| &items.value)
        && let Some(of) = met.kind.and_then(|kind| kind.strip_suffix("List"))
        && depth < DEEPEST
    {
        // Items of a list of any kind have their own.
        let of = (!of.is_empty()).then_some(of);
        let version = met.version.filter(|_| of.is_some());
        for (at, item) in items.iter().enumerate() {
            let pointer = format!("{}/items/{at}", met.pointer);
            within(FoundObject { node: item, pointer, kind: of, version }, depth + 1, count, show);
        }
        return;
    }
    show(met);
}

/// Where an object of a kind of Kubernetes, or of OpenShift, describes its pods; `None` of another kind, or of another
/// group's kind of that name.
pub fn template_of(kind: &str, version: &str) -> Option<&'static [&'static str]> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let found = KINDS.iter().find(|row| row.kind == kind && row.groups.contains(&group));
    found.map(|row| row.template)
}

/// The path at which an object describes a pod, as far as it can be seen, and the description; `None` if it has none.
pub(super) fn describes<'a>(
    object: &'a ManifestNode,
    kind: &str,
    version: Option<&str>,
) -> Option<(&'static [&'static str], &'a ManifestNode)> {
    // A kind without a version, or with one without its group, is read as the known one.
    let known = match version {
        None | Some("v1") => KINDS.iter().find(|row| row.kind == kind).map(|row| row.template),
        Some(version) => template_of(kind, version),
    };
    match known {
        Some(path) => object.at(path).map(|template| (path, template)),
        None => foreign(object).map(|template| (TEMPLATE, template)),
    }
}

/// The template in an object of any kind: Rollouts, services of Knative, and what else takes one where Deployments do.
pub(super) fn foreign(object: &ManifestNode) -> Option<&ManifestNode> {
    object.at(TEMPLATE).filter(|template| template.at(&["spec", "containers"]).is_some())
}
