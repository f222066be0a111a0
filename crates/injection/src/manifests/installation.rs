//! What is to be installed: words understood once, all problems at once.

use super::images;
use crate::decision::SYSTEM_NAMESPACES;
use crate::environment::{hosts::AllowedHost, tag};
use crate::syntax::is_domain;
use mesh::{InputProblem, Problems};

/// The options, by the names of the flags.
#[derive(Clone, Copy, Debug)]
pub struct InstallOptions<'a> {
    pub namespace: &'a str,
    pub image: Option<&'a str>,
    pub revision: &'a str,
    pub tags: &'a [String],
    pub auto: bool,
    pub replicas: u16,
    /// The list after `--environment-labels`, if the environment's tag is enabled.
    pub environment_labels: Option<&'a str>,
    pub operator: bool,
    /// Hosts that the operator lets Services of any namespace route.
    pub allow_hosts: &'a [AllowedHost],
    pub proxy_image: Option<&'a str>,
    pub init_image: Option<&'a str>,
    /// The PriorityClass of its pods.
    pub priority_class: Option<&'a str>,
    /// Its pods have a NetworkPolicy.
    pub network_policy: bool,
    /// The Namespace itself is among the objects, unless every cluster has it.
    pub names_namespace: bool,
    /// Webhook configurations have the names of istiod's.
    pub istio_names: bool,
}

/// An installation; nothing in it can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    pub(super) namespace: String,
    pub(super) image: String,
    pub(super) revision: String,
    /// Other names by which namespaces and pods may ask for this revision.
    pub(super) tags: Vec<String>,
    /// Pods of namespaces that say nothing are injected, too.
    pub(super) auto: bool,
    pub(super) replicas: u16,
    /// The labels that name a pod's environment; empty where that is not enabled.
    pub(super) environment_labels: Vec<String>,
    pub(super) operator: bool,
    pub(super) allow_hosts: Vec<AllowedHost>,
    pub(super) proxy_image: String,
    pub(super) init_image: String,
    pub(super) priority_class: Option<String>,
    pub(super) network_policy: bool,
    pub(super) names_namespace: bool,
    pub(super) istio_names: bool,
}

