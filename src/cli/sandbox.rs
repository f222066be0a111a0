//! `sidecar-init sandbox`: the rules at work in a temporary pod, created by the crate `sandbox`.

use super::manifest::{self, Subject};
use super::run::{self, Run};
use super::{Exit, RunResult, host::System, logging::Stdout, report, start_logging};
use mesh::sources::{Given, Host, Raw, SettingReader, Source};
use mesh::{CapturePolicy, Mesh, Setting, quoted, settings::Topic};
use rules::{Gid, Uid};
use sandbox::{Frontend, RunAs, SandboxOptions};
use sidecar_init::engine::Choice;
use std::net::{IpAddr, SocketAddr};
use std::{error::Error, ffi::OsString, io, process};

/// Runs a sandbox. Once it exists, the process ends here with the sandbox's exit code.
pub(super) fn run(subjects: &[Subject], trailing: &[OsString]) -> RunResult {
    let subject = manifest::only(subjects)?;
    let raw = match subject.title {
        None => with_defaults(&subject.raw, subject.raw.mesh()),
        Some(_) => subject.raw.clone(),
    };
    let mut reader = SettingReader::new(&raw, subject.before.clone());
    let run = run::read(&mut reader);
    let has_proxy = run::one_of(&mut reader, Setting::SandboxProxy, &[true, false]);
    let run_as = run::one_of(&mut reader, Setting::RunAs, &[RunAs::App, RunAs::Proxy, RunAs::Root]);
    if trailing.is_empty() && has_proxy == Some(false) {
        let text = "none requires a command after --: the demo uses the built-in proxy";
        reader.whole(&Source::Flag(Setting::SandboxProxy.row().long), text);
    }
    if trailing.is_empty() && run_as.is_some() {
        let text = "requires a command after --";
        reader.whole(&Source::Flag(Setting::RunAs.row().long), text);
    }
    let capture = mesh::configure(&mut reader, &SandboxPod, false);
    let warnings = reader.finish()?;
    let options = SandboxOptions {
        capture,
        by_iptables: matches!(run.backend, Choice::Iptables(_)),
        has_proxy: has_proxy.unwrap_or(true),
        run_as: run_as.unwrap_or(RunAs::App),
        program: trailing,
        command: equivalent_command(&raw, subject),
        dialect: subject.dialect(),
        skip: subject.skip(),
    };
    start_logging(&subject.raw, &run, Stdout::Answer)?;
    let of_form = subject.warnings_of_form().iter().map(|remark| &remark.text);
    for warning in of_form.chain(&warnings) {
        tracing::warn!(target: "sandbox", "{warning}");
    }
    if let Some(skip) = options.skip {
        tracing::warn!(target: "sandbox", "this pod is never captured: {skip}");
    }
    process::exit(i32::from(sandbox::run(options, &run)?))
}

impl Frontend for Run {
    fn set_rules(&self, capture: &dyn CapturePolicy) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.session(capture.owner())?.apply(&capture.desired())?;
        Ok(())
    }

    fn print(&self, text: &str) -> bool {
        report::exit(report::whole(text), false, |exit| exit) == Exit::Done
    }

    fn report(&self, failure: &dyn Error) {
        report::failure(failure, Exit::Failed);
    }
}

fn with_defaults(raw: &Raw, mesh: Mesh) -> Raw {
    let is_given = |setting: &Setting| raw.get(*setting).is_some();
    let given = |(setting, value, unless): &(Setting, &str, &[Setting])| {
        let counts = !unless.iter().any(is_given);
        counts.then(|| (*setting, Given { value: (*value).to_owned(), source: Source::Default(*setting) }))
    };
    raw.clone().over(Raw::of(mesh.entry().injector_defaults.iter().filter_map(given)))
}

fn equivalent_command(raw: &Raw, subject: &Subject) -> String {
    let mut words = String::from("sidecar-init apply");
    let has_manifest = subject.title.is_some();
    if has_manifest {
        let file = raw.get(Setting::Filename).map_or("", |given| given.value.as_str());
        words += &format!(" -f {}", quoted(file));
    }
    // The manifest gives the pod's settings; flags are added to them.
    let is_shown = |(setting, given): &(Setting, &Given)| {
        setting.row().topic == Topic::Capture && (!has_manifest || matches!(given.source, Source::Flag(_)))
    };
    for (setting, given) in raw.iter().filter(is_shown) {
        let (row, value) = (setting.row(), quoted(&given.value));
        match (row.short, row.long) {
            (Some(short), _) => words += &format!(" -{short} {value}"),
            (None, "") => words = format!("{}={value} {words}", row.variables[0]),
            (None, long) if given.value == "true" => words += &format!(" --{long}"),
            (None, long) => words += &format!(" --{long}={value}"),
        }
    }
    words
}

struct SandboxPod;

impl Host for SandboxPod {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        System::HERE.user(name)
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        System::HERE.group(name)
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(sandbox::addresses())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(sandbox::name_servers(true).iter().map(SocketAddr::ip).collect())
    }
}
