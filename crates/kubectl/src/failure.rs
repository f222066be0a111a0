//! Why a call of kubectl failed, as a sentence with its remedy.

use crate::call::{CallKind, KubectlCall};
pub(crate) use mesh::{visible, visible_lines};
use std::{fmt, io, time::Duration};

/// A failed call.
#[derive(Debug)]
pub(crate) struct CallFailure {
    /// The command, to copy.
    pub(crate) command: String,
    kind: CallKind,
    lists_all_namespaces: bool,
    pub(crate) cause: CallCause,
}

/// Why it failed.
#[derive(Debug)]
pub(crate) enum CallCause {
    Start(io::Error),
    /// It did not end in time.
    Late(Duration),
    /// It printed more than is read.
    TooMuch(usize),
    Ended {
        /// `None` where a signal ended it.
        status: Option<i32>,
        stderr: String,
    },
    /// What it printed is not what was expected.
    Unread {
        why: String,
        stderr: String,
    },
    /// It printed a document of a newer version than the one that is known here.
    Newer {
        version: u64,
        known: u64,
    },
}

impl CallCause {
    pub(crate) fn unread(why: String) -> Self {
        Self::Unread { why, stderr: String::new() }
    }
}

impl CallFailure {
    pub(crate) fn new(command: String, call: &KubectlCall, cause: CallCause) -> Self {
        let lists_all_namespaces = call.words.iter().any(|word| word == "--all-namespaces");
        Self { command, kind: call.kind, lists_all_namespaces, cause }
    }

    /// Whether the object is not in the cluster.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(&self.cause, CallCause::Ended { stderr, .. } if stderr.contains("(NotFound)"))
    }

    fn remedy(&self) -> Option<String> {
        let stderr = match &self.cause {
            CallCause::Start(_) => {
                return Some(
                    "install kubectl, or name it with --kubectl FILE or the variable KUBECTL".to_owned(),
                );
            }
            CallCause::Late(_) => return Some("check the connection, or raise --timeout".to_owned()),
            CallCause::TooMuch(_) if self.lists_all_namespaces => {
                return Some("lint one namespace at a time (-n)".to_owned());
            }
            CallCause::TooMuch(_) if self.kind == CallKind::ListPods => {
                return Some("name one of its pods: pod/NAME".to_owned());
            }
            CallCause::TooMuch(_) => return None,
            CallCause::Unread { .. } => return self.remedy_of_output(),
            CallCause::Newer { .. } => return Some("update kubectl-capture".to_owned()),
            CallCause::Ended { stderr, .. } => stderr,
        };
        let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
        let is_remote = matches!(self.kind, CallKind::ExecInAgent | CallKind::DebugPod);
        if says(&["(NotFound)"]) {
            Some("check the name, and the namespace (-n)".to_owned())
        } else if says(&["violates PodSecurity", "denied the request", "denied request"]) {
            // Admission control refuses it, whatever the rights.
            (self.kind == CallKind::DebugPod).then(|| {
                "install the node agents, or let the namespace's admission policies accept NET_ADMIN \
                 (pod-security.kubernetes.io/enforce: privileged)"
                    .to_owned()
            })
        } else if says(&["(Forbidden)", "is forbidden"]) {
            let rights: Vec<String> = self.kind.rights().iter().map(ToString::to_string).collect();
            Some(format!(
                "grant your user {}, as role {} of docker/kubectl/clusterrole.yaml does",
                rights.join(", "),
                self.kind.role().name()
            ))
        } else if says(&["(Unauthorized)", "must be logged in", "getting credentials"]) {
            Some("log in to the cluster, or select another --context or --user".to_owned())
        } else if is_remote && says(&["executable file not found", "no such file or directory"]) {
            self.remedy_of_output()
        } else if says(&["context was not found", "does not exist", "stat ", "invalid configuration"]) {
            Some(
                "check --context, --cluster, --user and --kubeconfig (kubectl config get-contexts)"
                    .to_owned(),
            )
        } else if says(&["Unable to connect", "was refused", "i/o timeout", "no such host", "Client.Timeout"])
        {
            Some("check the connection to the cluster and the --context (kubectl cluster-info)".to_owned())
        } else if self.kind == CallKind::DebugPod && says(&["unknown flag", "unknown profile"]) {
            Some(
                "kubectl debug --profile=netadmin needs kubectl 1.27 or newer; name it with --kubectl"
                    .to_owned(),
            )
        } else {
            None
        }
    }

    fn remedy_of_output(&self) -> Option<String> {
        match self.kind {
            CallKind::ExecInAgent => Some(
                "update the node agents: their image holds sidecar-init since docker/cni/repair/Dockerfile copies it"
                    .to_owned(),
            ),
            CallKind::DebugPod => Some("give an --image that holds /usr/local/bin/sidecar-init".to_owned()),
            CallKind::GetPod
            | CallKind::GetWorkload(_)
            | CallKind::ListPods
            | CallKind::GetService
            | CallKind::ListEndpointSlices
            | CallKind::ListForLint(_)
            | CallKind::GetConfigMap
            | CallKind::ListAgents => Some("check that --kubectl is a kubectl".to_owned()),
        }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, cause, .. } = self;
        match cause {
            CallCause::Start(error) => write!(f, "{command}: can't be started: {error}")?,
            CallCause::Late(limit) => write!(f, "{command}: did not end within {limit:?}")?,
            CallCause::TooMuch(limit) => write!(f, "{command}: printed more than {limit} bytes")?,
            CallCause::Ended { status, stderr } => {
                match status {
                    Some(status) => write!(f, "{command}: failed with exit status {status}")?,
                    None => write!(f, "{command}: was ended by a signal")?,
                }
                said(f, stderr)?;
            }
            CallCause::Unread { why, stderr } => {
                write!(f, "{command}: {why}")?;
                said(f, stderr)?;
            }
            CallCause::Newer { version, known } => write!(
                f,
                "{command}: printed a document of version {version}, and this plugin reads version {known}"
            )?,
        }
        match self.remedy() {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CallFailure {}

/// The last line of standard error with content: kubectl ends with the exit code of a remote program.
fn said(f: &mut fmt::Formatter<'_>, stderr: &str) -> fmt::Result {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_own = |line: &&str| !line.starts_with("command terminated with exit code");
    match lines.clone().rfind(is_own).or_else(|| lines.clone().next_back()) {
        Some(line) => write!(f, ": {}", visible(line)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use injection::cluster_lint::RESOURCES;

    #[test]
    fn what_prints_too_much_is_asked_for_less() {
        let pods = RESOURCES.iter().find(|resource| resource.name == "pods").expect("pods are linted");
        let failed = |kind, namespace, words: &[&str]| {
            let call = KubectlCall::get(kind, namespace, words);
            CallFailure::new("kubectl".to_owned(), &call, CallCause::TooMuch(9)).to_string()
        };
        let lint = CallKind::ListForLint(pods);
        assert_eq!(
            failed(lint, None, &["pods", "--all-namespaces"]),
            "kubectl: printed more than 9 bytes; lint one namespace at a time (-n)"
        );
        assert_eq!(failed(lint, Some("shop"), &["pods"]), "kubectl: printed more than 9 bytes");
        assert_eq!(
            failed(CallKind::ListPods, Some("shop"), &["pods", "-l", "app=web"]),
            "kubectl: printed more than 9 bytes; name one of its pods: pod/NAME"
        );
    }
}
