//! The word that names a pod, and the workloads whose pods it may mean.

use mesh::settings::nearest;

/// A kind of object that makes pods by a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodWorkload {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
}

impl PodWorkload {
    pub(crate) const ALL: [Self; 4] =
        [Self::Deployment, Self::ReplicaSet, Self::StatefulSet, Self::DaemonSet];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::ReplicaSet => "replicasets",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
        }
    }

    /// By the names that kubectl takes.
    fn named(word: &str) -> Option<Self> {
        let short = |workload: &Self| match workload {
            Self::Deployment => "deploy",
            Self::ReplicaSet => "rs",
            Self::StatefulSet => "sts",
            Self::DaemonSet => "ds",
        };
        Self::ALL.into_iter().find(|one| [one.name(), one.plural(), short(one)].contains(&word))
    }
}

/// What a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodWord {
    Pod(String),
    OneOf(PodWorkload, String),
}

impl PodWord {
    /// Reads `NAME`, `pod/NAME` or `deployment/NAME`.
    ///
    /// # Errors
    /// What is wrong with it, and what is expected.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "expected NAME, pod/NAME, deployment/NAME, replicaset/NAME, statefulset/NAME or daemonset/NAME";
        // By the rule of Kubernetes, so that no name is taken for a flag or a path.
        let is_name = |name: &str| {
            let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            name.len() <= 253
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
                && is_end(name.chars().next())
                && is_end(name.chars().next_back())
        };
        let (kind, name) = word.split_once('/').unwrap_or(("pod", word));
        if !is_name(name) {
            return Err(format!("is not the name of an object; {EXPECTED}"));
        }
        match (kind, PodWorkload::named(kind)) {
            ("pod" | "pods" | "po", _) => Ok(Self::Pod(name.to_owned())),
            (_, Some(workload)) => Ok(Self::OneOf(workload, name.to_owned())),
            (_, None) => {
                let known = ["pod"].into_iter().chain(PodWorkload::ALL.map(PodWorkload::name));
                let meant = nearest(kind, known).map(|meant| format!("; did you mean {meant}/{name}?"));
                Err(format!("does not name a pod{}; {EXPECTED}", meant.unwrap_or_default()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_kubectl_are_read() {
        let pod = |name: &str| Ok(PodWord::Pod(name.to_owned()));
        let of = |workload, name: &str| Ok(PodWord::OneOf(workload, name.to_owned()));
        for (word, expected) in [
            ("web-0", pod("web-0")),
            ("pod/web-0", pod("web-0")),
            ("po/web.1", pod("web.1")),
            ("deploy/web", of(PodWorkload::Deployment, "web")),
            ("statefulsets/web", of(PodWorkload::StatefulSet, "web")),
            ("ds/web", of(PodWorkload::DaemonSet, "web")),
            ("replicaset/web", of(PodWorkload::ReplicaSet, "web")),
        ] {
            assert_eq!(PodWord::parse(word), expected, "{word}");
        }
        for (word, part) in [
            ("-web", "is not the name of an object"),
            ("pod/", "is not the name of an object"),
            ("pod/a/b", "is not the name of an object"),
            ("Web", "expected NAME"),
            ("deployent/web", "did you mean deployment/web?"),
            ("node/web", "does not name a pod"),
        ] {
            let error = PodWord::parse(word).expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
        }
    }
}
