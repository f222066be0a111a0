//! The command line: from arguments to an exit code. Only this module reads the environment. Only data goes to standard output.

mod ambient_host;
mod arguments;
mod change;
mod command;
mod completions;
mod diff;
mod explain;
mod help;
mod host;
mod install;
mod kuma_init;
mod linkerd_init;
mod lint;
mod live;
mod logging;
mod manifest;
mod render;
mod repair;
mod report;
mod run;
mod sandbox;
mod status;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod verify;

use arguments::Parser;
use command::{Command, CommandEntry};
use host::{System, enter, enter_namespace, namespace_to_enter};
use lint::{warn, warn_by, warn_of};
use logging::start_logging;
use manifest::{Subject, subjects};
use mesh::{InputProblem, Problems, Setting, settings::SettingRow, sources::Raw};
use report::{Encoding, Exit, RunResult};
use run::{Preview, ResolvedCall, Run, RunMode};
use std::ffi::{OsStr, OsString};
use std::{collections::HashMap, process::ExitCode};

pub(crate) fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let outcome = match repair::hand_over(&words) {
        Some(failure) => Err(failure),
        None => arguments::read(words, call),
    };
    report::exit(outcome, false, |exit| exit).into()
}

fn call(entry: &CommandEntry, parser: Parser) -> Exit {
    let Parser { mesh, given: flags, mut problems, trailing, .. } = parser;
    let command = entry.command;
    let given = |setting: Setting| {
        let given = flags.iter().filter(move |(given, _)| *given == setting);
        given.map(|(_, value)| value.clone()).collect::<Vec<String>>()
    };
    let (files, destinations) = (given(Setting::Filename), given(Setting::Destination));
    let (listings, namespaces) = (given(Setting::FromSave), given(Setting::NetworkNamespace));
    if files.iter().filter(|file| *file == "-").count() > 1 {
        let text = "is - twice; standard input holds one manifest";
        problems.push(InputProblem::of(&Setting::Filename.row().option(), text));
    }
    // Pasted flags are accepted silently. Upstream's `-n`, a dry run, may be kubectl's namespace.
    let takes_dry_run = entry.lists(Setting::DryRun.row());
    let is_namespace = !takes_dry_run && flags.iter().any(|(setting, _)| *setting == Setting::DryRun);
    // A manifest describes another pod, to which the variables of this process do not apply.
    let elsewhere = !files.is_empty();
    let takes = |row: &SettingRow| {
        entry.takes(row) && row.setting.is_for(mesh) && !(elsewhere && row.key().is_some())
    };
    // The environment is read once: each look-up in the C library scans all of it, and a pod has several variables for each
    // Service of its namespace. The first duplicate wins.
    let mut variables: HashMap<OsString, OsString> = HashMap::new();
    for (name, value) in std::env::vars_os() {
        variables.entry(name).or_insert(value);
    }
    let raw = Raw::new(flags, takes, |name| variables.get(OsStr::new(name)).cloned());
    let raw = if command == Command::LinkerdInit { linkerd_init::with_implied(raw) } else { raw };
    if asks_for_data(&raw) {
        report::fail_as_data();
    }
    let is_drop_in = matches!(command, Command::IstioIptables | Command::LinkerdInit | Command::KumaInit);
    // Drop-ins log like the replaced program.
    if !is_drop_in {
        logging::prefer_sentences(&raw, entry.changes);
    }
    problems.extend(enter_namespace(&raw, is_drop_in));
    let mut done =
        run_command(command, raw, problems, [&files, &destinations, &listings, &namespaces], &trailing);
    if let Some(problems) = done.as_mut().err().and_then(|error| error.downcast_mut()) {
        add_hints(problems, is_namespace);
    }
    let ends = match command {
        Command::LinkerdInit | Command::KumaInit => change::exit_of_two,
        _ => |exit| exit,
    };
    report::exit(done, entry.changes, ends)
}

