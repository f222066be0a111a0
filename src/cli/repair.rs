//! `sidecar-init cni repair`: sets the rules of a container that runs without them. With `--watch`, `sidecar-node` replaces this
//! program before any setting is read, because it has other flags.

use super::arguments::{Parser, with_command};
use super::manifest::{self, Subject};
use super::run::{self, ResolvedCall, Run};
use super::{Exit, RunResult, change, command, report, verify, warn_of};
use crate::cni::{NODE_PROGRAM, beside, count_repair};
use diagnose::lint::brief;
use mesh::sources::{Given, Raw, SettingReader, boolean, name_servers};
use mesh::{Host, InputProblem, Problems, Setting};
use rules::number::unsigned;
use sidecar_init::engine::OnDrift;
use sidecar_init::sys::{address, exec, namespace, process};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{error::Error, io, net::IpAddr, os::unix::process::CommandExt, process::Command, time::Instant};

struct RepairTarget {
    /// Folder of the process that names the container; `None` if a network namespace does.
    process: Option<PathBuf>,
}

/// Facts for a thread in the container's network namespace and on the node's file system.
impl Host for RepairTarget {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match &self.process {
            Some(process) => Ok(name_servers(&process::read_as(process, "etc/resolv.conf")?)),
            None => Err(io::Error::other("a namespace has none; give --pid")),
        }
    }
}

pub(super) fn run(subjects: &[Subject]) -> RunResult {
    let started = Instant::now();
    super::install::survive_file_size_limit();
    let Subject { raw, before, .. } = manifest::only(subjects)?;
    let mut problems = before.clone();
    let container = container(raw).unwrap_or_else(|problem| {
        problems.push(problem);
        RepairTarget { process: None }
    });
    if problems.is_empty() {
        problems.extend(enter(raw, &container));
    }
    let mut reader = SettingReader::new(raw, problems);
    let run = run::read(&mut reader);
    // Repair always works on the node's file system.
    let call = run::configured(reader, &container, Run { cni: true, ..run })?;
    manifest::begin(subjects, &call.run, [&call.warnings], call.run.stdout())?;
    let done = repaired(&call).and_then(|report| change::finish(&call.run, &report));
    // Linting takes time, so it follows the repair.
    warn_of(brief(raw, &call.capture, &[]));
    let done = match done {
        Ok(Exit::Done) => verify::validated(&call),
        other => other,
    };
    let outcome = if matches!(done, Ok(Exit::Done | Exit::Drift)) { "repaired" } else { "failed" };
    let state = raw.get(Setting::StateDir).map(|given| Path::new(&given.value));
    if let Err(error) = count_repair(state, outcome, started.elapsed()) {
        tracing::warn!(target: "install", "the repair can't be counted: {error}");
    }
    done
}

fn repaired(call: &ResolvedCall) -> Result<change::ChangeReport, Box<dyn Error>> {
    let ResolvedCall { capture, run, .. } = call;
    if namespace::is_host() != Some(false) {
        return Err("this is, or may be, the machine's own network namespace; give the container's".into());
    }
    let report = change::set(run, "cni-repair", capture, OnDrift::Replace)?;
    let compared = run.session(capture.owner())?.check(&capture.desired())?;
    if compared.differences.is_empty() {
        Ok(report)
    } else {
        let differences = compared.differences;
        Err(format!(
            "the rules changed right after they were set; another program is changing them:\n{differences}"
        )
        .into())
    }
}

fn container(raw: &Raw) -> Result<RepairTarget, InputProblem> {
    match (raw.get(Setting::Netns), raw.get(Setting::Pid)) {
        (Some(_), None) => Ok(RepairTarget { process: None }),
        (None, Some(Given { value, source })) => match unsigned(value.trim()) {
            Some(id) if id > 0 => Ok(RepairTarget { process: Some(Path::new("/proc").join(id.to_string())) }),
            Some(_) | None => {
                Err(InputProblem::with_item(source, value, "is not a process; expected its number, from 1"))
            }
        },
        (Some(_), Some(_)) => Err(InputProblem::of("--netns", "contradicts --pid; give one of them")),
        (None, None) => {
            Err(InputProblem::of("--netns", "is missing; identify the container with --netns or --pid"))
        }
    }
}

