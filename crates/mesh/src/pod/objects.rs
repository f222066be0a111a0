//! The objects of a manifest that describe pods. Reading settings takes a template wherever it sees one ([`objects`]); changing pods takes
//! only kinds whose controllers are known ([`holders`]).

use super::facts::Pod;
use super::unread;
use crate::data::reader::{data, documents};
use crate::data::{Tree, TreeValue};
use crate::visible::visible;
use crate::{InputProblem, Problems};
use rules::finding::Finding;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt, rc::Rc};

const TEMPLATE: &[&str] = &["spec", "template"];

const APPS: &[&str] = &["apps", "extensions"];

/// The kinds whose controllers make pods (`k8s.io/api`, `github.com/openshift/api/apps`): name, groups, and the path of the pod.
const KINDS: &[(&str, &[&str], &[&str])] = &[
    ("Pod", &[""], &[]),
    ("PodTemplate", &[""], &["template"]),
    ("ReplicationController", &[""], TEMPLATE),
    ("Deployment", APPS, TEMPLATE),
    ("StatefulSet", APPS, TEMPLATE),
    ("DaemonSet", APPS, TEMPLATE),
    ("ReplicaSet", APPS, TEMPLATE),
    ("Job", &["batch"], TEMPLATE),
    ("CronJob", &["batch"], &["spec", "jobTemplate", "spec", "template"]),
    // Its first version stood in the core group.
    ("DeploymentConfig", &["apps.openshift.io", ""], TEMPLATE),
];

pub fn kinds() -> impl Iterator<Item = &'static str> + Clone {
    KINDS.iter().map(|(kind, ..)| *kind)
}

const MAX_OBJECTS: usize = 10_000;

/// Lists in lists make no sense, but are read.
const DEEPEST: usize = 8;

/// `None` of another kind, or of another group's kind of that name.
pub fn template_of(kind: &str, version: &str) -> Option<&'static [&'static str]> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let found = KINDS.iter().find(|(name, groups, _)| *name == kind && groups.contains(&group));
    found.map(|(.., template)| *template)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestObject {
    /// Kind, namespace and name: `Deployment shop/web`.
    pub title: String,
    pub kind: String,
    pub api_version: String,
    pub name: String,
    /// Counts where it has no name yet.
    pub generate_name: String,
    pub namespace: String,
    pub document: usize,
    /// Paths in the document of the object and of its pod or their template, as JSON pointers.
    pub object: String,
    pub template: String,
    pub pod: Pod,
    /// Fields of the pod that have not the form that Kubernetes wants, with their lines.
    pub problems: Vec<InputProblem>,
    /// Remarks about keys in places where nothing reads them.
    pub remarks: Vec<Finding>,
    /// Known where the manifest holds its namespace too.
    pub enforced: Option<Standard>,
}

impl ManifestObject {
    pub fn called(&self, unnamed: &str) -> String {
        called(Some(&*self.name), Some(&*self.generate_name)).unwrap_or_else(|| unnamed.to_owned())
    }

    pub fn full_title(&self) -> String {
        format!("document {}, {}", self.document, self.title)
    }
}

/// The objects of a manifest that describe pods, in their order. `name` is that of the file, for problems.
pub fn objects(name: &str, text: &str) -> Result<Vec<ManifestObject>, Problems> {
    of_documents(name, &documents(name, text, None)?)
}

pub fn objects_in(name: &str, object: &Value) -> Result<Vec<ManifestObject>, Problems> {
    let tree = Tree::deserialize(object)
        .map_err(|error| Problems(vec![InputProblem::of(name, error.to_string())]))?;
    of_documents(name, &[Rc::new(tree)])
}

