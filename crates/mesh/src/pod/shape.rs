//! From a tree to what is known of a pod, with everything that has not the form that Kubernetes wants.

use super::facts::{Container, Pod, Spec, Value as Setting, Variable};
use super::node::{ManifestNode, ManifestValue};
use super::scalar::ScalarKind;
use crate::InputProblem;
use std::{collections::BTreeMap, rc::Rc};

/// Reads values of one object; collects problems on the way.
pub(super) struct ObjectReader<'a> {
    title: &'a str,
    pub(super) problems: Vec<InputProblem>,
}

impl<'a> ObjectReader<'a> {
    pub(super) fn new(title: &'a str) -> Self {
        Self { title, problems: Vec::new() }
    }

    /// A pod by the template's tree, or by its own.
    pub(super) fn pod(&mut self, template: &ManifestNode, name: &str, namespace: &str) -> Pod {
        let texts = |shape: &mut Self, key: &str| {
            template.at(&["metadata", key]).map(|node| shape.texts(node, &format!("metadata.{key}")))
        };
        Pod {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            labels: Some(texts(self, "labels").unwrap_or_default()),
            annotations: texts(self, "annotations").unwrap_or_default(),
            spec: Some(self.spec(template)),
        }
    }

    fn spec(&mut self, template: &ManifestNode) -> Spec {
        let Some(spec) = template.get("spec") else {
            self.problem(
                "spec",
                None,
                "is absent, so that nothing is known of the pod's containers",
                template,
            );
            return Spec::default();
        };
        self.expect_mapping(spec, "spec");
        Spec {
            host_network: self.boolean(spec, "spec", "hostNetwork"),
            runtime_class: spec
                .get("runtimeClassName")
                .and_then(|class| self.text(class, "spec.runtimeClassName"))
                .unwrap_or_default(),
            run_as_user: self.id(spec, "spec", "runAsUser"),
            run_as_group: self.id(spec, "spec", "runAsGroup"),
            init_containers: self.each(spec, "spec", "initContainers", Self::container),
            containers: self.each(spec, "spec", "containers", Self::container),
            addresses: self.addresses(template),
            dns_servers: self.dns_servers(spec),
        }
    }

    fn addresses(&mut self, pod: &ManifestNode) -> Vec<String> {
        let Some(status) = pod.get("status") else { return Vec::new() };
        let all = self.each(status, "status", "podIPs", |shape, node, path| {
            node.get("ip").and_then(|ip| shape.text(ip, &format!("{path}.ip"))).unwrap_or_default()
        });
        if !all.is_empty() {
            return all;
        }
        status.get("podIP").and_then(|ip| self.text(ip, "status.podIP")).into_iter().collect()
    }

    /// With another policy, the cluster's own servers or the node's come first, which no manifest names.
    fn dns_servers(&mut self, spec: &ManifestNode) -> Option<Vec<String>> {
        let own = spec.get("dnsPolicy").is_some_and(|policy| policy.text() == Some("None"));
        let config = spec.get("dnsConfig").filter(|_| own)?;
        Some(self.list_of_texts(config, "spec.dnsConfig", "nameservers"))
    }

    fn container(&mut self, node: &Rc<ManifestNode>, path: &str) -> Container {
        let text = |shape: &mut Self, key: &str| {
            node.get(key).and_then(|node| shape.text(node, &format!("{path}.{key}"))).unwrap_or_default()
        };
        self.expect_mapping(node, path);
        let foreign = node.get("envFrom").map(|node| &node.value);
        Container {
            name: text(self, "name"),
            command: self.list_of_texts(node, path, "command"),
            args: self.list_of_texts(node, path, "args"),
            env: self.each(node, path, "env", Self::variable),
            has_foreign_env: matches!(foreign, Some(ManifestValue::List(items)) if !items.is_empty()),
            run_as_user: self.id(node, path, "runAsUser"),
            run_as_group: self.id(node, path, "runAsGroup"),
            always_restarts: node.get("restartPolicy").is_some_and(|policy| policy.text() == Some("Always")),
        }
    }

    /// The number of a user or a group in a security context.
    fn id(&mut self, node: &ManifestNode, path: &str, key: &str) -> Option<String> {
        let field = node.at(&["securityContext", key])?;
        self.whole(field, &format!("{path}.securityContext.{key}"))
    }

