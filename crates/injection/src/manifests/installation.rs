//! Options of an installation, parsed once, all problems at once.

use crate::decision::SYSTEM_NAMESPACES;
use crate::environment::{inventory::AllowedHost, tag};
use crate::syntax::is_domain;
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};
use std::ops::Deref;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallOptions {
    pub namespace: String,
    pub image: Option<String>,
    pub revision: String,
    /// Other names by which namespaces and pods may ask for this revision.
    pub tags: Vec<String>,
    /// Pods of namespaces that say nothing are injected, too.
    pub auto: bool,
    pub replicas: u16,
    /// The list after `--environment-labels`, if the environment's tag is enabled.
    pub environment_labels: Option<String>,
    pub operator: bool,
    /// Hosts that the operator lets Services of any namespace route.
    pub allow_hosts: Vec<AllowedHost>,
    pub proxy_image: Option<String>,
    pub init_image: Option<String>,
    pub priority_class: Option<String>,
    pub network_policy: bool,
    /// The Namespace itself is among the objects, unless every cluster has it.
    pub names_namespace: bool,
    /// Webhook configurations have the names of istiod's.
    pub istio_names: bool,
}

impl Default for InstallOptions {
    /// Without the images, which are required.
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            image: None,
            revision: DEFAULT.to_owned(),
            tags: Vec::new(),
            auto: false,
            replicas: 2,
            environment_labels: None,
            operator: false,
            allow_hosts: Vec::new(),
            proxy_image: None,
            init_image: None,
            priority_class: None,
            network_policy: true,
            names_namespace: true,
            istio_names: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    pub(super) options: InstallOptions,
    /// The labels that name a pod's environment; empty where that is not enabled.
    pub(super) environment_labels: Vec<String>,
}

impl Deref for Installation {
    type Target = InstallOptions;

    fn deref(&self) -> &InstallOptions {
        &self.options
    }
}

pub const NAMESPACE: &str = "sidecar-injector";

/// The beginning of a revision that would make the name of another installation's object: the operator's, or a tag's.
fn taken(revision: &str) -> Option<&'static str> {
    ["environment", "revision-tag"]
        .into_iter()
        .find(|word| revision.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

fn is_of_every_cluster(namespace: &str) -> bool {
    namespace == "default" || SYSTEM_NAMESPACES.contains(&namespace)
}

pub(super) const DEFAULT: &str = "default";

impl Installation {
    /// # Errors
    /// Every problem in it.
    pub fn read(mut options: InstallOptions) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut name = |flag: &str, text: &str, most: usize| {
            problems.extend(label(text, most).err().map(|fault| InputProblem::with_item(flag, text, fault)));
        };
        // A revision becomes part of names of Services, which have 63 characters at most.
        name("--namespace", &options.namespace, 63);
        name("--revision", &options.revision, MAX_REVISION);
        for tag in &options.tags {
            name("--tag", tag, 63);
        }
        if let Some(class) = options.priority_class.as_ref().filter(|class| !is_domain(class)) {
            let text = "is not the name of a PriorityClass; expected one such as system-cluster-critical";
            problems.push(InputProblem::with_item("--priority-class", class, text));
        }
        if let Some(word) = taken(&options.revision) {
            let text = format!(
                "would take names of other objects (sidecar-injector-{word}..); choose a name that does not begin with {word}"
            );
            problems.push(InputProblem::with_item("--revision", &options.revision, text));
        }
        problems.extend(images(&options));
        if options.replicas == 0 {
            problems
                .push(InputProblem::of("--replicas", "is 0, so no replica would answer; expected 1 or more"));
        }
        for (at, tag) in options.tags.iter().enumerate() {
            if *tag == options.revision || options.tags[..at].contains(tag) {
                let text = "is named already, and two webhooks would be called; name each once";
                problems.push(InputProblem::with_item("--tag", tag, text));
            }
        }
        let is_default = options.revision == DEFAULT || options.tags.iter().any(|tag| tag == DEFAULT);
        if options.auto && !is_default {
            let text = "is for the default revision; add --tag default, or leave out --revision";
            problems.push(InputProblem::of("--auto", text));
        }
        if !options.allow_hosts.is_empty() && !options.operator {
            problems.push(InputProblem::of("--allow-hosts", "is for the operator; add --operator"));
        }
        let labels =
            options.environment_labels.as_ref().map(|text| tag::labels("--environment-labels", text));
        let labels = labels.transpose().map_err(|Problems(others)| problems.extend(others));
        Problems::check(problems)?;
        options.names_namespace &= !is_of_every_cluster(&options.namespace);
        Ok(Self { environment_labels: labels.ok().flatten().unwrap_or_default(), options })
    }

    pub(super) fn set(&self, values: &mut Value) {
        values["image"] = json!(self.image);
        values["proxyImage"] = json!(self.proxy_image);
        values["initImage"] = json!(self.init_image);
        values["revision"] = json!(self.revision);
        values["istioNames"] = json!(self.istio_names);
        values["tags"] = json!(self.tags);
        values["auto"] = json!(self.auto);
        values["replicas"] = json!(self.replicas);
        values["environmentLabels"] = json!(self.environment_labels);
        values["operator"]["enabled"] = json!(self.operator);
        let hosts = self.allow_hosts.iter().map(|host| &*host.0);
        values["operator"]["allowHosts"] = hosts.collect();
        values["networkPolicy"]["enabled"] = json!(self.network_policy);
        values["priorityClassName"] = json!(self.priority_class);
    }

    pub fn name(&self) -> String {
        self.with_revision("sidecar-injector")
    }

    pub fn secret(&self) -> String {
        self.with_revision("sidecar-injector-ca")
    }

    pub(super) fn with_revision(&self, name: &str) -> String {
        if self.revision == DEFAULT { name.to_owned() } else { format!("{name}-{}", self.revision) }
    }
}