fn of_documents(name: &str, documents: &[Rc<Tree>]) -> Result<Vec<ManifestObject>, Problems> {
    let (mut objects, mut others, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    // What namespaces enforce, by their names.
    let mut standards = BTreeMap::new();
    for met in MetObject::all(name, documents)? {
        let Some(kind) = met.kind else {
            let place = met.tree.place.map(|place| format!(", {place}")).unwrap_or_default();
            let text = "is not a Kubernetes object: it has no kind";
            problems.push(InputProblem::of(&format!("document {}{place}", met.document), text));
            continue;
        };
        let shown = called(met.meta("name"), met.meta("generateName")).unwrap_or_default();
        // Objects without a namespace are not in one without a name.
        if kind == "Namespace" && met.version == Some("v1") && !shown.is_empty() {
            let label = met.tree.at(&["metadata", "labels", ENFORCE]).and_then(Tree::text);
            standards.extend(Standard::enforced(label).map(|standard| (shown.clone(), standard)));
        }
        match met.described(kind) {
            Some((path, template)) => objects.push(met.read(kind, &shown, " without a name", path, template)),
            None => others.push(met.title(kind, &shown, " without a name")),
        }
    }
    Problems::check(problems)?;
    if objects.is_empty() {
        others.dedup();
        let text = match &others[..] {
            [] => "holds no object; expected a pod, or something that makes pods".to_owned(),
            others => format!("describes no pod, but only {}", others.join(", ")),
        };
        return Err(Problems(vec![InputProblem::of(name, text)]));
    }
    for object in &mut objects {
        object.enforced = standards.get(&object.namespace).copied();
    }
    Ok(objects)
}

/// A document whose pods are to be changed in place.
#[derive(Clone, Debug)]
pub struct Document {
    pub tree: Rc<Tree>,
    pub value: Value,
    pub holders: Vec<ManifestObject>,
    /// Objects that hold a template of pods, but whose kinds are not known: version, kind and name.
    pub strangers: Vec<String>,
}

pub fn holders(name: &str, text: &str) -> Result<Vec<Document>, Problems> {
    let trees = documents(name, text, None)?;
    let document = |tree: &Rc<Tree>| Document {
        tree: Rc::clone(tree),
        value: data(tree),
        holders: Vec::new(),
        strangers: Vec::new(),
    };
    let mut found: Vec<Document> = trees.iter().map(document).collect();
    for met in MetObject::all(name, &trees)? {
        let (Some(kind), document) = (met.kind, &mut found[met.document - 1]) else { continue };
        // Without a version the group of the kind is unknown; the API server refuses it.
        let path = met.version.and_then(|version| template_of(kind, version));
        let name = met.meta("name").unwrap_or_default();
        if let Some((path, template)) = path.and_then(|path| Some((path, met.tree.at(path)?))) {
            document.holders.push(met.read(kind, name, "", path, template));
        } else if path.is_none() && foreign(met.tree).is_some() {
            let version =
                met.version.filter(|version| !version.is_empty()).unwrap_or("without an apiVersion");
            document.strangers.push(format!("{kind} ({version}) {name}").trim_end().to_owned());
        }
    }
    Ok(found)
}

/// The line is unknown in data from JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub line: Option<usize>,
    pub value: Value,
}

/// The objects of a text: its documents, and the items of those that are Lists. `name` is that of the file, for problems.
pub fn located(name: &str, text: &str) -> Result<Vec<Located>, Problems> {
    let mut found = Vec::new();
    documents(name, text, None)?.iter().for_each(|tree| locate(tree, &mut found));
    Ok(found)
}

fn locate(tree: &Tree, found: &mut Vec<Located>) {
    match list(tree, None) {
        Some((_, items)) => items.iter().for_each(|item| locate(item, found)),
        None => found.push(Located { line: tree.place.map(|place| place.line), value: data(tree) }),
    }
}

/// The kind of the items of a list, empty where they have their own, and the items. `kind` is for a list in another one.
fn list<'a>(tree: &'a Tree, kind: Option<&'a str>) -> Option<(&'a str, &'a [Rc<Tree>])> {
    let kind = tree.get("kind").and_then(Tree::text).or(kind)?.strip_suffix("List")?;
    match tree.get("items").map(|items| &items.value) {
        Some(TreeValue::List(items)) => Some((kind, items)),
        _ => None,
    }
}

struct MetObject<'a> {
    tree: &'a Tree,
    /// From 1.
    document: usize,
    pointer: String,
    /// Its own, or that of the list's items.
    kind: Option<&'a str>,
    version: Option<&'a str>,
}

impl<'a> MetObject<'a> {
    fn all(name: &str, documents: &'a [Rc<Tree>]) -> Result<Vec<Self>, Problems> {
        let (mut found, mut count) = (Vec::new(), 0);
        for (tree, document) in documents.iter().zip(1..) {
            let whole = Self { tree, document, pointer: String::new(), kind: None, version: None };
            whole.unpack(0, &mut count, &mut found);
        }
        if count > MAX_OBJECTS {
            let text = format!("holds more than {MAX_OBJECTS} objects; give fewer at once");
            return Err(Problems(vec![InputProblem::of(name, text)]));
        }
        Ok(found)
    }

