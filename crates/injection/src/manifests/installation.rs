//! Options of an installation, parsed once, with all problems.

use crate::{chart, decision::SYSTEM_NAMESPACES, syntax::is_domain, tag};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    pub namespace: String,
    /// True to include the Namespace, unless it exists in every cluster.
    pub(super) names_namespace: bool,
    /// `injector` values that differ from the chart's defaults.
    pub(super) values: Value,
}

pub const NAMESPACE: &str = "sidecar-injector";

/// Returns the prefix by which a revision collides with another installation's operator or tag.
fn taken(revision: &str) -> Option<&'static str> {
    ["environment", "revision-tag"]
        .into_iter()
        .find(|word| revision.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

/// Chart values, and the flags of `manifests` that name them in problems.
const FLAGS: [(&str, &str); 5] = [
    ("injector.image", "--image"),
    ("injector.proxyImage", "--proxy-image"),
    ("injector.initImage", "--init-image"),
    ("injector.tags", "--tag"),
    ("injector.auto", "--auto"),
];

impl Installation {
    /// Parses options; `values` are the chart's `injector`. Returns every problem, including violations of the chart's schema.
    pub fn read(namespace: &str, names_namespace: bool, mut values: Value) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let text = |key: &str| values[key].as_str().unwrap_or_default();
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut name = |flag: &str, text: &str, most: usize| {
            problems.extend(label(text, most).err().map(|fault| InputProblem::with_item(flag, text, fault)));
        };
        // A revision becomes part of Service names, which have at most 63 characters.
        name("--namespace", namespace, 63);
        name("--revision", revision(&values), MAX_REVISION);
        for tag in texts(&values["tags"]) {
            name("--tag", &tag, 63);
        }
        let class = text("priorityClassName");
        if !class.is_empty() && !is_domain(class) {
            let text = "is not the name of a PriorityClass; expected one such as system-cluster-critical";
            problems.push(InputProblem::with_item("--priority-class", class, text));
        }
        if let Some(word) = taken(revision(&values)) {
            let text = format!(
                "would take names of other objects (sidecar-injector-{word}..); choose a name that does not begin with {word}"
            );
            problems.push(InputProblem::with_item("--revision", revision(&values), text));
        }
        problems.extend(chart::problems(&json!({ "injector": values })).iter().filter_map(|problem| {
            let (key, fault) = problem.split_once(": ")?;
            let (_, flag) = FLAGS.iter().find(|(known, _)| *known == key)?;
            Some(InputProblem::of(flag, fault))
        }));
        if values["replicas"] == 0 {
            problems.push(InputProblem::of("--replicas", "is 0; expected 1 or more replicas"));
        }
        let operator = &values["operator"];
        if !texts(&operator["allowHosts"]).is_empty() && operator["enabled"] != true {
            problems.push(InputProblem::of("--allow-hosts", "is for the operator; add --operator"));
        }
        let labels = texts(&values["environmentLabels"]);
        if !labels.is_empty() {
            match tag::labels("--environment-labels", &labels.join(",")) {
                Ok(labels) => values["environmentLabels"] = json!(labels),
                Err(Problems(others)) => problems.extend(others),
            }
        }
        Problems::check(problems)?;
        let is_of_every_cluster = namespace == "default" || SYSTEM_NAMESPACES.contains(&namespace);
        let names_namespace = names_namespace && !is_of_every_cluster;
        Ok(Self { namespace: namespace.to_owned(), names_namespace, values })
    }

    pub fn name(&self) -> String {
        self.with_revision("sidecar-injector")
    }

    pub fn secret(&self) -> String {
        self.with_revision("sidecar-injector-ca")
    }

    pub fn revision(&self) -> &str {
        revision(&self.values)
    }

    pub(super) fn with_revision(&self, name: &str) -> String {
        match self.revision() {
            DEFAULT => name.to_owned(),
            revision => format!("{name}-{revision}"),
        }
    }
}

const DEFAULT: &str = "default";

fn revision(values: &Value) -> &str {
    values["revision"].as_str().unwrap_or(DEFAULT)
}

