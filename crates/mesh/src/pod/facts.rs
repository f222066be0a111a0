//! Facts of a pod or a template from any source: a manifest, an API server, or a container runtime that hands over annotations and
//! nothing else. What is unknown is empty or `None`. Reading an object reports every field of the wrong form.

use crate::InputProblem;
use crate::data::{ScalarKind, Tree, TreeValue};
use crate::settings::mapping::PROXY;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Option<Spec>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub host_network: bool,
    /// `runtimeClassName`; empty for the node's default.
    pub runtime_class: String,
    /// Counts for containers that do not set them.
    pub run_as_user: Option<String>,
    pub run_as_group: Option<String>,
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    pub addresses: Vec<String>,
    /// `None` where it does not name them all itself.
    pub dns_servers: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// In their order; of two with one name the later counts.
    pub env: Vec<Variable>,
    /// True if all variables of some other object are set too (`envFrom`).
    pub has_foreign_env: bool,
    pub run_as_user: Option<String>,
    pub run_as_group: Option<String>,
    /// True if it runs all along, though it may be among the init containers (`restartPolicy: Always`).
    pub always_restarts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    /// The cluster fills it in when the container starts.
    Unknowable,
}

/// The injector's record, in the pod's annotation.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(deserialize_with = "names")]
    pub init_containers: Vec<String>,
    #[serde(deserialize_with = "names")]
    pub containers: Vec<String>,
}

/// Null counts as none.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

pub const STATUS: &str = "sidecar.istio.io/status";

impl Pod {
    pub fn annotated(name: &str, namespace: &str, annotations: BTreeMap<String, String>) -> Self {
        Self { name: name.to_owned(), namespace: namespace.to_owned(), annotations, ..Self::default() }
    }

    /// Among containers that run all along or those that start first.
    pub fn proxy(&self) -> Option<&Container> {
        let spec = self.spec.as_ref()?;
        spec.containers.iter().chain(&spec.init_containers).find(|container| container.name == PROXY)
    }

    pub(super) fn container_names(&self) -> impl Iterator<Item = &str> {
        let specs = self.spec.iter();
        specs
            .flat_map(|spec| spec.init_containers.iter().chain(&spec.containers))
            .map(|one| one.name.as_str())
    }

    pub fn status(&self) -> Option<Status> {
        serde_json::from_str(self.annotations.get(STATUS)?).ok()
    }
}

impl Container {
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.env.iter().rev().find(|variable| variable.name == name).map(|variable| &variable.value)
    }
}

struct PodField<'a> {
    path: String,
    tree: &'a Tree,
}

impl<'a> PodField<'a> {
    fn get(&self, key: &str) -> Option<Self> {
        let tree = self.tree.get(key)?;
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Some(Self { path, tree })
    }

    fn is(&self, key: &str, text: &str) -> bool {
        self.tree.get(key).is_some_and(|value| value.text() == Some(text))
    }
}

impl Pod {
    /// The tree is that of the pod or of its template; `title` is the object's, for problems.
    pub(super) fn read(
        title: &str,
        template: &Tree,
        name: &str,
        namespace: &str,
    ) -> (Self, Vec<InputProblem>) {
        let mut reader = FieldReader { title, problems: Vec::new() };
        let template = PodField { path: String::new(), tree: template };
        let metadata = template.get("metadata");
        let mut texts = |key: &str| reader.texts(metadata.as_ref().and_then(|metadata| metadata.get(key)));
        let labels = Some(texts("labels"));
        let annotations = texts("annotations");
        let spec = Some(reader.spec(&template));
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        (Self { name, namespace, labels, annotations, spec }, reader.problems)
    }
}

struct FieldReader<'a> {
    title: &'a str,
    problems: Vec<InputProblem>,
}