    /// Adds the objects in it to those `found`, and their number, lists included, to `count`, which stops past [`MAX_OBJECTS`].
    fn unpack(mut self, depth: usize, count: &mut usize, found: &mut Vec<Self>) {
        if self.tree.is_null() || *count > MAX_OBJECTS {
            return;
        }
        *count += 1;
        let text = |key: &str| self.tree.get(key).and_then(Tree::text);
        let version = text("apiVersion").or(self.version);
        match list(self.tree, self.kind).filter(|_| depth < DEEPEST) {
            Some((kind, items)) => {
                // Items of a list of any kind have their own.
                let kind = Some(kind).filter(|kind| !kind.is_empty());
                let version = version.filter(|_| kind.is_some());
                for (at, tree) in items.iter().enumerate() {
                    let pointer = format!("{}/items/{at}", self.pointer);
                    Self { tree, pointer, kind, version, ..self }.unpack(depth + 1, count, found);
                }
            }
            None => {
                let is_map = matches!(self.tree.value, TreeValue::Map(_));
                (self.kind, self.version) = (text("kind").or(self.kind).filter(|_| is_map), version);
                found.push(self);
            }
        }
    }

    fn meta(&self, key: &str) -> Option<&'a str> {
        self.tree.at(&["metadata", key])?.text()
    }

    /// In one line, as it may precede rules. `unnamed` follows the kind of an object without any name.
    fn title(&self, kind: &str, name: &str, unnamed: &str) -> String {
        visible(&match (self.meta("namespace").unwrap_or_default(), name) {
            ("", "") => format!("{kind}{unnamed}"),
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        })
    }

    /// The path of the pod's description, as far as it can be seen, and the description.
    fn described(&self, kind: &str) -> Option<(&'static [&'static str], &'a Tree)> {
        // A kind without a version, or with one without its group, is read as the known one.
        let known = match self.version {
            None | Some("v1") => {
                KINDS.iter().find(|(name, ..)| *name == kind).map(|(.., template)| *template)
            }
            Some(version) => template_of(kind, version),
        };
        match known {
            Some(path) => self.tree.at(path).map(|template| (path, template)),
            None => foreign(self.tree).map(|template| (TEMPLATE, template)),
        }
    }

    fn read(&self, kind: &str, name: &str, unnamed: &str, path: &[&str], template: &Tree) -> ManifestObject {
        let title = self.title(kind, name, unnamed);
        let text = |key: &str| self.meta(key).unwrap_or_default().to_owned();
        let namespace = text("namespace");
        let full_title = format!("document {}, {title}", self.document);
        let (pod, problems) = Pod::read(&full_title, template, name, &namespace);
        let mut remarks = unread::metadata(self.tree, path);
        if self.version.is_some_and(|version| template_of(kind, version).is_some()) {
            remarks.extend(unread::fields(template, path));
        }
        ManifestObject {
            title,
            kind: kind.to_owned(),
            api_version: self.version.unwrap_or_default().to_owned(),
            name: text("name"),
            generate_name: text("generateName"),
            namespace,
            document: self.document,
            object: self.pointer.clone(),
            template: path.iter().fold(self.pointer.clone(), |pointer, step| format!("{pointer}/{step}")),
            pod,
            problems: Problems::first(problems),
            remarks,
            enforced: None,
        }
    }
}

/// The second is the beginning of a name made when the object is created; `None` where both are empty.
pub fn called(name: Option<&str>, prefix: Option<&str>) -> Option<String> {
    let is_given = |text: &&str| !text.is_empty();
    let prefix = || prefix.filter(is_given).map(|prefix| format!("{prefix}*"));
    name.filter(is_given).map(str::to_owned).or_else(prefix)
}

/// The template in an object of any kind: Rollouts, services of Knative, and what else takes one where Deployments do.
fn foreign(object: &Tree) -> Option<&Tree> {
    object.at(TEMPLATE).filter(|template| template.at(&["spec", "containers"]).is_some())
}

pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// A Pod Security Standard that refuses pods that ask for more, such as for the capability that setting rules takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standard {
    Baseline,
    Restricted,
}

