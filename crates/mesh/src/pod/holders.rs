//! A manifest whose pods are to be changed in place: its documents as data, and the path of each pod in them.
//!
//! Reading settings is generous: it takes a template wherever it sees one. Changing pods requires to know what they
//! are, so that only kinds count here whose controllers are known.

use super::node::ManifestNode;
use super::shape::ObjectReader;
use super::values::data;
use super::walk::{FoundObject, MAX_OBJECTS, foreign, template_of, walk};
use super::yaml::documents;
use crate::{InputProblem, Problems};
use serde_json::Value;

/// A document of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// All of it; null where it is empty.
    pub value: Value,
    /// What of it describes pods, in its order.
    pub holders: Vec<Holder>,
    /// Objects that hold a template of pods, but whose kinds are not known: what they are, by version, kind and name.
    pub strangers: Vec<String>,
}

/// An object that describes pods: what it is, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its path in the document, as a JSON pointer.
    pub object: String,
    /// The same for the pod, or the template of its pods.
    pub template: String,
    pub api_version: String,
    pub kind: String,
    /// Empty where it has none.
    pub name: String,
    /// What its name will begin with, where it has none yet.
    pub generate_name: String,
    /// Empty where it names none.
    pub namespace: String,
    /// What of the pod has not the form that Kubernetes wants, with its lines.
    pub problems: Vec<InputProblem>,
}

/// The documents of a manifest, with what of them describes pods. `name` is that of the file, for problems.
///
/// # Errors
/// When the text is neither YAML nor JSON, or holds too many objects.
pub fn holders(name: &str, text: &str) -> Result<Vec<Document>, Problems> {
    let problem = |text: String| Problems(vec![InputProblem::of(name, text)]);
    let nodes = documents(text).map_err(|malformed| problem(format!("is not YAML or JSON: {malformed}")))?;
    let (mut found, mut count) = (Vec::new(), 0);
    for (at, node) in nodes.iter().enumerate() {
        let mut document = Document { value: data(node), holders: Vec::new(), strangers: Vec::new() };
        walk(node, &mut count, &mut |met| document.take(&met, at + 1));
        found.push(document);
    }
    match count > MAX_OBJECTS {
        true => Err(problem(format!("holds more than {MAX_OBJECTS} objects; give fewer at once"))),
        false => Ok(found),
    }
}

impl Document {
    fn take(&mut self, met: &FoundObject<'_>, document: usize) {
        let Some(kind) = met.kind else { return };
        let version = met.version.unwrap_or_default();
        let text =
            |key: &str| met.node.at(&["metadata", key]).and_then(ManifestNode::text).unwrap_or_default();
        let (name, namespace) = (text("name"), text("namespace"));
        // Without a version the group of the kind is unknown; the API server refuses it.
        let path = met.version.and_then(|version| template_of(kind, version));
        let Some((path, template)) = path.and_then(|path| Some((path, met.node.at(path)?))) else {
            if path.is_none() && foreign(met.node).is_some() {
                let version = if version.is_empty() { "without an apiVersion" } else { version };
                self.strangers.push(format!("{kind} ({version}) {name}").trim_end().to_owned());
            }
            return;
        };
        let title = match namespace {
            "" => format!("document {document}, {kind} {name}"),
            namespace => format!("document {document}, {kind} {namespace}/{name}"),
        };
        let mut shape = ObjectReader::new(title.trim_end());
        shape.pod(template, name, namespace);
        let problems = Problems::first(shape.problems);
        let steps: String = path.iter().map(|step| format!("/{step}")).collect();
        self.holders.push(Holder {
            template: format!("{}{steps}", met.pointer),
            object: met.pointer.clone(),
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            generate_name: text("generateName").to_owned(),
            namespace: namespace.to_owned(),
            problems,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::objects;
    use super::*;

    fn check(text: &str, expected: &[&str], strangers: &[&str]) {
        let found = holders("file", text).unwrap_or_else(|problems| panic!("{problems}"));
        let found_holders = |holder: &Holder| format!("{} {} {}", holder.kind, holder.name, holder.template);
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
        let pods: Vec<&Holder> = found.iter().flat_map(|document| &document.holders).collect();
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
