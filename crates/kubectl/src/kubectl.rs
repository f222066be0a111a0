//! kubectl calls, each with the permissions it needs in the cluster, within time and output limits.

use crate::arguments::KubectlConnection;
use crate::failure::{CallCause, CallFailure, CaptureFailure, said};
use injection::cluster_lint::NeededResource;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use std::{ffi::OsString, thread};

/// Group, resource and verb, as in a role.
pub(crate) type ClusterRight = [&'static str; 3];

/// Workload kind that selects its pods, with kubectl's names for the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodWorkload {
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short: &'static str,
}

pub(crate) const WORKLOADS: &[PodWorkload] = &[
    PodWorkload { name: "deployment", plural: "deployments", short: "deploy" },
    PodWorkload { name: "replicaset", plural: "replicasets", short: "rs" },
    PodWorkload { name: "statefulset", plural: "statefulsets", short: "sts" },
    PodWorkload { name: "daemonset", plural: "daemonsets", short: "ds" },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    GetPod,
    GetWorkload(&'static PodWorkload),
    ListPods,
    GetService,
    ListEndpointSlices,
    ListAgents,
    ExecInAgent,
    DebugPod,
    ListForLint(&'static NeededResource),
    GetConfigMap,
}

const GET_PODS: ClusterRight = ["", "pods", "get"];
const LIST_PODS: ClusterRight = ["", "pods", "list"];
/// Roles of `docker/kubectl/clusterrole.yaml`: reading pods and Services, running programs in agents, adding ephemeral
/// containers, and reading the objects for lint.
const ROLES: [&str; 4] =
    ["sidecar-capture", "sidecar-capture-agent", "sidecar-capture-debug", "sidecar-capture-lint"];

impl CallKind {
    /// Rights that the API server checks, and the role that grants them. kubectl reads a pod before it starts a program in
    /// it. A WebSocket session was a `get` until Kubernetes 1.35; now it is a `create`, like an SPDY session.
    pub(crate) fn rights(self) -> (&'static str, Vec<ClusterRight>) {
        let [read, agent, debug, lint] = ROLES;
        match self {
            Self::GetPod => (read, vec![GET_PODS]),
            Self::GetWorkload(workload) => (read, vec![["apps", workload.plural, "get"]]),
            Self::ListPods => (read, vec![LIST_PODS]),
            Self::GetService => (read, vec![["", "services", "get"]]),
            Self::ListEndpointSlices => (read, vec![["discovery.k8s.io", "endpointslices", "list"]]),
            Self::ListAgents => (agent, vec![LIST_PODS]),
            Self::ExecInAgent => {
                (agent, vec![GET_PODS, ["", "pods/exec", "create"], ["", "pods/exec", "get"]])
            }
            // kubectl waits until the container runs, attaches to it, and reads its log if it has already ended.
            Self::DebugPod => {
                let within = [("pods/ephemeralcontainers", "patch"), ("pods/attach", "create")];
                let within = within.into_iter().chain([("pods/attach", "get"), ("pods/log", "get")]);
                let within = within.map(|(resource, verb)| ["", resource, verb]);
                (debug, [GET_PODS, LIST_PODS, ["", "pods", "watch"]].into_iter().chain(within).collect())
            }
            Self::ListForLint(resource) => {
                let (name, group) = resource.name.split_once('.').unwrap_or((resource.name, ""));
                (lint, vec![[group, name, "list"]])
            }
            Self::GetConfigMap => (lint, vec![["", "configmaps", "get"]]),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct KubectlCall {
    pub(crate) kind: CallKind,
    /// Arguments after kubectl's own flags.
    pub(crate) words: Vec<String>,
    pub(crate) input: Option<String>,
}

impl KubectlCall {
    pub(crate) fn get(kind: CallKind, namespace: Option<&str>, words: &[&str]) -> Self {
        let namespace = namespace.into_iter().flat_map(|name| ["-n", name]);
        let words = ["get"].into_iter().chain(words.iter().copied()).chain(namespace).chain(["-o", "json"]);
        Self { kind, words: words.map(str::to_owned).collect(), input: None }
    }
}

pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> + Clone {
    list.as_array().into_iter().flatten()
}

/// Enough for lists of several thousand pods; a single object has at most 1.5 MiB.
const OUTPUT_LIMIT: usize = 64 << 20;
const ERROR_LIMIT: usize = 1 << 20;
const POLL: Duration = Duration::from_millis(5);
/// Time for kubectl's remaining output after its end.
const DRAIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    program: PathBuf,
    flags: Vec<OsString>,
    limit: Duration,
}

#[derive(Debug)]
pub(crate) struct CallOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Kubectl {
    pub(crate) fn new(connection: &KubectlConnection) -> Self {
        let KubectlConnection { context, kubeconfig, cluster, user, impersonated, request_timeout, .. } =
            connection;
        let given = [
            ("--context", context.as_ref().map(OsString::from)),
            ("--kubeconfig", kubeconfig.as_ref().map(OsString::from)),
            ("--cluster", cluster.as_ref().map(OsString::from)),
            ("--user", user.as_ref().map(OsString::from)),
            ("--as", impersonated.as_ref().map(OsString::from)),
            ("--request-timeout", request_timeout.as_ref().map(OsString::from)),
        ];
        // One argument each, so that no value is parsed as a flag.
        let word = |(flag, value): (&str, Option<OsString>)| {
            let mut word = OsString::from(format!("{flag}="));
            word.push(value?);
            Some(word)
        };
        let program = connection.kubectl.clone().filter(|path| !path.is_empty());
        Self {
            program: program.map_or_else(|| "kubectl".into(), PathBuf::from),
            flags: given.into_iter().filter_map(word).collect(),
            limit: connection.timeout,
        }
    }

    pub(crate) fn object(&self, call: &KubectlCall) -> Result<Value, CallFailure> {
        let output = self.run(call, Duration::ZERO)?;
        if !output.status.success() {
            return Err(self.failure(call, CallCause::Ended(output)));
        }
        serde_json::from_str(&output.stdout).map_err(|error| {
            let why = format!("printed no JSON ({error}){}", said(&output.stderr));
            self.failure(call, CallCause::Unread(why))
        })
    }

    /// Runs a call to its end, which may take `longer` than others.
    pub(crate) fn run(&self, call: &KubectlCall, longer: Duration) -> Result<CallOutput, CallFailure> {
        let mut output = String::new();
        let ended = self.each_line(call, longer, |line| {
            output.push_str(line);
            match output.len() > OUTPUT_LIMIT {
                true => Err(self.failure(call, CallCause::TooMuch(OUTPUT_LIMIT))),
                false => Ok(()),
            }
        })?;
        Ok(CallOutput { stdout: output, ..ended })
    }

    /// Runs a call, and passes on each line of its standard output when it arrives, with its line break.
    pub(crate) fn each_line<E: From<CallFailure>>(
        &self,
        call: &KubectlCall,
        longer: Duration,
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<CallOutput, E> {
        let failed = |cause| E::from(self.failure(call, cause));
        let mut child = Reaped(self.spawn(call).map_err(|error| failed(CallCause::Start(error)))?);
        if let (Some(text), Some(mut stdin)) = (call.input.clone(), child.0.stdin.take()) {
            // A program that does not read its input reports its reason itself.
            thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
        }
        let (send, output) = mpsc::sync_channel(1024);
        pass_on(child.0.stdout.take(), KubectlStream::Output, send.clone());
        pass_on(child.0.stderr.take(), KubectlStream::Error, send);
        let limit = self.limit.saturating_add(longer);
        let end = Instant::now().checked_add(limit);
        let (mut stderr, mut exited) = (String::new(), None);
        loop {
            let received = output.recv_timeout(POLL);
            match &received {
                Ok((KubectlStream::Output, line)) => take(line)?,
                Ok((KubectlStream::Error, line)) if stderr.len() < ERROR_LIMIT => stderr.push_str(line),
                Ok((KubectlStream::Error, _)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(1)),
            }
            if exited.is_none() {
                let status = child.0.try_wait().map_err(|error| failed(CallCause::Start(error)))?;
                exited = status.map(|status| (status, Instant::now()));
            }
            let is_closed = received == Err(RecvTimeoutError::Disconnected);
            match exited {
                // Its child processes may hold the output open.
                Some((status, at)) if is_closed || at.elapsed() >= DRAIN => {
                    return Ok(CallOutput { status, stdout: String::new(), stderr });
                }
                None if end.is_some_and(|end| end <= Instant::now()) => {
                    return Err(failed(CallCause::Late(limit)));
                }
                Some(_) | None => {}
            }
        }
    }

    fn spawn(&self, call: &KubectlCall) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.flags)
            .args(&call.words)
            .stdin(if call.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    pub(crate) fn unread(&self, call: &KubectlCall, why: String) -> CaptureFailure {
        self.failure(call, CallCause::Unread(why)).into()
    }

    pub(crate) fn failure(&self, call: &KubectlCall, cause: CallCause) -> CallFailure {
        let program = self.program.display().to_string();
        let flags = self.flags.iter().map(|flag| flag.to_string_lossy().into_owned());
        let words = [program].into_iter().chain(flags).chain(call.words.iter().cloned());
        let words: Vec<String> = words.map(|word| quoted(&word)).collect();
        CallFailure { command: words.join(" "), kind: call.kind, cause }
    }
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // kubectl has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KubectlStream {
    Output,
    Error,
}

/// Sends each line of a stream; overlong ones are truncated.
fn pass_on(
    pipe: Option<impl Read + Send + 'static>,
    stream: KubectlStream,
    send: SyncSender<(KubectlStream, String)>,
) {
    thread::spawn(move || {
        let Some(pipe) = pipe else { return };
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        let limit = u64::try_from(OUTPUT_LIMIT).unwrap_or(u64::MAX).saturating_add(1);
        while matches!(reader.by_ref().take(limit).read_until(b'\n', &mut line), Ok(1..)) {
            if send.send((stream, String::from_utf8_lossy(&line).into_owned())).is_err() {
                return;
            }
            line.clear();
        }
    });
}

fn quoted(word: &str) -> String {
    // A manifest is too long for a message.
    if word.starts_with('{') {
        return "'{..}'".to_owned();
    }
    // Windows paths get double quotes.
    if cfg!(windows) && Path::new(word).is_absolute() {
        return format!("\"{word}\"");
    }
    mesh::quoted(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use testkit::cluster::{Rule, granted};

    #[test]
    fn roles_grant_exactly_the_rights_of_the_calls() {
        use CallKind::{DebugPod, ExecInAgent, GetConfigMap, GetPod, GetService};
        use CallKind::{GetWorkload, ListAgents, ListEndpointSlices, ListForLint, ListPods};
        let others = [GetPod, ListPods, GetService, ListEndpointSlices, ListAgents, ExecInAgent, DebugPod];
        let listed = injection::cluster_lint::RESOURCES.iter().map(ListForLint);
        let all = WORKLOADS.iter().map(GetWorkload).chain(listed).chain(others).chain([GetConfigMap]);
        let needed: BTreeSet<(String, Rule)> = all
            .map(CallKind::rights)
            .flat_map(|(role, rights)| rights.into_iter().map(move |right| (role, right)))
            .map(|(role, right)| (role.to_owned(), right.map(str::to_owned).into()))
            .collect();
        assert_eq!(granted("kubectl/clusterrole.yaml"), needed);
    }
}