impl Standard {
    pub fn enforced(label: Option<&str>) -> Option<Self> {
        match label? {
            "privileged" => None,
            "baseline" => Some(Self::Baseline),
            // The API server evaluates what is not a level as `restricted`.
            _ => Some(Self::Restricted),
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str], strangers: &[&str]) {
        let found = holders("file", text).unwrap_or_else(|problems| panic!("{problems}"));
        let found_holders =
            |holder: &ManifestObject| format!("{} {} {}", holder.kind, holder.name, holder.template);
        let found_holders: Vec<String> =
            found.iter().flat_map(|document| document.holders.iter().map(found_holders)).collect();
        assert_eq!(found_holders, expected, "{text}");
        let odd: Vec<&String> = found.iter().flat_map(|document| &document.strangers).collect();
        assert_eq!(odd, strangers, "{text}");
    }

    #[test]
    fn kinds_count_in_their_groups() {
        let of = |version: &str, kind: &str| {
            format!(
                "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{template: {{spec: {{containers: []}}}}}}\n"
            )
        };
        check(&of("apps/v1", "Deployment"), &["Deployment x /spec/template"], &[]);
        check(&of("batch/v1", "Job"), &["Job x /spec/template"], &[]);
        check(&of("batch.volcano.sh/v1alpha1", "Job"), &[], &["Job (batch.volcano.sh/v1alpha1) x"]);
        check(&of("apps.openshift.io/v1", "DeploymentConfig"), &["DeploymentConfig x /spec/template"], &[]);
        check(&of("v1", "Deployment"), &[], &["Deployment (v1) x"]);
        check(&of("v1", "Pod"), &["Pod x "], &[]);
        check("kind: Service\napiVersion: v1\n", &[], &[]);
        check("just: data\n---\n[1]\n---\ntext\n", &[], &[]);
    }

    #[test]
    fn lists_say_what_their_items_are() {
        let pods = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {}\n";
        check(pods, &["Pod a /items/0"], &[]);
        let cron = "apiVersion: v1\nkind: List\nitems:\n- kind: CronJob\n  apiVersion: batch/v1\n  metadata: {name: c}\n  \
                    spec: {jobTemplate: {spec: {template: {spec: {}}}}}\n- {kind: Pod, spec: {}}\n";
        check(cron, &["CronJob c /items/0/spec/jobTemplate/spec/template"], &[]);
    }

    #[test]
    fn what_is_wrong_with_a_pod_is_told_with_its_document() {
        let text = "{}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop, generateName: web-}, spec: 1}\n---\n\
                    {apiVersion: v1, kind: Pod}\n";
        let found = holders("file", text).expect("YAML");
        let pods: Vec<&ManifestObject> = found.iter().flat_map(|document| &document.holders).collect();
        assert_eq!((pods[0].generate_name.as_str(), pods[0].namespace.as_str()), ("web-", "shop"));
        let problems = pods.iter().flat_map(|holder| &holder.problems).map(ToString::to_string);
        assert_eq!(
            problems.collect::<Vec<_>>(),
            [
                "document 2, Pod shop/x: line 3, column 93: spec: is a number; expected a mapping",
                "document 3, Pod: line 5, column 1: spec: is absent, so that nothing is known of the pod's containers",
            ]
        );
    }

    #[test]
    fn objects_are_counted_lists_included() {
        let list = |items: usize| format!("kind: List\nitems:\n{}", "- {kind: Secret}\n".repeat(items));
        let too_many = "file: holds more than 10000 objects; give fewer at once";
        let counted = |found: Result<usize, Problems>| found.map_err(|problems| problems.0[0].to_string());
        let all = |text: &str| counted(holders("file", text).map(|found| found.len()));
        let pods = |text: &str| counted(objects("file", text).map(|found| found.len()));
        assert_eq!(all(&list(MAX_OBJECTS - 1)), Ok(1));
        assert_eq!(all(&list(MAX_OBJECTS)), Err(too_many.to_owned()));
        assert_eq!(pods(&list(MAX_OBJECTS)), Err(too_many.to_owned()));
        let none = "file: describes no pod, but only Secret without a name";
        assert_eq!(pods(&list(MAX_OBJECTS - 1)), Err(none.to_owned()));
        // The count goes on from document to document.
        let two = format!("{}---\n{}", list(MAX_OBJECTS / 2), list(MAX_OBJECTS / 2));
        assert_eq!((all(&two), pods(&two)), (Err(too_many.to_owned()), Err(too_many.to_owned())));
    }
}
