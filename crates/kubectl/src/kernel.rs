//! Route to a pod's kernel: `sidecar-init` in its node's agent or in an ephemeral container. That program's output is untrusted.

use crate::arguments::{KernelAccess, PodArguments};
use crate::failure::{CallCause, CaptureFailure, VERSION, said};
use crate::kubectl::{CallKind, CallOutput, Kubectl, KubectlCall, items};
use crate::pod::TargetPod;
use command_line::output::report;
use diagnose::Style;
use mesh::visible;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Path in the images (`docker/Dockerfile`, `docker/cni/repair/Dockerfile`).
const PROGRAM: &str = "/usr/local/bin/sidecar-init";
/// Maximum length of a program's argument, with its terminating byte (the kernel's `MAX_ARG_STRLEN`).
const ARGUMENT_LIMIT: usize = 128 << 10;
const AGENT_LABEL: &str = "app.kubernetes.io/name=sidecar-node";
const AGENT_CONTAINER: &str = "repair";
const ROUTES: &str = "; install the node agents (docs/cni.md#pods-that-started-too-early), or give an --image with \
                      sidecar-init";
/// Time for starting an ephemeral container, including the pull of its image.
const PULL: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(crate) struct PodKernel {
    pub(crate) kubectl: Kubectl,
    pod: String,
    node: String,
    /// Namespace and name of the pod in which `sidecar-init` runs.
    within: [String; 2],
    route: KernelRoute,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KernelRoute {
    Agent { container_id: String },
    Ephemeral { image: String, target: String },
}

pub(crate) type Reached = Result<PodKernel, String>;

impl PodKernel {
    /// Finds the route. An ephemeral container is confirmed, but not added yet.
    pub(crate) fn find(
        kubectl: &Kubectl,
        access: &KernelAccess,
        pod: &TargetPod,
    ) -> Result<Reached, CaptureFailure> {
        if pod.uses_host_network {
            return Ok(Err("it is in its node's network namespace (hostNetwork)".to_owned()));
        }
        let Some(node) = &pod.node else { return Ok(Err("no node runs it yet".to_owned())) };
        let Some(container) = &pod.container else {
            return Ok(Err("none of its containers runs".to_owned()));
        };
        let made = |namespace: &String, name: &String, route| {
            let within = [namespace.clone(), name.clone()];
            Self { kubectl: kubectl.clone(), pod: pod.title(), node: node.clone(), within, route }
        };
        let KernelAccess { agent_namespace, image, .. } = access;
        if let Some(name) = agent(kubectl, agent_namespace, node)? {
            let route = KernelRoute::Agent { container_id: container.id.clone() };
            return Ok(Ok(made(agent_namespace, &name, route)));
        }
        let none =
            format!("no node agent runs on node {node} (pods {AGENT_LABEL} in namespace {agent_namespace})");
        let Some(image) = image else { return Ok(Err(format!("{none}, and no --image is given"))) };
        if !is_confirmed(access, pod, image)? {
            return Ok(Err(format!("{none}, and an ephemeral container was declined")));
        }
        let route = KernelRoute::Ephemeral { image: image.clone(), target: container.name.clone() };
        Ok(Ok(made(&pod.namespace, &pod.name, route)))
    }

    /// Finds a pod and the route to its kernel, for a command that needs the kernel.
    pub(crate) fn of(arguments: &PodArguments) -> Result<(TargetPod, Self), CaptureFailure> {
        let (kubectl, pod) = TargetPod::of(arguments)?;
        let kernel = Self::find(&kubectl, &arguments.kernel, &pod)?.map_err(|reason| {
            let has_namespace = !pod.uses_host_network && pod.node.is_some() && pod.container.is_some();
            let remedy = if has_namespace { ROUTES } else { "" };
            let pod = pod.title();
            CaptureFailure::NoAnswer(format!("the kernel of pod {pod} can't be reached: {reason}{remedy}"))
        })?;
        Ok((pod, kernel))
    }

    pub(crate) fn basis(&self) -> String {
        let Self { pod, node, within, route, .. } = self;
        let through = match route {
            KernelRoute::Agent { .. } => format!("agent {}", within.join("/")),
            KernelRoute::Ephemeral { image, .. } => format!("an ephemeral container of {image}"),
        };
        format!("from the kernel of pod {pod} on node {node}, through {through}")
    }

    /// Call of a `sidecar-init` command in the pod's network namespace. A manifest is sent as input only to an agent:
    /// `kubectl debug` adds containers without `stdinOnce`, whose input never ends.
    pub(crate) fn call(&self, command: &str, arguments: &[String], manifest: Option<&Value>) -> KubectlCall {
        let [namespace, name] = &self.within;
        let manifest = manifest.map(Value::to_string);
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (kind, mut words) = match &self.route {
            KernelRoute::Agent { container_id } => {
                let mut words = owned(&["exec", "-n", namespace, name, "-c", AGENT_CONTAINER]);
                words.extend(manifest.is_some().then(|| "-i".to_owned()));
                words.extend(owned(&["--", PROGRAM, command, "--network-namespace", container_id]));
                (CallKind::ExecInAgent, words)
            }
            KernelRoute::Ephemeral { image, target } => {
                let mut words = owned(&["debug", "-n", namespace, name, "--profile=netadmin", "--quiet"]);
                let container = format!("--container={}", container_name());
                let (image, target) = (format!("--image={image}"), format!("--target={target}"));
                words.extend(owned(&["--attach", &container, &image, &target, "--", PROGRAM, command]));
                (CallKind::DebugPod, words)
            }
        };
        words.extend(owned(&["--output", "json"]));
        words.extend(arguments.iter().cloned());
        let takes_input = kind == CallKind::ExecInAgent;
        if let Some(manifest) = &manifest {
            words.extend(owned(&["-f", if takes_input { "-" } else { manifest }]));
        }
        KubectlCall { kind, words, input: manifest.filter(|_| takes_input) }
    }

    /// Document that a command prints, raw and decoded. The command's remarks are printed.
    pub(crate) fn document<T: DeserializeOwned>(
        &self,
        command: &str,
        arguments: &[String],
        manifest: Option<&Value>,
    ) -> Result<(Value, T), CaptureFailure> {
        let call = self.call(command, arguments, manifest);
        if let (KernelRoute::Ephemeral { image, .. }, Some(longest)) = (
            &self.route,
            call.words.iter().map(String::len).max().filter(|longest| *longest >= ARGUMENT_LIMIT),
        ) {
            let text = format!(
                "can't take the pod's manifest of {longest} bytes (limit {ARGUMENT_LIMIT}); install the node agents"
            );
            return Err(CaptureFailure::input("--image", Some(image), text));
        }
        let output = self.kubectl.run(&call, self.longer())?;
        let output = match self.route {
            KernelRoute::Agent { .. } => output,
            KernelRoute::Ephemeral { .. } => separated(output),
        };
        // 3 is a negative result, 1 may be a result with failures.
        if !matches!(output.status.code(), Some(0 | 1 | 3)) {
            return Err(self.refusal(&call, output));
        }
        let document = match parsed(output.stdout.trim()) {
            Ok(document) => document,
            // Failures in an ephemeral container don't affect kubectl's exit status.
            Err(_) if output.status.code() == Some(1) || remote_error(&output.stderr).is_some() => {
                return Err(self.refusal(&call, output));
            }
            Err(CallCause::Unread(why)) => {
                return Err(self.kubectl.unread(&call, why + &said(&output.stderr)));
            }
            Err(cause) => return Err(self.kubectl.failure(&call, cause).into()),
        };
        let answer = read(&document).map_err(|cause| self.kubectl.failure(&call, cause))?;
        remarks(&output.stderr).for_each(|text| remark(&text));
        Ok((document, answer))
    }

    pub(crate) fn longer(&self) -> Duration {
        match self.route {
            KernelRoute::Agent { .. } => Duration::ZERO,
            KernelRoute::Ephemeral { .. } => PULL,
        }
    }

    pub(crate) fn refusal(&self, call: &KubectlCall, output: CallOutput) -> CaptureFailure {
        match remote_error(&output.stderr) {
            Some(message) => {
                let pod = self.within.join("/");
                CaptureFailure::NoAnswer(format!("sidecar-init in pod {pod}: {}", visible(&message)))
            }
            None => self.kubectl.failure(call, CallCause::Ended(output)).into(),
        }
    }
}

/// Output of an ephemeral container, separated into two streams. kubectl prints an ended container's log, which mixes both.
fn separated(CallOutput { status, stdout, stderr }: CallOutput) -> CallOutput {
    let start = if stdout.starts_with('{') { 0 } else { stdout.find("\n{").map_or(0, |at| at + 1) };
    let (before, rest) = stdout.split_at(start);
    let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let Some(Ok(_)) = documents.next() else { return CallOutput { status, stdout, stderr } };
    let (document, after) = rest.split_at(documents.byte_offset());
    let (document, after) = match remote_error(document) {
        Some(_) => ("", rest),
        None => (document, after.trim_start()),
    };
    CallOutput { status, stdout: document.to_owned(), stderr: format!("{stderr}{before}{after}") }
}

pub(crate) fn read<T: DeserializeOwned>(document: &Value) -> Result<T, CallCause> {
    let other = |error| CallCause::Unread(format!("printed an invalid document ({error})"));
    T::deserialize(document).map_err(other)
}

pub(crate) fn parsed(text: &str) -> Result<Value, CallCause> {
    let document = serde_json::from_str::<Value>(text)
        .map_err(|error| CallCause::Unread(format!("printed no JSON ({error})")))?;
    match document["version"].as_u64() {
        Some(VERSION) => Ok(document),
        Some(version) => Err(CallCause::Version(version)),
        None => Err(CallCause::Unread("printed a document without a version".to_owned())),
    }
}

fn agent(kubectl: &Kubectl, namespace: &str, node: &str) -> Result<Option<String>, CaptureFailure> {
    let field = format!("spec.nodeName={node}");
    let words = ["pods", "-l", AGENT_LABEL, "--field-selector", &field];
    let list = kubectl.object(&KubectlCall::get(CallKind::ListAgents, Some(namespace), &words))?;
    let runs = |pod: &&Value| {
        let is_agent = |one: &Value| one["name"] == AGENT_CONTAINER && one["state"]["running"].is_object();
        pod["spec"]["nodeName"] == node && items(&pod["status"]["containerStatuses"]).any(is_agent)
    };
    let mut names = items(&list["items"]).filter(runs);
    Ok(names.next().and_then(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned))
}

fn is_confirmed(access: &KernelAccess, pod: &TargetPod, image: &str) -> Result<bool, CaptureFailure> {
    if access.yes {
        return Ok(true);
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let text = "would add an ephemeral container to the pod, which needs confirmation, but there is no terminal; add --yes";
        return Err(CaptureFailure::input("--image", Some(image), text));
    }
    let mut stderr = io::stderr();
    write!(
        stderr,
        "Add an ephemeral container of {image} with NET_ADMIN to pod {}? It can't be removed while the pod exists. [y/N] ",
        pod.title()
    )?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

pub(crate) fn remark(text: &str) {
    report(format_args!("{} {text}", Style::Passing.paint("note:")));
}

/// Name that no other container of the pod has.
fn container_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("sidecar-capture-{:x}-{:x}", since.as_millis(), process::id())
}

/// Failure from the JSON line that `sidecar-init` prints (`docs/schemas/error.json`).
fn remote_error(stderr: &str) -> Option<String> {
    let document = stderr.lines().find_map(|line| {
        let document: Value = serde_json::from_str(line.trim()).ok()?;
        document["error"]["message"].is_string().then_some(document)
    })?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut parts = vec![text(&document["error"]["message"])];
    parts.extend(items(&document["error"]["causes"]).map(text));
    parts.extend(items(&document["problems"]).map(|problem| {
        let value = problem["value"].as_str().map(|value| format!("{value:?} ")).unwrap_or_default();
        format!("{}: {value}{}", text(&problem["option"]), text(&problem["message"]))
    }));
    Some(parts.join(": "))
}

/// Remarks of `sidecar-init` on standard error, without kubectl's own lines about the session.
fn remarks(stderr: &str) -> impl Iterator<Item = String> {
    const OF_KUBECTL: [&str; 5] = [
        "command terminated with",
        "Defaulted container",
        "Targeting container",
        "warning: couldn't attach",
        "If you don't see",
    ];
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter(|line| !OF_KUBECTL.iter().any(|start| line.starts_with(start))).map(visible)
}