impl FieldReader<'_> {
    fn spec(&mut self, template: &PodField<'_>) -> Spec {
        let Some(spec) = template.get("spec") else {
            let absent = PodField { path: "spec".to_owned(), tree: template.tree };
            self.problem(&absent, None, "is absent, so that nothing is known of the pod's containers");
            return Spec::default();
        };
        self.expect_mapping(&spec);
        // With another policy, the cluster's own servers or the node's come first, which no manifest names.
        let dns = spec.get("dnsConfig").filter(|_| spec.is("dnsPolicy", "None"));
        Spec {
            host_network: self.boolean(spec.get("hostNetwork")),
            runtime_class: self.text(spec.get("runtimeClassName")).unwrap_or_default(),
            run_as_user: self.id(&spec, "runAsUser"),
            run_as_group: self.id(&spec, "runAsGroup"),
            init_containers: self.each(spec.get("initContainers"), Self::container),
            containers: self.each(spec.get("containers"), Self::container),
            addresses: self.addresses(template.get("status")),
            dns_servers: dns.map(|config| self.each(config.get("nameservers"), Self::item)),
        }
    }

    fn addresses(&mut self, status: Option<PodField<'_>>) -> Vec<String> {
        let Some(status) = status else { return Vec::new() };
        let all =
            self.each(status.get("podIPs"), |reader, one| reader.text(one.get("ip")).unwrap_or_default());
        if all.is_empty() { self.text(status.get("podIP")).into_iter().collect() } else { all }
    }

    fn container(&mut self, container: &PodField<'_>) -> Container {
        self.expect_mapping(container);
        Container {
            name: self.text(container.get("name")).unwrap_or_default(),
            command: self.each(container.get("command"), Self::item),
            args: self.each(container.get("args"), Self::item),
            env: self.each(container.get("env"), Self::variable),
            has_foreign_env: container.get("envFrom").is_some_and(|from| !from.tree.items().is_empty()),
            run_as_user: self.id(container, "runAsUser"),
            run_as_group: self.id(container, "runAsGroup"),
            always_restarts: container.is("restartPolicy", "Always"),
        }
    }

    fn variable(&mut self, variable: &PodField<'_>) -> Variable {
        self.expect_mapping(variable);
        let name = self.text(variable.get("name")).unwrap_or_default();
        let value = match variable.get("valueFrom") {
            Some(_) => Value::Unknowable,
            None => Value::Text(self.text(variable.get("value")).unwrap_or_default()),
        };
        Variable { name, value }
    }

    fn id(&mut self, of: &PodField<'_>, key: &str) -> Option<String> {
        let field = of.get("securityContext")?.get(key)?;
        let item = match &field.tree.value {
            TreeValue::Scalar { kind: ScalarKind::Whole(number), .. } => return Some(number.to_string()),
            TreeValue::Scalar { text, .. } => Some(text.as_str()),
            TreeValue::List(_) | TreeValue::Map(_) => None,
        };
        self.expected("a whole number", &field, item);
        None
    }

    fn each<T>(
        &mut self,
        list: Option<PodField<'_>>,
        read: impl Fn(&mut Self, &PodField<'_>) -> T,
    ) -> Vec<T> {
        let Some(list) = list else { return Vec::new() };
        if !matches!(list.tree.value, TreeValue::List(_)) {
            self.expected("a list", &list, None);
        }
        let field = |(at, item)| PodField { path: format!("{}[{at}]", list.path), tree: item };
        let items = list.tree.items().iter().map(AsRef::as_ref).enumerate().map(field);
        items.map(|item| read(self, &item)).collect()
    }

    fn item(&mut self, item: &PodField<'_>) -> String {
        self.text(Some(PodField { path: item.path.clone(), tree: item.tree })).unwrap_or_default()
    }

    fn texts(&mut self, mapping: Option<PodField<'_>>) -> BTreeMap<String, String> {
        let Some(mapping) = mapping else { return BTreeMap::new() };
        self.expect_mapping(&mapping);
        let read = |(key, tree): &(String, _)| {
            let field = PodField { path: format!("{}.{key}", mapping.path), tree: AsRef::as_ref(tree) };
            Some((key.clone(), self.text(Some(field))?))
        };
        mapping.tree.fields().iter().filter_map(read).collect()
    }

    /// Kubernetes refuses numbers and booleans in the place of texts.
    fn text(&mut self, field: Option<PodField<'_>>) -> Option<String> {
        let field = field?;
        match &field.tree.value {
            TreeValue::Scalar { text, kind: ScalarKind::Text } => return Some(text.clone()),
            TreeValue::Scalar { kind: ScalarKind::Null, .. } => return Some(String::new()),
            TreeValue::Scalar { text, .. } => {
                let noun = field.tree.noun();
                let what = format!("is {noun} here, where Kubernetes takes a text; write it in quotes");
                self.problem(&field, Some(text), &what);
            }
            TreeValue::List(_) | TreeValue::Map(_) => self.expected("a text", &field, None),
        }
        None
    }

    fn boolean(&mut self, field: Option<PodField<'_>>) -> bool {
        let Some(field) = field else { return false };
        if let TreeValue::Scalar { kind: ScalarKind::Bool(is), .. } = field.tree.value {
            return is;
        }
        self.expected("true or false", &field, field.tree.text());
        false
    }

    fn expect_mapping(&mut self, field: &PodField<'_>) {
        if !matches!(field.tree.value, TreeValue::Map(_)) {
            self.expected("a mapping", field, None);
        }
    }

    fn expected(&mut self, form: &str, field: &PodField<'_>, item: Option<&str>) {
        self.problem(field, item, &format!("is {}; expected {form}", field.tree.noun()));
    }

    fn problem(&mut self, field: &PodField<'_>, item: Option<&str>, text: &str) {
        let place = field.tree.place.map(|place| format!("{place}: ")).unwrap_or_default();
        let name = format!("{}: {place}{}", self.title, field.path);
        self.problems.push(InputProblem::about(&name, item, text));
    }
}
