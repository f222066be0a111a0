//! The settings that are noted beside the rules, used where no flags of capture are given.

use super::run::{self, Run};
use super::{Exit, manifest::machine, report};
use diagnose::{Basis, Subject};
use mesh::{InputProblem, Mesh, Problems};
use rules::Ownership;
use sidecar_init::backend::{self, Backend, Snapshot};

pub(super) enum NotedSettings {
    /// The settings by which the rules were made.
    Found(Box<Subject>, Basis),
    /// Rules whose settings are not known; the reason, as a clause.
    Unknown(String),
    /// No rules of any mesh.
    NoRules,
}

pub(super) fn settings(subject: &Subject) -> Result<Result<NotedSettings, Exit>, Problems> {
    let (run, _) = run::resolve_run(&subject.raw, subject.before.clone())?;
    Ok(read(subject, &run).map_err(|error| report::failure(&Unread(error), Exit::Failed)))
}

#[derive(Debug, thiserror::Error)]
#[error("the rules that are here can't be read; to ask about others, give the flags of apply, or -f FILE")]
pub(super) struct Unread(#[source] pub(super) backend::Error);

fn read(subject: &Subject, run: &Run) -> Result<NotedSettings, backend::Error> {
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
            None => NotedSettings::Unknown(format!(
                "those noted beside the rules are another version's ({settings})"
            )),
        },
        [(_, None)] => NotedSettings::Unknown(
            "they were too long to be noted beside the rules, or the rules were loaded by nft".to_owned(),
        ),
        [] => unnoted(&snapshot, run),
        [..] => {
            let names: Vec<&str> = noted.iter().map(|(mesh, _)| mesh.name()).collect();
            NotedSettings::Unknown(format!("rules of several meshes are here ({})", names.join(", ")))
        }
    })
}

/// The mesh and the settings in the note beside the rules of an owner, if its table has one.
fn note<'a>(snapshot: &'a Snapshot, owner: &Ownership) -> Option<(Mesh, Option<&'a str>)> {
    let record = snapshot.table_named(owner.table)?.record.as_deref()?;
    Some((owner.mesh.parse().ok()?, record.settings.as_deref()))
}

fn unnoted(snapshot: &Snapshot, run: &Run) -> NotedSettings {
    let known = |one: Ownership| Some(format!("{}: {}", one.name, snapshot.evidence_of(&one)?));
    let known: Vec<String> = run.every_owner().each().filter_map(known).collect();
    match known.is_empty() {
        true => NotedSettings::NoRules,
        false => NotedSettings::Unknown(format!(
            "none are noted beside the rules that are here ({})",
            known.join("; ")
        )),
    }
}

pub(super) fn needed(here: &NotedSettings) -> Problems {
    let why = match here {
        NotedSettings::Unknown(why) => why,
        NotedSettings::NoRules => "no rules of a mesh are here",
        NotedSettings::Found(..) => unreachable!("these are settings"),
    };
    let text = format!("no flag gives any, and {why}; give the flags of apply, or -f FILE");
    Problems(vec![InputProblem::of("settings", text)])
}