/// The beginning of a revision that would make the name of another installation's object: the operator's, or a tag's.
fn taken(revision: &str) -> Option<&'static str> {
    ["environment", "revision-tag"]
        .into_iter()
        .find(|word| revision.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

fn is_of_every_cluster(namespace: &str) -> bool {
    namespace == "default" || SYSTEM_NAMESPACES.contains(&namespace)
}

/// The revision, and the tag, of those that name none.
pub(super) const DEFAULT: &str = "default";

impl Installation {
    /// Reads the options.
    ///
    /// # Errors
    /// Every problem in it.
    pub fn read(options: &InstallOptions<'_>) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut name = |flag: &str, text: &str, most: usize| {
            problems.extend(label(text, most).err().map(|fault| InputProblem::with_item(flag, text, fault)));
        };
        // A revision becomes part of names of Services, which have 63 characters at most.
        name("--namespace", options.namespace, 63);
        name("--revision", options.revision, MAX_REVISION);
        for tag in options.tags {
            name("--tag", tag, 63);
        }
        if let Some(class) = options.priority_class.filter(|class| !is_domain(class)) {
            let text = "is not the name of a PriorityClass; expected one such as system-cluster-critical";
            problems.push(InputProblem::with_item("--priority-class", class, text));
        }
        if let Some(word) = taken(options.revision) {
            let text = format!(
                "would take names of other objects (sidecar-injector-{word}..); choose a name that does not begin with {word}"
            );
            problems.push(InputProblem::with_item("--revision", options.revision, text));
        }
        problems.extend(images::problems(options));
        if options.replicas == 0 {
            problems
                .push(InputProblem::of("--replicas", "is 0, so no replica would answer; expected 1 or more"));
        }
        for (at, tag) in options.tags.iter().enumerate() {
            if tag == options.revision || options.tags[..at].contains(tag) {
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
        let labels = options.environment_labels.map(|text| tag::labels("--environment-labels", text));
        let labels = labels.transpose().map_err(|Problems(others)| problems.extend(others));
        let (Some(image), Some(proxy_image), []) = (options.image, options.proxy_image, &problems[..]) else {
            return Err(Problems(problems));
        };
        Ok(Self {
            namespace: options.namespace.to_owned(),
            image: image.to_owned(),
            revision: options.revision.to_owned(),
            tags: options.tags.to_vec(),
            auto: options.auto,
            replicas: options.replicas,
            environment_labels: labels.ok().flatten().unwrap_or_default(),
            operator: options.operator,
            allow_hosts: options.allow_hosts.to_vec(),
            proxy_image: proxy_image.to_owned(),
            init_image: options.init_image.unwrap_or(proxy_image).to_owned(),
            priority_class: options.priority_class.map(str::to_owned),
            network_policy: options.network_policy,
            names_namespace: options.names_namespace && !is_of_every_cluster(options.namespace),
            istio_names: options.istio_names,
        })
    }

    /// The name of the Deployment, the Service and what else is one of each revision.
    pub fn name(&self) -> String {
        self.with_revision("sidecar-injector")
    }

    /// The Secret that holds the authority.
    pub fn secret(&self) -> String {
        self.with_revision("sidecar-injector-ca")
    }

    pub(super) fn with_revision(&self, name: &str) -> String {
        if self.revision == DEFAULT { name.to_owned() } else { format!("{name}-{}", self.revision) }
    }
}

/// As long as a revision may be, so that the longest name made of it has 63 characters at most.
pub const MAX_REVISION: usize = 63 - "sidecar-injector-environment-".len();

/// Holds a name, such as that of a namespace, against the form of DNS labels.
///
/// # Errors
/// What is wrong with it, and what is expected.
pub fn label(text: &str, most: usize) -> Result<(), String> {
    let is_one = text.len() <= most && is_domain(text) && !text.contains('.');
    let form = "small letters, digits and -, with a letter or digit at both ends";
    if is_one { Ok(()) } else { Err(format!("is not a name; expected up to {most} {form} (RFC 1123)")) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const PLAIN: InstallOptions<'static> = InstallOptions {
        namespace: "sidecar-injector",
        image: Some("mesh/injector:1"),
        revision: "default",
        tags: &[],
        auto: false,
        replicas: 2,
        environment_labels: None,
        operator: false,
        allow_hosts: &[],
        proxy_image: Some("mesh/proxy:1"),
        init_image: None,
        priority_class: None,
        network_policy: true,
        names_namespace: true,
        istio_names: false,
    };

    #[test]
    fn all_problems_are_reported_at_once() {
        let tags = ["canary".to_owned(), "-".to_owned(), "canary".to_owned()];
        let options = InstallOptions {
            namespace: "Mesh",
            image: Some(""),
            revision: "canary",
            tags: &tags,
            auto: true,
            replicas: 0,
            environment_labels: Some("a/b/c"),
            operator: false,
            allow_hosts: &["*".parse().expect("hosts")],
            proxy_image: Some("proxyv2"),
            init_image: Some("mesh/init 1"),
            priority_class: Some("High"),
            network_policy: true,
            names_namespace: true,
            istio_names: false,
        };
        let refused = Installation::read(&options).expect_err("nothing of it is right").to_string();
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
        assert!(refused.starts_with("12 problems"), "{refused}");
    }

    #[test]
    fn a_revision_is_part_of_names() {
        let read =
            |revision| Installation::read(&InstallOptions { revision, ..PLAIN }).expect("right").name();
        assert_eq!(read("default"), "sidecar-injector");
        assert_eq!(read("1-30"), "sidecar-injector-1-30");
        for revision in ["environment", "environment-x", "revision-tag-x"] {
            let refused = Installation::read(&InstallOptions { revision, ..PLAIN }).expect_err("taken");
            assert!(refused.to_string().contains("names of other objects"), "{refused}");
        }
        assert_eq!(read("environments"), "sidecar-injector-environments");
        let long = "r".repeat(MAX_REVISION + 1);
        assert!(Installation::read(&InstallOptions { revision: &long, ..PLAIN }).is_err());
    }
}