/// Adds a hint if upstream's `-o` or `-n` was probably mistaken for kubectl's.
fn add_hints(problems: &mut Problems, is_namespace: bool) {
    let destination = Setting::Destination.row().option();
    if let Some(problem) = problems.0.iter_mut().find(|problem| is_namespace && problem.name == destination) {
        problem.text.push_str(
            "; -n is --dry-run here: for a cluster's pod, use kubectl capture explain POD PORT -n NAMESPACE",
        );
    }
    let option = Setting::OutboundPortsExclude.row().option();
    for problem in problems.0.iter_mut().filter(|problem| problem.name == option) {
        if let Some(format) = problem.item.as_deref().filter(|item| ["json", "yaml", "text"].contains(item)) {
            problem.text.push_str(&format!("; for the output format, write --output {format}"));
        }
    }
}

fn asks_for_data(raw: &Raw) -> bool {
    let formats = [Setting::Format, Setting::ExplainFormat, Setting::LintFormat, Setting::RenderFormat];
    let mut given = formats.into_iter().filter_map(|setting| raw.get(setting));
    raw.is_on(Setting::LogAsJson)
        || linkerd_init::asks_for_data(raw)
        || given.any(|format| Encoding::named(format.value.trim()).is_some())
}

fn run_command(
    command: Command,
    raw: Raw,
    problems: Vec<InputProblem>,
    [files, destinations, listings, namespaces]: [&[String]; 4],
    trailing: &[OsString],
) -> RunResult {
    match command {
        Command::Clean => clean(&raw, problems),
        Command::Diff => diff::run(&raw, &problems, files, [listings, namespaces]),
        Command::Explain => explain::run(&subjects(raw, problems, files)?, destinations),
        Command::Render => render::run(&subjects(raw, problems, files)?),
        Command::Lint => lint::run(&subjects(raw, problems, files)?),
        Command::Status => status::run(&raw, problems),
        Command::Verify => verify::run(&subjects(raw, problems, files)?),
        Command::Trace => trace::run(&raw, problems),
        Command::Sandbox => sandbox::run(&subjects(raw, problems, files)?, trailing),
        Command::CniInstall => install::install(&raw, problems),
        Command::CniUninstall => install::uninstall(&raw, problems),
        Command::AmbientHost => ambient_host::run(&raw, problems),
        Command::Completions => completions::run(&raw, problems, trailing),
        Command::Man => completions::manual(&raw, problems),
        Command::KumaInit => kuma_init::run(raw, problems),
        Command::CniRepair => repair::run(&subjects(raw, problems, files)?),
        Command::Apply => {
            with_capture(&subjects(raw, problems, files)?, System::of, change::form, |subject, call| {
                let done = change::apply(call);
                warn(subject, call);
                done
            })
        }
        Command::LinkerdInit => linkerd_init::run(&raw, problems),
        Command::IstioIptables => {
            let subjects = subjects(raw, problems, files)?;
            with_capture(&subjects, System::drop_in, Run::form, |_, call| change::drop_in(call))
        }
    }
}

fn with_capture(
    subjects: &[Subject],
    host: fn(&Raw) -> System,
    form: fn(&Run) -> Preview,
    run: impl FnOnce(&Subject, &ResolvedCall) -> RunResult,
) -> RunResult {
    let previews = subjects.iter().all(|subject| {
        let is_on = |setting| subject.raw.is_on(setting);
        subject.title.is_some() && is_on(Setting::DryRun) && !is_on(Setting::CleanupOnly)
    });
    if previews {
        return render::previews(subjects, form);
    }
    let subject = manifest::only(subjects)?;
    let call = run::resolve(&subject.raw, &host(&subject.raw), subject.before.clone())?;
    manifest::begin(subjects, &call.run, [&call.warnings], call.run.stdout())?;
    run(subject, &call)
}

fn clean(raw: &Raw, problems: Vec<InputProblem>) -> RunResult {
    let (run, ()) = run::begin(raw, problems, Run::stdout, |_| ())?;
    match run.mode {
        RunMode::Preview(_) => change::preview_removal(&run, run.named()),
        _ => change::clean(&run),
    }
}