/// The longest revision: the longest name made of it has 63 characters.
pub const MAX_REVISION: usize = 63 - "sidecar-injector-environment-".len();

/// Checks a name, such as that of a namespace, by the form of DNS labels.
///
/// # Errors
/// The fault, and the expected form.
pub fn label(text: &str, most: usize) -> Result<(), String> {
    let is_one = text.len() <= most && is_domain(text) && !text.contains('.');
    let form = "small letters, digits and -, with a letter or digit at both ends";
    if is_one { Ok(()) } else { Err(format!("is not a name; expected up to {most} {form} (RFC 1123)")) }
}

/// Images have to be complete, and pinned: under a tag that moves, pods of one Deployment would run different programs.
fn images(options: &InstallOptions) -> Vec<InputProblem> {
    let injector = "registry.example/sidecar-injector:0.1.0";
    let proxy = "istio/proxyv2:1.31.0, the version of the control plane";
    let mut problems = Vec::new();
    for (flag, image, example, is_required) in [
        ("--image", &options.image, injector, true),
        ("--proxy-image", &options.proxy_image, proxy, true),
        ("--init-image", &options.init_image, "registry.example/sidecar-init:0.1.0", false),
    ] {
        if let Some(image) = image {
            let text = fault(image, flag != "--image");
            let text = text.map(|text| format!("{text}; expected a name such as {example}"));
            problems.extend(text.map(|text| InputProblem::with_item(flag, image, text)));
        } else if is_required {
            let text = format!("is missing; expected an image with a tag or a digest, such as {example}");
            problems.push(InputProblem::of(flag, text));
        }
    }
    problems
}

fn fault(image: &str, of_pods: bool) -> Option<&'static str> {
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("is not an image");
    }
    if of_pods && !image.contains('/') {
        return Some("has no slash, so it would be sought in the hub of the values");
    }
    if let Some((_, digest)) = image.split_once('@') {
        // The algorithms and forms of OCI's go-digest; container runtimes refuse any other.
        let is_digest = digest.split_once(':').is_some_and(|(algorithm, hash)| {
            matches!((algorithm, hash.len()), ("sha256", 64) | ("sha384", 96) | ("sha512", 128))
                && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        return (!is_digest).then_some(
            "has a digest that is not one, such as sha256: and 64 hexadecimal digits in small letters",
        );
    }
    // A colon before the last slash precedes the port of a registry.
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        None => Some("has neither tag nor digest, which means the tag latest"),
        Some((_, "")) => Some("has an empty tag"),
        Some((_, "latest")) => Some("has the tag latest, which names another image tomorrow"),
        Some(_) => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn plain() -> InstallOptions {
        let [image, proxy_image] = ["mesh/injector:1", "mesh/proxy:1"].map(|name| Some(name.to_owned()));
        InstallOptions { image, proxy_image, ..InstallOptions::default() }
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let text = |text: &str| Some(text.to_owned());
        let options = InstallOptions {
            namespace: "Mesh".to_owned(),
            image: text(""),
            revision: "canary".to_owned(),
            tags: ["canary", "-", "canary"].map(str::to_owned).to_vec(),
            auto: true,
            replicas: 0,
            environment_labels: text("a/b/c"),
            allow_hosts: vec!["*".parse().expect("hosts")],
            proxy_image: text("proxyv2"),
            init_image: text("mesh/init 1"),
            priority_class: text("High"),
            ..InstallOptions::default()
        };
        let refused = Installation::read(options).expect_err("nothing of it is right").to_string();
        let expected = [
            "--namespace: \"Mesh\"",
            "--tag: \"-\"",
            "--image: \"\"",
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
        let read =
            |revision: &str| Installation::read(InstallOptions { revision: revision.to_owned(), ..plain() });
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
        let digest = format!("mesh/proxy@sha256:{}", "0a".repeat(32));
        for image in ["mesh/proxy:1", "localhost:5000/proxy:latest-1", "a.b/c/proxy:v1.2", &digest] {
            assert_eq!(fault(image, true), None, "{image}");
        }
        for (image, text) in [
            ("", "not an image"),
            ("mesh/proxy 1", "not an image"),
            ("proxy:1", "no slash"),
            ("mesh/proxy", "neither tag nor digest"),
            ("localhost:5000/proxy", "neither tag nor digest"),
            ("mesh/proxy:", "empty tag"),
            ("mesh/proxy:latest", "the tag latest"),
            ("mesh/proxy:1@sha256:12", "a digest that is not one"),
            ("mesh/proxy@", "a digest that is not one"),
            (&digest[..digest.len() - 1], "a digest that is not one"),
            (digest.replace("0a", "0A").as_str(), "a digest that is not one"),
            (digest.replace("sha256", "md5").as_str(), "a digest that is not one"),
        ] {
            assert!(fault(image, true).is_some_and(|fault| fault.contains(text)), "{image}");
        }
        assert_eq!(fault("injector:1", false), None, "an image of the nodes");
        let problems: Vec<String> =
            images(&InstallOptions::default()).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("--proxy-image: is missing; expected an image"), "{problems:?}");
    }
}