/// Longest revision: the longest name made from it has 63 characters.
pub const MAX_REVISION: usize = 63 - "sidecar-injector-environment-".len();

/// Checks that a name is a DNS label. The error has the fault and the expected format.
pub fn label(text: &str, most: usize) -> Result<(), String> {
    let is_one = text.len() <= most && is_domain(text) && !text.contains('.');
    let form = "lowercase letters, digits and -, with a letter or digit at both ends";
    if is_one { Ok(()) } else { Err(format!("is not a name; expected up to {most} {form} (RFC 1123)")) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn plain(mut values: Value) -> Result<Installation, Problems> {
        let mut all = json!({ "image": "mesh/injector:1", "proxyImage": "mesh/proxy:1" });
        json_patch::merge(&mut all, &values.take());
        Installation::read(NAMESPACE, true, all)
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let values = json!({
            "image": "", "proxyImage": "proxyv2", "initImage": "mesh/init 1", "revision": "canary",
            "tags": ["canary", "-", "canary"], "auto": true, "replicas": 0, "environmentLabels": ["a/b/c"],
            "operator": { "allowHosts": ["*"] }, "priorityClassName": "High",
        });
        let refused = Installation::read("Mesh", true, values).expect_err("all of it is wrong");
        let refused = refused.to_string();
        let expected = [
            "--namespace: \"Mesh\"",
            "--tag: \"-\"",
            "--image: is missing",
            "--proxy-image: \"proxyv2\" has no slash",
            "--init-image: \"mesh/init 1\"",
            "--replicas: is 0",
            "--tag: \"canary\" is named already",
            "--auto",
            "--environment-labels: \"a/b/c\"",
            "--allow-hosts: is for the operator; add --operator",
            "--priority-class: \"High\"",
        ];
        for text in expected {
            assert!(refused.contains(text), "{text}: {refused}");
        }
        assert!(refused.starts_with("11 problems"), "{refused}");
    }

    #[test]
    fn a_revision_is_part_of_names() {
        let read = |revision: &str| plain(json!({ "revision": revision }));
        for (revision, name) in [
            ("default", "sidecar-injector"),
            ("1-30", "sidecar-injector-1-30"),
            ("environments", "sidecar-injector-environments"),
        ] {
            assert_eq!(read(revision).expect("right").name(), name);
        }
        for revision in ["environment", "environment-x", "revision-tag-x"] {
            let refused = read(revision).expect_err("taken");
            assert!(refused.to_string().contains("names of other objects"), "{refused}");
        }
        assert!(read(&"r".repeat(MAX_REVISION + 1)).is_err());
    }

    #[test]
    fn images_are_pinned_or_required() {
        let fault =
            |key: &str, image: &str| plain(json!({ key: image })).err().map(|fault| fault.to_string());
        let digest = format!("mesh/proxy@sha256:{}", "0a".repeat(32));
        for image in ["mesh/proxy:1", "localhost:5000/proxy:latest-1", "a.b/c/proxy:v1.2", &digest] {
            assert_eq!(fault("proxyImage", image), None, "{image}");
        }
        for (image, text) in [
            ("", "--proxy-image: is missing; expected an image"),
            ("mesh/proxy 1", "not an image"),
            ("mesh/proxy\u{7f}:1", "not an image"),
            ("proxy:1", "no slash"),
            ("mesh/proxy", "neither tag nor digest"),
            ("localhost:5000/proxy", "neither tag nor digest"),
            ("mesh/proxy:", "empty tag"),
            ("mesh/proxy:latest", "the tag latest"),
            ("mesh/proxy:1@sha256:12", "an invalid digest"),
            ("mesh/proxy@", "an invalid digest"),
            (&digest[..digest.len() - 1], "an invalid digest"),
            (digest.replace("0a", "0A").as_str(), "an invalid digest"),
            (digest.replace("sha256", "md5").as_str(), "an invalid digest"),
        ] {
            assert!(fault("proxyImage", image).is_some_and(|fault| fault.contains(text)), "{image}");
        }
        assert_eq!(fault("image", "injector:1"), None, "an image of the nodes");
        assert_eq!(fault("initImage", ""), None, "the proxies' image");
    }
}
