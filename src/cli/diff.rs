//! `sidecar-init diff`: which packets two configurations treat differently.

use super::data::{self, Encoding};
use super::manifest::{self, Subject, SubjectSection};
use super::rule_views::from_kernel;
use super::run::{self, Format, Logging, ResolvedCall, Run};
use super::{Exit, logging::Stdout, noted::Unread, report};
use diagnose::compare::{self, ComparedSide, Comparison, compare};
use diagnose::explain::PodContext;
use diagnose::{Basis, Style, fold};
use mesh::sources::{Given, Raw, Source};
use mesh::{Capture, InputProblem, Problems, Setting};
use serde::Serialize;
use sidecar_init::backend;
use std::collections::BTreeMap;

/// One of the two configurations.
#[derive(Clone, Debug)]
enum DiffConfiguration {
    /// The rules of the network namespace.
    Live,
    Described {
        raw: Raw,
        file: Option<String>,
        with_flags: bool,
    },
}

pub(super) fn run(raw: &Raw, problems: &[InputProblem], files: &[String]) -> Result<Exit, Problems> {
    let configurations = configurations(raw, problems, files)?;
    // Both configurations may be of one manifest, which may be a pipe: it can be read only once.
    let texts: BTreeMap<&str, Result<String, String>> =
        files.iter().map(|file| (file.as_str(), manifest::read(file))).collect();
    let read = |file: &str| texts[file].clone();
    let sides = manifest::each(&configurations, |side| side.subjects(raw, problems, read))?;
    let (old, new) = (&sides[0], &sides[1]);
    let all: Vec<&Sided> = old.iter().chain(new).collect();
    let calls = manifest::each(all.iter().copied(), resolve)?;
    if let (Some(first), Some(call)) = (all.first(), calls.first()) {
        let subject = std::slice::from_ref(&first.subject);
        manifest::begin(subject, &call.logging, [], Stdout::Answer)?;
        let warnings = calls.iter().map(|call| &call.warnings);
        all.iter().zip(warnings).for_each(|(sided, warnings)| manifest::warn(&sided.subject, warnings));
        all.iter().for_each(|sided| manifest::note_assumption(&sided.subject));
    }
    let (old_calls, new_calls) = calls.split_at(old.len());
    let format = calls.first().map_or(Format::Text, |call| call.run.format);
    let (mut sections, mut exits) = (Vec::new(), Vec::new());
    for (before, after) in matched(old, new) {
        let pair = [before.map(|at| (&old[at], &old_calls[at])), after.map(|at| (&new[at], &new_calls[at]))];
        let title = pair.iter().flatten().find_map(|(sided, _)| sided.subject.title.clone());
        let report = match answer(pair) {
            Ok(report) => report,
            Err(error) => return Ok(report::failure(&Unread(error), Exit::Failed)),
        };
        exits.push(report.exit());
        sections.push(SubjectSection { title, body: report.body(format) });
    }
    let printed = match format {
        Format::Text => manifest::print(&sections, |title| format!("== {title}")),
        Format::Data(encoding) => manifest::print_data(encoding, &sections),
    };
    Ok(match printed {
        // A change of one pod counts, whether or not all packets of another were compared.
        Exit::Done => exits.into_iter().max_by_key(|exit| *exit as u8).unwrap_or(Exit::Done),
        failed => failed,
    })
}

fn configurations(
    raw: &Raw,
    problems: &[InputProblem],
    files: &[String],
) -> Result<[DiffConfiguration; 2], Problems> {
    let of_file = |file: &str, raw: Raw, with_flags| DiffConfiguration::Described {
        raw: Raw::of([(
            Setting::Filename,
            Given { value: file.to_owned(), source: Source::Flag(Setting::Filename.row().long) },
        )])
        .over(raw),
        file: Some(file.to_owned()),
        with_flags,
    };
    let refused = |text: &str| {
        let problem = InputProblem::of(&Source::Flag(Setting::Filename.row().long), text.to_owned());
        Err(Problems(problems.iter().cloned().chain([problem]).collect()))
    };
    let names = |setting| raw.get(setting).is_some_and(|given| !given.value.trim().is_empty());
    match files {
        [] if raw.describes_rules() => {
            let flags = DiffConfiguration::Described { raw: raw.clone(), file: None, with_flags: true };
            Ok([DiffConfiguration::Live, flags])
        }
        [] => refused(
            "is needed, twice: expected the manifests to compare; or one, with flags or --network-namespace; or flags alone",
        ),
        [file] if names(Setting::NetworkNamespace) => {
            Ok([DiffConfiguration::Live, of_file(file, raw.clone(), raw.describes_rules())])
        }
        [file] if raw.describes_rules() || names(Setting::Mesh) => {
            // The manifest as it is belongs to its own mesh, whichever a flag names.
            let own = raw.clone().without_rules().without(Setting::Mesh);
            Ok([of_file(file, own, false), of_file(file, raw.clone(), true)])
        }
        [_] => refused("is given once; give the other manifest too, or flags, or --network-namespace"),
        [old, new] if old == "-" && new == "-" => refused("is - twice; standard input is one manifest"),
        [old, new] => Ok([old, new].map(|file| of_file(file, raw.clone(), false))),
        _ => refused(&format!("is given {} times; expected two manifests", files.len())),
    }
}

/// A subject with the name of its configuration.
struct Sided {
    subject: Subject,
    name: String,
    is_live: bool,
}

