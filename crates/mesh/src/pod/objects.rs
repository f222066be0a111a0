//! Kubernetes objects of a file, and their pods. Settings are read from any template; pods are changed only in known kinds.

use super::{facts::Pod, unread};
use crate::data::document::{DocumentReader, at};
use crate::data::reader::{data, documents};
use crate::sources::{ObjectPlace, PodOrigin};
use crate::{InputProblem, Problems, data::Tree, visible::visible};
use rules::finding::{Code, Finding, Level};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, mem, sync::Arc};

const TEMPLATE: &[&str] = &["spec", "template"];

const APPS: &[&str] = &["apps", "extensions"];

/// Kinds whose controllers create pods (`k8s.io/api`, `github.com/openshift/api/apps`): name, groups, and the path of the pod.
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
    // Its first version was in the core group.
    ("DeploymentConfig", &["apps.openshift.io", ""], TEMPLATE),
];

/// Paths of templates in objects of other kinds: Rollouts, Knative services and virtual machines; KEDA jobs; Flink.
const FOREIGN: [FieldPath; 3] = [TEMPLATE, &["spec", "jobTargetRef", "template"], &["spec", "podTemplate"]];

pub fn kinds() -> impl Iterator<Item = &'static str> + Clone {
    KINDS.iter().map(|(kind, ..)| *kind)
}

const MAX_PODS: usize = 10_000;

/// Nested lists are read to this depth.
const DEEPEST: usize = 8;

pub type FieldPath = &'static [&'static str];

#[derive(Clone, Debug)]
pub struct KubernetesObject {
    /// Items of a typed list inherit kind and version.
    pub value: Value,
    /// Number of the document, from 1.
    pub document: usize,
    pub pointer: String,
    pub place: Option<ObjectPlace>,
    tree: Option<Arc<Tree>>,
}

impl KubernetesObject {
    /// Parses the objects of the file `name`, replacing lists with their items.
    pub fn all(name: &str, text: &str) -> Result<Vec<Self>, Problems> {
        let mut found = Vec::new();
        for (tree, document) in documents(name, text, None)?.into_iter().zip(1..) {
            let (value, pointer) = (data(&tree), String::new());
            Self { value, document, pointer, place: None, tree: Some(tree) }.unpack(0, &mut found);
        }
        let (file, text): (Arc<str>, Arc<str>) = (name.into(), text.into());
        let mut next = text.lines().count() + 1;
        for object in found.iter_mut().rev() {
            let start = object.tree.as_ref().and_then(|tree| tree.place).map(|place| place.line);
            let lines = start.map_or(1..1, |start| start..next.max(start));
            next = start.unwrap_or(next);
            object.place = Some(ObjectPlace { file: file.clone(), text: text.clone(), lines });
        }
        Ok(found)
    }

    pub fn of(value: Value) -> Vec<Self> {
        let mut found = Vec::new();
        Self { value, document: 1, pointer: String::new(), place: None, tree: None }.unpack(0, &mut found);
        found
    }

    /// Drops positions, so problems have none.
    pub fn without_positions(self) -> Self {
        Self { tree: None, ..self }
    }

    fn unpack(mut self, depth: usize, found: &mut Vec<Self>) {
        if self.value.is_null() {
            return;
        }
        let of = self.kind().strip_suffix("List").filter(|_| depth < DEEPEST).map(str::to_owned);
        let version = self.api_version().to_owned();
        let (Some(of), Some(Value::Array(items))) = (of, self.value.get_mut("items")) else {
            return found.push(self);
        };
        let trees =
            self.tree.as_ref().and_then(|tree| tree.get("items")).map(Tree::items).unwrap_or_default();
        for (at, mut value) in mem::take(items).into_iter().enumerate() {
            if let Value::Object(fields) = &mut value
                && !of.is_empty()
            {
                fields.entry("kind").or_insert_with(|| of.clone().into());
                if !version.is_empty() {
                    fields.entry("apiVersion").or_insert_with(|| version.clone().into());
                }
            }
            let pointer = format!("{}/items/{at}", self.pointer);
            let tree = trees.get(at).cloned();
            Self { value, document: self.document, pointer, place: None, tree }.unpack(depth + 1, found);
        }
    }