    fn variable(&mut self, node: &Rc<ManifestNode>, path: &str) -> Variable {
        self.expect_mapping(node, path);
        let name = node.get("name").and_then(|name| self.text(name, &format!("{path}.name")));
        let value = match node.get("valueFrom") {
            Some(_) => Setting::Unknowable,
            None => {
                let value = node.get("value").and_then(|value| self.text(value, &format!("{path}.value")));
                Setting::Text(value.unwrap_or_default())
            }
        };
        Variable { name: name.unwrap_or_default(), value }
    }

    fn expect_mapping(&mut self, node: &ManifestNode, path: &str) {
        if !matches!(node.value, ManifestValue::Map(_)) {
            self.problem(path, None, &format!("is {}; expected a mapping", node.noun()), node);
        }
    }

    /// The items of a list under a key, each read on its own.
    fn each<T>(
        &mut self,
        node: &ManifestNode,
        path: &str,
        key: &str,
        read: impl Fn(&mut Self, &Rc<ManifestNode>, &str) -> T,
    ) -> Vec<T> {
        let path = format!("{path}.{key}");
        let Some(list) = node.get(key) else { return Vec::new() };
        let ManifestValue::List(items) = &list.value else {
            self.problem(&path, None, &format!("is {}; expected a list", list.noun()), list);
            return Vec::new();
        };
        items.iter().enumerate().map(|(at, item)| read(self, item, &format!("{path}[{at}]"))).collect()
    }

    fn list_of_texts(&mut self, node: &ManifestNode, path: &str, key: &str) -> Vec<String> {
        self.each(node, path, key, |shape, node, path| shape.text(node, path).unwrap_or_default())
    }

    fn texts(&mut self, node: &ManifestNode, path: &str) -> BTreeMap<String, String> {
        let ManifestValue::Map(entries) = &node.value else {
            self.problem(path, None, &format!("is {}; expected a mapping", node.noun()), node);
            return BTreeMap::new();
        };
        let read = |(key, node): &(String, Rc<ManifestNode>)| {
            Some((key.clone(), self.text(node, &format!("{path}.{key}"))?))
        };
        entries.iter().filter_map(read).collect()
    }

    /// A text, or nothing. Kubernetes refuses numbers and booleans in their place.
    fn text(&mut self, node: &ManifestNode, path: &str) -> Option<String> {
        match &node.value {
            ManifestValue::Scalar { text, kind: ScalarKind::Text } => Some(text.clone()),
            ManifestValue::Scalar { kind: ScalarKind::Null, .. } => Some(String::new()),
            ManifestValue::Scalar { text, kind } => {
                let what =
                    format!("is {} here, where Kubernetes takes a text; write it in quotes", kind.noun());
                self.problem(path, Some(text), &what, node);
                None
            }
            ManifestValue::List(_) | ManifestValue::Map(_) => {
                self.problem(path, None, &format!("is {}; expected a text", node.noun()), node);
                None
            }
        }
    }

    fn whole(&mut self, node: &ManifestNode, path: &str) -> Option<String> {
        match &node.value {
            ManifestValue::Scalar { kind: ScalarKind::Whole(number), .. } => Some(number.to_string()),
            ManifestValue::Scalar { text, .. } => {
                let what = format!("is {}; expected a whole number", node.noun());
                self.problem(path, Some(text), &what, node);
                None
            }
            ManifestValue::List(_) | ManifestValue::Map(_) => {
                self.problem(path, None, &format!("is {}; expected a whole number", node.noun()), node);
                None
            }
        }
    }

    fn boolean(&mut self, node: &ManifestNode, path: &str, key: &str) -> bool {
        let Some(field) = node.get(key) else { return false };
        match &field.value {
            ManifestValue::Scalar { kind: ScalarKind::Bool(value), .. } => *value,
            _ => {
                let text = format!("is {}; expected true or false", field.noun());
                self.problem(&format!("{path}.{key}"), field.text(), &text, field);
                false
            }
        }
    }

    fn problem(&mut self, path: &str, item: Option<&str>, text: &str, node: &ManifestNode) {
        let name = match node.place {
            Some(place) => format!("{}: {place}: {path}", self.title),
            None => format!("{}: {path}", self.title),
        };
        self.problems.push(match item {
            Some(item) => InputProblem::with_item(&name, item, text),
            None => InputProblem::of(&name, text),
        });
    }
}
