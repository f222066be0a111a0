//! A command's outcome, and failures that prevent a result, each a sentence with its remedy.

use crate::kubectl::{CallKind, CallOutput};
use mesh::{InputProblem, Problems, visible};
use std::process::{ExitCode, ExitStatus};
use std::{io, time::Duration};

/// Supported version of the documents (`docs/schemas`).
pub(crate) const VERSION: u64 = 1;

pub(crate) type CommandOutcome = Result<ExitCode, CaptureFailure>;

/// Exit code if rules differ or are missing, a packet's verdict is unexpected, or a finding is denied.
pub(crate) const DIFFERENT: u8 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureFailure {
    /// Refused before any call that changes state.
    #[error("{0}")]
    Input(#[from] Problems),
    #[error("{0}")]
    Call(#[from] CallFailure),
    /// The calls succeeded, but gave no result.
    #[error("{0}")]
    NoAnswer(String),
    #[error("can't be printed: {0}")]
    Print(#[from] io::Error),
}

impl CaptureFailure {
    pub(crate) fn input(name: &str, item: Option<&str>, text: impl Into<String>) -> Self {
        Self::Input(Problems(vec![InputProblem::about(name, item, text)]))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{command}: {cause}{}", self.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
pub(crate) struct CallFailure {
    pub(crate) command: String,
    pub(crate) kind: CallKind,
    pub(crate) cause: CallCause,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallCause {
    #[error("can't be started: {0}")]
    Start(io::Error),
    #[error("did not finish within {0:?}")]
    Late(Duration),
    #[error("printed more than {0} bytes")]
    TooMuch(usize),
    #[error("{}{}", ended(.0.status), said(&.0.stderr))]
    Ended(CallOutput),
    #[error("{0}")]
    Unread(String),
    #[error("printed a document of version {0}; this plugin reads version {VERSION}")]
    Version(u64),
}

impl CallFailure {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(&self.cause, CallCause::Ended(output) if output.stderr.contains("(NotFound)"))
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match &self.cause {
            CallCause::Start(_) => "install kubectl, or give its path with --kubectl or the variable KUBECTL",
            CallCause::Late(_) => "check the connection, or raise --timeout",
            CallCause::TooMuch(_) if self.command.contains(" --all-namespaces ") => {
                "lint one namespace at a time (-n)"
            }
            CallCause::TooMuch(_) if self.kind == CallKind::ListPods => "name one of its pods: pod/NAME",
            CallCause::TooMuch(_) => return None,
            CallCause::Version(version) if *version > VERSION => "update kubectl-capture",
            CallCause::Version(_) | CallCause::Unread(_) => self.remedy_of_output(),
            CallCause::Ended(output) => return self.remedy_of_error(&output.stderr),
        };
        Some(remedy.to_owned())
    }

    fn remedy_of_error(&self, stderr: &str) -> Option<String> {
        let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
        let is_debug = self.kind == CallKind::DebugPod;
        let is_remote = is_debug || self.kind == CallKind::ExecInAgent;
        let (role, rights) = self.kind.rights();
        let rights: Vec<String> =
            rights.iter().map(|[_, resource, verb]| format!("{verb} {resource}")).collect();
        let rights = rights.join(", ");
        let grant =
            format!("grant your user {rights}, as role {role} of docker/kubectl/clusterrole.yaml does");
        let only = |applies: bool, words: &'static [&str]| if applies { words } else { &[] };
        let remedies = [
            (&["(NotFound)"][..], "check the name, and the namespace (-n)"),
            (
                ADMISSION,
                "install the node agents, or let the namespace's admission policies accept NET_ADMIN \
                 (pod-security.kubernetes.io/enforce: privileged)",
            ),
            (&["(Forbidden)", "is forbidden"], &grant),
            (
                &["(Unauthorized)", "must be logged in", "getting credentials"],
                "log in to the cluster, or select another --context or --user",
            ),
            (
                only(is_remote, &["executable file not found", "no such file or directory"]),
                self.remedy_of_output(),
            ),
            (
                &["context was not found", "does not exist", "stat ", "invalid configuration"],
                "check --context, --cluster, --user and --kubeconfig (kubectl config get-contexts)",
            ),
            (
                &["Unable to connect", "was refused", "i/o timeout", "no such host", "Client.Timeout"],
                "check the connection to the cluster and the --context (kubectl cluster-info)",
            ),
            (
                only(is_debug, &["unknown flag", "unknown profile"]),
                "kubectl debug --profile=netadmin needs kubectl 1.27 or newer; give its path with --kubectl",
            ),
        ];
        let (words, remedy) = remedies.into_iter().find(|(words, _)| says(words))?;
        // Admission control refuses only debug calls for their contents.
        (is_debug || words != ADMISSION).then(|| remedy.to_owned())
    }

    fn remedy_of_output(&self) -> &'static str {
        match self.kind {
            CallKind::ExecInAgent => {
                "update the node agents to an image with sidecar-init (docker/cni/repair/Dockerfile)"
            }
            CallKind::DebugPod => "give an --image with /usr/local/bin/sidecar-init",
            _ => "check that --kubectl names a kubectl",
        }
    }
}

/// Messages of admission control, which can refuse an authorized user's pod.
const ADMISSION: &[&str] = &["violates PodSecurity", "denied the request", "denied request"];

fn ended(status: ExitStatus) -> String {
    let failed = |status| format!("failed with exit status {status}");
    status.code().map_or("was killed by a signal".to_owned(), failed)
}

/// Last relevant line of standard error: kubectl appends a remote program's exit code.
pub(crate) fn said(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_own = |line: &&str| !line.starts_with("command terminated with exit code");
    let last = lines.clone().rfind(is_own).or_else(|| lines.clone().next_back());
    last.map(|line| format!(": {}", visible(line))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use injection::cluster_lint::RESOURCES;

    #[test]
    fn excessive_output_is_reported_with_a_remedy() {
        let pods = RESOURCES.iter().find(|resource| resource.name == "pods").expect("pods are linted");
        let lint = CallKind::ListForLint(pods);
        for (kind, words, remedy) in [
            (lint, "get pods --all-namespaces -o json", "; lint one namespace at a time (-n)"),
            (lint, "get pods -n shop -o json", ""),
            (CallKind::ListPods, "get pods -l app=web", "; name one of its pods: pod/NAME"),
        ] {
            let failure = CallFailure { command: words.to_owned(), kind, cause: CallCause::TooMuch(9) };
            assert_eq!(failure.to_string(), format!("{words}: printed more than 9 bytes{remedy}"));
        }
    }
}