    /// The kind; empty if this is not a Kubernetes object.
    pub fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn api_version(&self) -> &str {
        self.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn meta(&self, field: &str) -> &str {
        at(&self.value, &["metadata", field]).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn called(&self) -> Option<String> {
        called(&self.value["metadata"])
    }

    /// Kind, namespace and name, such as `Deployment shop/web`, on one line, as in a comment before rules.
    pub fn title(&self) -> String {
        let (kind, namespace) = (self.kind(), self.meta("namespace"));
        visible(&match (namespace, self.called()) {
            ("", None) => format!("{kind} without a name"),
            ("", Some(name)) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{}", name.unwrap_or_default()),
        })
    }

    /// Path of the pod or pod template; `None` if absent or the kind's controller is unknown.
    pub fn template(&self) -> Option<FieldPath> {
        self.known_path(false).filter(|path| at(&self.value, path).is_some())
    }

    /// Like [`Self::template`], also for kinds with unknown controllers. A kind without version or group counts as known.
    pub fn readable_template(&self) -> Option<FieldPath> {
        let is_unclear = ["", "v1"].contains(&self.api_version());
        self.known_path(is_unclear).or_else(|| self.foreign_path())
    }

    fn known_path(&self, in_any_group: bool) -> Option<FieldPath> {
        let version = self.api_version();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let is_of = |groups: &[&str]| in_any_group || !version.is_empty() && groups.contains(&group);
        let known = KINDS.iter().find(|(kind, groups, _)| *kind == self.kind() && is_of(groups));
        known.map(|(.., path)| *path)
    }

    /// Path of a template in an object of any kind. A virtual machine has a domain; its pod has the template's metadata.
    fn foreign_path(&self) -> Option<FieldPath> {
        FOREIGN.into_iter().find(|path| {
            let spec = at(&self.value, &[*path, &["spec"]].concat());
            spec.is_some_and(|spec| spec.get("containers").or_else(|| spec.get("domain")).is_some())
        })
    }

    pub fn unknown_holder(&self) -> Option<String> {
        let version = match self.api_version() {
            "" => "without an apiVersion",
            version => version,
        };
        let is_one = !self.kind().is_empty() && self.known_path(false).is_none();
        self.foreign_path().filter(|_| is_one)?;
        Some(format!("{} ({version}) {}", self.kind(), self.meta("name")).trim_end().to_owned())
    }

    pub fn pod(&self) -> Option<ManifestObject> {
        let path = self.readable_template()?;
        let template = at(&self.value, path)?;
        let mut reader = DocumentReader::of("", template);
        reader.places = self.tree.as_deref().and_then(|tree| tree.at(path));
        let positions = reader.places.cloned();
        let pod = Pod::read(&mut reader, &self.called().unwrap_or_default(), self.meta("namespace"));
        let problems = Problems::first(reader.finish());
        let mut remarks = unread::metadata(&self.value, path);
        if self.template().is_some() {
            remarks.extend(unread::fields(template, path));
        }
        let origin = PodOrigin { title: self.title(), place: self.place.clone(), template: positions };
        Some(ManifestObject { origin, kind: self.kind().to_owned(), pod, problems, remarks, enforced: None })
    }
}

/// Name of an object, or the prefix of a generated one; `None` if both are empty.
pub fn called(metadata: &Value) -> Option<String> {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    match (text("name"), text("generateName")) {
        ("", "") => None,
        ("", prefix) => Some(format!("{prefix}*")),
        (name, _) => Some(name.to_owned()),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestObject {
    pub origin: PodOrigin,
    pub kind: String,
    pub pod: Pod,
    pub problems: Vec<InputProblem>,
    /// Remarks about misplaced keys, which no program reads.
    pub remarks: Vec<Finding>,
    /// The namespace's standard, if the manifest contains the namespace.
    pub enforced: Option<Standard>,
}

pub fn objects(name: &str, text: &str) -> Result<Vec<ManifestObject>, Problems> {
    let (mut objects, mut others, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let mut standards = BTreeMap::new();
    for object in KubernetesObject::all(name, text)? {
        if object.kind().is_empty() {
            let place = object.tree.and_then(|tree| tree.place).map(|place| format!(", {place}"));
            let name = format!("document {}{}", object.document, place.unwrap_or_default());
            problems.push(InputProblem::of(&name, "is not a Kubernetes object: it has no kind"));
            continue;
        }
        // Objects without a namespace must not match a namespace without a name.
        if (object.kind(), object.api_version()) == ("Namespace", "v1") && !object.meta("name").is_empty() {
            let label = at(&object.value, &["metadata", "labels", ENFORCE]).and_then(Value::as_str);
            let standard = Standard::enforced(label);
            standards.extend(standard.map(|standard| (object.meta("name").to_owned(), standard)));
        }
        match object.pod() {
            Some(_) if objects.len() == MAX_PODS => {
                let text = format!("describes more than {MAX_PODS} pods; give fewer");
                return Err(Problems(vec![InputProblem::of(name, text)]));
            }
            Some(pod) => objects.push(pod),
            None => others.push((object.title(), holds_containers(&object.value["spec"]))),
        }
    }
    Problems::check(problems)?;
    let titles = |others: &[(String, bool)]| {
        others.iter().map(|(title, _)| title.as_str()).collect::<Vec<_>>().join(", ")
    };
    if objects.is_empty() {
        others.dedup();
        let text = match &others[..] {
            [] => "holds no object; expected a pod or a workload".to_owned(),
            others => format!("describes no pod, but only {}", titles(others)),
        };
        return Err(Problems(vec![InputProblem::of(name, text)]));
    }
    others.retain(|(_, holds_containers)| *holds_containers);
    if !others.is_empty() {
        let text = format!("containers of unsupported kinds are ignored: {}", titles(&others));
        objects[0].remarks.push(Finding::plain(Level::Note, Code::AmbiguousManifest, text));
    }
    for object in &mut objects {
        object.enforced = standards.get(&object.pod.namespace).copied();
    }
    Ok(objects)
}

/// True if containers are described at any depth, as in workflows.
fn holds_containers(fields: &Value) -> bool {
    let describes = |(name, value): (&String, &Value)| {
        let is_one = name == "containers" && value.get(0).is_some()
            || name == "container" && value["image"].is_string();
        is_one || holds_containers(value)
    };
    match fields {
        Value::Array(items) => items.iter().any(holds_containers),
        Value::Object(fields) => fields.iter().any(describes),
        _ => false,
    }
}

pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Pod Security Standard, which refuses pods that request more, such as the capability for setting rules.
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
            // The API server evaluates an unknown level as `restricted`.
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
    use crate::pod::read;
    use serde_json::json;

    fn check(text: &str, expected: &[&str], unknown: &[&str]) {
        let found = KubernetesObject::all("file", text).unwrap_or_else(|problems| panic!("{problems}"));
        let holder = |object: &KubernetesObject| {
            let path = object.template()?.join(".");
            Some(format!("{} {} {} {path}", object.kind(), object.meta("name"), object.pointer))
        };
        assert_eq!(found.iter().filter_map(holder).collect::<Vec<_>>(), expected, "{text}");
        let odd: Vec<String> = found.iter().filter_map(KubernetesObject::unknown_holder).collect();
        assert_eq!(odd, unknown, "{text}");
    }

    #[test]
    fn kinds_count_in_their_groups() {
        let of = |version: &str, kind: &str| {
            format!(
                "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{template: {{spec: {{containers: []}}}}}}\n"
            )
        };
        check(&of("apps/v1", "Deployment"), &["Deployment x  spec.template"], &[]);
        check(&of("batch/v1", "Job"), &["Job x  spec.template"], &[]);
        check(&of("batch.volcano.sh/v1alpha1", "Job"), &[], &["Job (batch.volcano.sh/v1alpha1) x"]);
        check(&of("apps.openshift.io/v1", "DeploymentConfig"), &["DeploymentConfig x  spec.template"], &[]);
        check(&of("v1", "Deployment"), &[], &["Deployment (v1) x"]);
        check(&of("v1", "Pod"), &["Pod x  "], &[]);
        check("kind: Service\napiVersion: v1\n", &[], &[]);
        check("just: data\n---\n[1]\n---\ntext\n", &[], &[]);
    }

    #[test]
    fn typed_lists_give_items_their_kind() {
        let pods = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {}\n";
        check(pods, &["Pod a /items/0 "], &[]);
        let cron = "apiVersion: v1\nkind: List\nitems:\n- kind: CronJob\n  apiVersion: batch/v1\n  metadata: {name: c}\n  \
                    spec: {jobTemplate: {spec: {template: {spec: {}}}}}\n- {kind: Pod, spec: {}}\n";
        check(cron, &["CronJob c /items/0 spec.jobTemplate.spec.template"], &[]);
        for (printed, expected) in [
            (json!({"kind": "Pod", "a": 1}), vec![json!({"kind": "Pod", "a": 1})]),
            (
                json!({"kind": "List", "apiVersion": "v1", "items": [{"kind": "A"}, {}]}),
                vec![json!({"kind": "A"}), json!({})],
            ),
            (
                json!({"kind": "PodList", "apiVersion": "v1", "items": [{"kind": "A", "apiVersion": "v2"}, {}]}),
                vec![json!({"kind": "A", "apiVersion": "v2"}), json!({"kind": "Pod", "apiVersion": "v1"})],
            ),
            (json!({"kind": "PodList", "items": [{}]}), vec![json!({"kind": "Pod"})]),
            (json!({"kind": "PodList"}), vec![json!({"kind": "PodList"})]),
            (json!(null), vec![]),
        ] {
            let found = KubernetesObject::of(printed.clone()).into_iter();
            assert_eq!(found.map(|object| object.value).collect::<Vec<_>>(), expected, "{printed}");
        }
    }

    #[test]
    fn problems_of_a_pod_name_its_document() {
        let text = "{}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: shop, generateName: web-}, spec: 1}\n---\n\
                    {apiVersion: v1, kind: Pod}\n";
        let found = KubernetesObject::all("file", text).expect("YAML");
        let pods: Vec<ManifestObject> = found.iter().filter_map(KubernetesObject::pod).collect();
        let problems = pods.iter().flat_map(|pod| read(pod, &[""; 0]).settings.problems());
        let problems = problems.map(|problem| problem.to_string());
        assert_eq!(
            problems.collect::<Vec<_>>(),
            [
                "file:3: Pod shop/x: spec: \"1\" is a number; expected a mapping",
                "file:5: Pod without a name: spec: is missing, so the pod's containers are unknown",
            ]
        );
    }

    #[test]
    fn pods_are_counted() {
        let pods = |count: usize| {
            let text = format!("kind: PodList\nitems:\n{}", "- {spec: {}}\n".repeat(count));
            objects("file", &text).map(|found| found.len()).map_err(|problems| problems.0[0].to_string())
        };
        assert_eq!(pods(MAX_PODS), Ok(MAX_PODS));
        let too_many = "file: describes more than 10000 pods; give fewer";
        assert_eq!(pods(MAX_PODS + 1), Err(too_many.to_owned()));
    }

    #[test]
    fn an_object_has_the_lines_up_to_the_next_one() {
        let text = "# first\nkind: Pod\n---\n\nkind: List\nitems:\n- kind: A\n  a: 1\n- kind: B\n---\n# nothing\n---\nkind: C\n";
        let found = KubernetesObject::all("file", text).expect("YAML");
        let places = found.iter().map(|object| {
            let place = object.place.as_ref().expect("a file");
            (object.kind(), place.to_string(), place.own_text())
        });
        let expected = [
            ("Pod", "file:2", "kind: Pod\n---\n\nkind: List\nitems:\n"),
            ("A", "file:7", "- kind: A\n  a: 1\n"),
            ("B", "file:9", "- kind: B\n---\n# nothing\n---\n"),
            ("C", "file:13", "kind: C\n"),
        ];
        let expected = expected.map(|(kind, place, text)| (kind, place.to_owned(), text.to_owned()));
        assert_eq!(places.collect::<Vec<_>>(), expected);
        let json = KubernetesObject::all("file", "{\"kind\": \"A\"}{\"kind\": \"B\"}").expect("JSON");
        assert_eq!(json[1].place.as_ref().map(ObjectPlace::own_text).as_deref(), Some(""));
    }
}
