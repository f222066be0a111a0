//! The subjects of a call: pods of a manifest (`-f FILE`), flags, or the settings stored with the rules.

use super::report::{self, Answers, Encoding, ObjectAnswer};
use super::run::{self, Run};
use super::{RunResult, host::System, logging::Stdout, start_logging};
use diagnose::Basis;
use mesh::data::{Tree, yaml};
use mesh::sources::{Given, Host, Raw, SettingReader, Source};
use mesh::{InputProblem, Mesh, Problems, Setting, visible};
use rules::Ownership;
use sidecar_init::backend::{self, Backend, Snapshot};
use std::{error::Error, fs, io};

pub(super) use diagnose::{Subject, subject::each};

/// Subjects of a call; a single one without a manifest. Titles include the file if there are several manifests.
pub(super) fn subjects(
    raw: Raw,
    problems: Vec<InputProblem>,
    files: &[String],
) -> Result<Vec<Subject>, Problems> {
    if files.len() < 2 {
        return subjects_from(raw, problems, read);
    }
    let of_each = each(files, |file| subjects_from(of_file(raw.clone(), file), problems.clone(), read))?;
    let of_file = files.iter().zip(of_each).flat_map(|(file, subjects)| {
        subjects.into_iter().map(|mut subject| {
            subject.title = subject.title.map(|title| format!("{title} of {}", file_name(file)));
            subject
        })
    });
    Ok(of_file.collect())
}

pub(super) fn of_file(raw: Raw, file: &str) -> Raw {
    Raw::of_flags([(Setting::Filename, file)]).over(raw)
}

pub(super) fn file_name(file: &str) -> &str {
    match file {
        "-" => "standard input",
        word if is_document(word) => "the argument",
        path => path,
    }
}

pub(super) fn subjects_from(
    raw: Raw,
    problems: Vec<InputProblem>,
    read: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Vec<Subject>, Problems> {
    let Some(Given { value: file, source }) = raw.get(Setting::Filename).cloned() else {
        return Ok(vec![Subject::of_flags(raw, problems, machine)]);
    };
    let text = match read(&file) {
        Ok(text) => text,
        Err(error) => {
            let text = format!("can't be read: {error}; expected a manifest as YAML or JSON, or - for input");
            let mut reader = SettingReader::new(&raw, problems);
            reader.problem(&source, &file, text);
            return reader.finish().map(|_| Vec::new());
        }
    };
    let name = if file == "-" || is_document(&file) { "input" } else { &file };
    Subject::of_manifest(&raw, &problems, name, &text, machine)
}

pub(super) fn machine(raw: &Raw) -> Box<dyn Host> {
    Box::new(System::of(raw))
}

pub(super) fn read(file: &str) -> Result<String, String> {
    let text = match file {
        "-" => io::read_to_string(io::stdin()),
        document if is_document(document) => Ok(document.to_owned()),
        path => fs::read_to_string(path),
    };
    text.map_err(|error| error.to_string())
}

/// True for a JSON document, as given to an ephemeral container, whose standard input never ends (`stdinOnce`).
pub(super) fn is_document(word: &str) -> bool {
    word.starts_with('{')
}

/// The only subject, for operations on a single network namespace.
pub(super) fn only<'a>(subjects: impl IntoIterator<Item = &'a Subject>) -> Result<&'a Subject, Problems> {
    match subjects.into_iter().collect::<Vec<_>>()[..] {
        [subject] => Ok(subject),
        ref several => {
            let titles: Vec<&str> = several.iter().filter_map(|subject| subject.title.as_deref()).collect();
            let text = format!(
                "describes {} pods ({}), but a network namespace belongs to one; give one pod",
                several.len(),
                titles.join(", ")
            );
            Err(Problems(vec![InputProblem::of(&Source::Flag(Setting::Filename.row().long), text)]))
        }
    }
}

pub(super) fn begin<'a>(
    subjects: &[Subject],
    run: &Run,
    warnings: impl IntoIterator<Item = &'a Vec<String>>,
    stdout: Stdout,
) -> Result<(), Problems> {
    if let [subject, ..] = subjects {
        start_logging(&subject.raw, run, stdout)?;
    }
    subjects.iter().zip(warnings).for_each(|(subject, warnings)| warn(subject, warnings));
    Ok(())
}

pub(super) fn warn(subject: &Subject, warnings: &[String]) {
    let of = prefix(subject);
    for warning in subject.warnings_of_form() {
        tracing::warn!(target: "manifest", "{of}{}", visible(&warning.text));
    }
    for warning in warnings {
        tracing::warn!(target: "config", "{of}{warning}");
    }
}

