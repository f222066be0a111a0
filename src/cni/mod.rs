//! The CNI plugin: turns a runtime's call into an exit code. The environment is read only here. The engine runs once in the
//! container's namespace, and no process remains.

mod decision;
mod files;
pub(crate) mod install;
mod namespace;
mod protocol;
mod state;
mod traces;
mod verbs;
mod watch;

pub(crate) use traces::count_repair;

pub(crate) use protocol::help;
use protocol::{
    AttachmentTarget, CniError, CniErrorCode, CniRequest, CniResult, CniVersion, MAX_BYTES,
    PartialConfiguration, Verb,
};
use sidecar_init::sys::signals::ignore_file_size_limit;
use state::AttachmentStore;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::{env, process::ExitCode};
use verbs::CallContext;
use watch::{Done, TimedCall};

pub(crate) const COMMAND: &str = "cni";
pub(crate) const PLUGIN: &str = "sidecar-cni";
pub(crate) const NODE_PROGRAM: &str = "sidecar-node";

pub(crate) fn beside(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().with_file_name(name)
}

/// True if called as the plugin: by the command, the plugin's name, or just the variable that runtimes set.
pub(crate) fn is_called() -> bool {
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let called = Path::new(&program).file_name().unwrap_or_default();
    let (is_plugin, is_drop_in) = (called == PLUGIN, called == "istio-iptables");
    let is_asked = || !is_drop_in && env::var_os("CNI_COMMAND").is_some_and(|command| !command.is_empty());
    match (arguments.next(), arguments.next()) {
        (None, _) => is_plugin || is_asked(),
        (Some(command), None) => command == COMMAND && !is_plugin,
        (Some(_), Some(_)) => false,
    }
}

pub(crate) fn main() -> ExitCode {
    traces::collect_warnings();
    if let Err(error) = ignore_file_size_limit() {
        tracing::warn!(target: "state", "a file size limit may end this call: {error}");
    }
    let watch = TimedCall::start();
    let outcome = watch.answer(serve(&watch));
    watch.leave_traces(&outcome);
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(watch: &TimedCall) -> CniResult<Done> {
    let request = CniRequest::read(|name| env::var_os(name))?;
    let verb = request.verb;
    watch.note(|progress| {
        progress.line.verb = Some(verb.name());
        if let Some(AttachmentTarget { attachment, pod }) = &request.target {
            progress.line.container = Some(attachment.container.clone());
            progress.line.interface = Some(attachment.interface.clone());
            progress.line.pod = pod.label();
        }
    });
    let input = input(verb)?;
    if verb == Verb::Version {
        // Uses the runtime's version, or our latest if unknown.
        let version = match input.trim_ascii().is_empty() {
            true => CniVersion::LATEST,
            false => PartialConfiguration::of(&input)?.version.unwrap_or(CniVersion::LATEST),
        };
        return Ok(Done::new("answered", "").answering(version.answer()));
    }
    let partial = PartialConfiguration::of(&input)?;
    watch.note(|progress| {
        progress.timeout = partial.timeout;
        progress.places = partial.places_are_valid.then(|| partial.places.clone());
        if let Ok(version) = &partial.version {
            progress.version = *version;
        }
        progress.line.network = partial.network.clone().ok();
    });
    let context =
        CallContext { state: AttachmentStore::new(&partial.places.state), timeout: partial.timeout };
    let (target, netns) = (request.target.as_ref(), request.netns.as_deref());
    partial.version?.require(verb)?;
    // DEL succeeds even if the capture settings have become invalid.
    if let (Verb::Del, Some(target)) = (verb, target) {
        return context.del(target, netns, &partial.network?);
    }
    let configuration = partial.whole?;
    match (verb, target, netns) {
        (Verb::Add, Some(target), Some(netns)) => context.add(target, netns, &configuration),
        (Verb::Check, Some(target), Some(netns)) => context.check(target, netns, &configuration),
        (Verb::Gc, ..) => context.gc(&configuration),
        (Verb::Status, ..) => context.status(&configuration),
        _ => unreachable!("a request has its verb's parameters"),
    }
}

/// All of standard input, except for VERSION from a terminal.
fn input(verb: Verb) -> CniResult<Vec<u8>> {
    let (mut input, stdin) = (Vec::new(), io::stdin());
    if verb == Verb::Version && stdin.is_terminal() {
        return Ok(input);
    }
    let read = stdin.lock().take(MAX_BYTES + 1).read_to_end(&mut input);
    read.map_err(|error| CniError::caused(CniErrorCode::Io, "standard input can't be read", &error))?;
    if files::is_longer(&input, MAX_BYTES) {
        let msg = format!("the network configuration on standard input is longer than {MAX_BYTES} bytes");
        return Err(CniError::new(CniErrorCode::Decode, msg, "it was ignored"));
    }
    Ok(input)
}