impl DiffConfiguration {
    /// Its subjects; `read` reads a manifest.
    fn subjects(
        &self,
        raw: &Raw,
        problems: &[InputProblem],
        read: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Vec<Sided>, Problems> {
        let (raw, file, with_flags) = match self {
            Self::Live => {
                let raw = raw.clone().without_rules().without(Setting::Filename);
                let subject = Subject::of_flags(raw, problems.to_vec(), manifest::machine);
                let name = Basis::Rules { namespace: subject.namespace() }.name();
                return Ok(vec![Sided { subject, name, is_live: true }]);
            }
            Self::Described { raw, file, with_flags } => (raw, file, *with_flags),
        };
        let sided = |subject: Subject| {
            let name = match (&subject.title, file) {
                (Some(title), Some(file)) => {
                    let file = match file.as_str() {
                        "-" => "standard input",
                        word if manifest::is_document(word) => "the argument",
                        path => path,
                    };
                    format!("{title} of {file}{}", if with_flags { " with the flags" } else { "" })
                }
                _ => Basis::Flags.name(),
            };
            Sided { subject, name, is_live: false }
        };
        let subjects = manifest::subjects_from(raw.clone(), problems.to_vec(), read)?;
        Ok(subjects.into_iter().map(sided).collect())
    }
}

/// A configuration with its settings, resolved.
struct ResolvedConfiguration {
    run: Run,
    logging: Logging,
    warnings: Vec<String>,
    /// `None` for the rules of a namespace.
    capture: Option<Capture>,
}

fn resolve(Sided { subject, is_live, .. }: &Sided) -> Result<ResolvedConfiguration, Problems> {
    if *is_live {
        let (run, logging) = run::resolve_run(&subject.raw, subject.before.clone())?;
        return Ok(ResolvedConfiguration { run, logging, warnings: Vec::new(), capture: None });
    }
    let call = run::resolve(&subject.raw, &*subject.host(), subject.before.clone())?;
    let ResolvedCall { run, logging, warnings, capture } = call;
    Ok(ResolvedConfiguration { run, logging, warnings, capture: Some(capture) })
}

/// The pairs to compare, by their places: the only ones of both sides, or those of one name, in the order of the second side; the
/// rules of a namespace are compared with each.
fn matched(old: &[Sided], new: &[Sided]) -> Vec<(Option<usize>, Option<usize>)> {
    let is_live = |side: &[Sided]| side.iter().any(|sided| sided.is_live);
    if is_live(old) {
        return (0..new.len()).map(|at| (Some(0), Some(at))).collect();
    }
    if let ([_], [_]) = (old, new) {
        return vec![(Some(0), Some(0))];
    }
    let place =
        |of: &Sided, side: &[Sided]| side.iter().position(|other| other.subject.title == of.subject.title);
    let gone = old.iter().enumerate().filter(|(_, sided)| place(sided, new).is_none());
    let gone = gone.map(|(at, _)| (Some(at), None));
    let kept = new.iter().enumerate().map(|(at, sided)| (place(sided, old), Some(at)));
    gone.chain(kept).collect()
}

fn answer(pair: [Option<(&Sided, &ResolvedConfiguration)>; 2]) -> Result<DiffReport, backend::Error> {
    let name = |side: &Option<(&Sided, &ResolvedConfiguration)>| side.map(|(sided, _)| sided.name.clone());
    let (from, to) = (name(&pair[0]), name(&pair[1]));
    let [Some(old), Some(new)] = pair else {
        return Ok(DiffReport { from, to, comparison: Comparison { changes: Vec::new(), complete: true } });
    };
    let pods = [old, new].map(|(sided, call)| {
        PodContext::from_settings(&sided.subject.raw, call.capture.as_deref(), Some(&*sided.subject.host()))
    });
    let pod = compare::pod(&pods);
    let side = |(sided, call): (&Sided, &ResolvedConfiguration)| -> Result<ComparedSide, backend::Error> {
        Ok(match &call.capture {
            Some(capture) => ComparedSide::of_subject(&sided.subject, capture, &pod),
            None => ComparedSide::of_rules(from_kernel(&call.run, &pod)?, &pod),
        })
    };
    Ok(DiffReport { from, to, comparison: compare(&side(old)?, &side(new)?, &pod) })
}

/// The changes as programs read them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffReport {
    /// The first configuration in words; null where the pod is in the second file alone.
    from: Option<String>,
    /// The second configuration; null where the pod is in the first file alone.
    to: Option<String>,
    #[serde(flatten)]
    comparison: Comparison,
}

impl DiffReport {
    fn exit(&self) -> Exit {
        let is_same = self.comparison.changes.is_empty() && self.from.is_some() && self.to.is_some();
        match (is_same, self.comparison.complete) {
            (false, _) => Exit::Drift,
            (true, false) => Exit::Failed,
            (true, true) => Exit::Done,
        }
    }

    fn body(&self, format: Format) -> String {
        if let Format::Data(_) = format {
            return data::document(Encoding::Json, self);
        }
        let width = report::line_width();
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => {
                let line = Style::Quiet.paint(format!("from {from} to {to}:")).to_string();
                fold(&format!("{line}\n"), 2, width) + &compare::text(&self.comparison, width)
            }
            (Some(only), None) | (None, Some(only)) => fold(&format!("only {only}\n"), 2, width),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_comparison_succeeds() {
        let exit = |to: Option<&str>, complete| {
            let (from, to) = (Some("one".to_owned()), to.map(str::to_owned));
            DiffReport { from, to, comparison: Comparison { changes: Vec::new(), complete } }.exit()
        };
        assert_eq!(exit(Some("other"), true), Exit::Done);
        assert_eq!(exit(Some("other"), false), Exit::Failed);
        assert_eq!(exit(None, true), Exit::Drift);
    }
}