/// Logs assumptions about a described pod. Commands that work in its network namespace read the addresses there.
pub(super) fn note_assumption(subject: &Subject) {
    if let Some(assumption) = subject.assumption() {
        tracing::info!(target: "manifest", "{}{assumption}", prefix(subject));
    }
}

fn prefix(subject: &Subject) -> String {
    subject.title.as_ref().map(|title| format!("{title}: ")).unwrap_or_default()
}

pub(super) struct SubjectSection {
    pub(super) title: Option<String>,
    pub(super) body: String,
}

pub(super) fn print(sections: &[SubjectSection], heading: impl Fn(&str) -> String) -> RunResult {
    match sections {
        [SubjectSection { body, .. }] => report::text(body),
        several => {
            let part = |section: &SubjectSection| {
                let title = section.title.as_deref().unwrap_or_default();
                format!("{}\n{}", heading(title), section.body)
            };
            report::text(&several.iter().map(part).collect::<Vec<_>>().join("\n"))
        }
    }
}

pub(super) fn print_data(encoding: Encoding, sections: &[SubjectSection]) -> RunResult {
    match (sections, encoding) {
        ([SubjectSection { body, .. }], Encoding::Json) => report::text(body),
        ([SubjectSection { body, .. }], Encoding::Yaml) => report::text(&yaml::block(&Tree::read(body))),
        (several, _) => {
            let answers = several.iter().map(|SubjectSection { title, body }| ObjectAnswer {
                object: title.as_deref().unwrap_or_default(),
                answer: Tree::read(body),
            });
            report::text(&report::document(encoding, &Answers { answers: answers.collect() }))
        }
    }
}

pub(super) enum NotedSettings {
    Found(Box<Subject>, Basis),
    /// Rules with unknown settings, and the reason as a clause.
    Unknown(String),
    NoRules,
}

pub(super) fn settings(subject: &Subject) -> Result<NotedSettings, Box<dyn Error>> {
    let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
    let run = run::read(&mut reader);
    reader.finish()?;
    Ok(read_noted(subject, &run).map_err(Unread)?)
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read this network namespace's rules; instead, give apply's flags, or -f FILE")]
pub(super) struct Unread(#[source] pub(super) backend::Error);

fn read_noted(subject: &Subject, run: &Run) -> Result<NotedSettings, backend::Error> {
    let snapshot = run.open_for(run.every_owner())?.read()?;
    let noted: Vec<(Mesh, Option<&str>)> =
        run.every_owner().each().filter_map(|one| note(&snapshot, &one)).collect();
    Ok(match noted[..] {
        [(mesh, Some(settings))] => match mesh::parse_settings_text(mesh, settings) {
            Some(raw) => {
                let raw = subject.raw.clone().without_rules().over(raw);
                let basis = Basis::Noted { namespace: subject.namespace(), settings: settings.to_owned() };
                NotedSettings::Found(Box::new(Subject::of_flags(raw, Vec::new(), machine)), basis)
            }
            None => {
                NotedSettings::Unknown(format!("the stored settings are from another version ({settings})"))
            }
        },
        [(_, None)] => NotedSettings::Unknown(
            "the settings were too long to store with the rules, or nft loaded the rules".to_owned(),
        ),
        [] => unnoted(&snapshot, run),
        [..] => {
            let names: Vec<&str> = noted.iter().map(|(mesh, _)| mesh.name()).collect();
            NotedSettings::Unknown(format!("rules of several meshes exist ({})", names.join(", ")))
        }
    })
}

/// Mesh and settings stored beside the rules of an owner, if its table has a record.
fn note<'a>(snapshot: &'a Snapshot, owner: &Ownership) -> Option<(Mesh, Option<&'a str>)> {
    let record = snapshot.table_named(owner.table)?.record.as_deref()?;
    Some((owner.mesh.parse().ok()?, record.settings.as_deref()))
}

fn unnoted(snapshot: &Snapshot, run: &Run) -> NotedSettings {
    let known = |one: Ownership| Some(format!("{}: {}", one.name, snapshot.evidence_of(&one)?));
    let known: Vec<String> = run.every_owner().each().filter_map(known).collect();
    match known.is_empty() {
        true => NotedSettings::NoRules,
        false => {
            NotedSettings::Unknown(format!("the existing rules store no settings ({})", known.join("; ")))
        }
    }
}

pub(super) fn needed(here: &NotedSettings) -> Problems {
    let why = match here {
        NotedSettings::Unknown(why) => why,
        NotedSettings::NoRules => "no rules of a mesh exist here",
        NotedSettings::Found(..) => unreachable!("these are settings"),
    };
    let text = format!("no flags given, and {why}; give apply's flags, or -f FILE");
    Problems(vec![InputProblem::of("settings", text)])
}