fn enter(raw: &Raw, container: &RepairTarget) -> Option<InputProblem> {
    let Given { value, source } = raw.get(Setting::Netns).or(raw.get(Setting::Pid))?;
    let refused = match &container.process {
        None => super::enter(value),
        Some(process) => namespace::enter(&process.join("ns/net")).map_err(|error| {
            let form = "expected a process in a network namespace, and CAP_SYS_ADMIN to enter it";
            format!("can't be entered: {error}; {form}")
        }),
    };
    Some(InputProblem::with_item(source, value, refused.err()?))
}

/// Replaces this process with `sidecar-node` if `--watch` is given; the first word is the program. Returns only on failure.
pub(super) fn hand_over(words: &[OsString]) -> Option<Box<dyn Error>> {
    let arguments = for_node(words)?;
    let is = |word: &OsString, flag: &str| word.to_string_lossy().split('=').next() == Some(flag);
    let given = |flag: &&str| arguments.iter().any(|word| is(word, flag));
    let text = "contradicts --watch, which finds the pods of a node; give one of them";
    let problems: Vec<InputProblem> =
        ["--netns", "--pid"].into_iter().filter(given).map(|flag| InputProblem::of(flag, text)).collect();
    if !problems.is_empty() {
        return Some(Problems(problems).into());
    }
    let ours = beside(NODE_PROGRAM);
    let found = if ours.is_file() { Some(ours.clone()) } else { exec::find(NODE_PROGRAM) };
    let Some(program) = found else {
        let text = format!(
            "cni repair --watch runs {NODE_PROGRAM}, which is neither at {} nor on PATH; install it, or \
             repair one container with --netns or --pid",
            ours.display()
        );
        return Some(text.into());
    };
    let error = Command::new(&program).arg("repair").args(arguments).exec();
    Some(report::Because::of(format!("{} can't be started", program.display()), error).into())
}

/// Words besides `cni repair`, if `--watch` is among them.
fn for_node(words: &[OsString]) -> Option<Vec<OsString>> {
    if !words.iter().any(|word| word == "repair") {
        return None;
    }
    let words = with_command(words.to_vec());
    let mut parser = Parser::new(&words);
    let mut words = words.into_iter().skip(1);
    let mut arguments = Vec::new();
    while parser.entry.is_none() {
        let word = words.next()?;
        let is_in_group = parser.group.is_some();
        if parser.read(&word).is_some() {
            return None;
        }
        if parser.entry.is_none() && parser.group.is_some() == is_in_group {
            arguments.push(word);
        }
    }
    if parser.entry?.command != command::Command::CniRepair {
        return None;
    }
    // In `sidecar-node`, switches take no value.
    arguments.extend(words.map(|word| if is_watch(&word) { "--watch".into() } else { word }));
    arguments.iter().any(|word| word == "--watch").then_some(arguments)
}

fn is_watch(word: &OsStr) -> bool {
    let value = word.to_str().and_then(|word| word.strip_prefix("--watch="));
    value.and_then(boolean).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed_over(words: &str) -> Option<Vec<String>> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        for_node(&words).map(|arguments| arguments.iter().map(text).collect())
    }

    #[test]
    fn only_repair_with_watch_is_handed_over() {
        assert_eq!(handed_over("p cni repair --watch"), Some(vec!["--watch".to_owned()]));
        assert_eq!(handed_over("p cni repair --node a --watch -x").map(|words| words.len()), Some(4));
        assert_eq!(handed_over("sidecar-cni repair --watch"), Some(vec!["--watch".to_owned()]));
        for (words, expected) in [
            ("p --log_as_json cni repair --watch=true -x", "--log_as_json --watch -x"),
            ("p --log_output_level debug cni repair --watch", "--log_output_level debug --watch"),
            ("p cni --log_as_json repair --watch", "--log_as_json --watch"),
        ] {
            assert_eq!(handed_over(words).map(|words| words.join(" ")).as_deref(), Some(expected), "{words}");
        }
        for words in [
            "p",
            "p cni repair",
            "p cni repair --pid 1",
            "p cni repair --watch=false",
            "p cni install --watch",
            "p repair cni --watch",
            "p apply --watch repair",
        ] {
            assert_eq!(handed_over(words), None, "{words}");
        }
    }
}
