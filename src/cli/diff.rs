//! `sidecar-init diff`: differences between live rules and settings, or two settings, by packets and by rules.

use super::manifest::{self, NotedSettings, Subject, SubjectSection};
use super::report::{self, Encoding, Format};
use super::run::{self, ResolvedCall, Run};
use super::{Exit, RunResult, change, host, host::System, live, logging::Stdout};
use diagnose::compare::{self, Change, ComparedSide, Comparison, DiffReport, OtherMesh, PartReport, compare};
use diagnose::explain::{PodContext, RuleView};
use diagnose::{Basis, painted};
use mesh::sources::{Dialect, Host, Raw, SettingReader, Source};
use mesh::{Capture, InputProblem, OWNERS, Problems, Setting};
use rules::{Ownership, drift::Reason};
use sidecar_init::engine::{self, Differences, EngineError, LiveComparison};
use sidecar_init::sys::address;
use std::{collections::BTreeMap, error::Error};

pub(super) fn run(
    raw: &Raw,
    problems: &[InputProblem],
    files: &[String],
    [listings, namespaces]: [&[String]; 2],
) -> RunResult {
    // A single namespace is entered; two are compared.
    let namespaces = if namespaces.len() > 1 { namespaces } else { &[] };
    let named = |name: &String| Basis::Rules { namespace: Some(name.clone()) };
    let listings = listings.iter().cloned().map(Basis::Listing);
    let existing: Vec<Basis> = listings.chain(namespaces.iter().map(named)).collect();
    if !existing.is_empty() {
        return of_rules(raw, problems, files, &existing);
    }
    let live = Subject::of_flags(raw.clone().without_rules(), problems.to_vec(), manifest::machine);
    if files.is_empty() && !raw.describes_rules() {
        return match manifest::settings(&live)? {
            NotedSettings::Found(noted, basis) => from_live(&live, &noted, basis.name()),
            other => Err(manifest::needed(&other).into()),
        };
    }
    let configurations = configurations(raw, problems, files)?;
    // Both configurations may come from one manifest, which is read once because it may be a pipe.
    let texts: BTreeMap<&str, Result<String, String>> =
        files.iter().map(|file| (file.as_str(), manifest::read(file))).collect();
    let read = |file: &str| texts[file].clone();
    let sides = manifest::each(&configurations, |(raw, place)| {
        let subjects = manifest::subjects_from(raw.clone(), problems.to_vec(), read)?;
        let with_name = |subject: Subject| match (&subject.title, place) {
            (Some(title), Some(place)) => (format!("{title} of {place}"), subject),
            _ => (Basis::Flags.name(), subject),
        };
        Ok(subjects.into_iter().map(with_name).collect::<Vec<NamedSubject>>())
    })?;
    match &sides[..] {
        [old, new] => between(old, new),
        sides => {
            let subject = manifest::only(sides.iter().flatten().map(|(_, subject)| subject))?;
            from_live(&live, subject, sides[0][0].0.clone())
        }
    }
}

fn of_rules(raw: &Raw, problems: &[InputProblem], files: &[String], existing: &[Basis]) -> RunResult {
    let mut problems = problems.to_vec();
    if !files.is_empty() || raw.describes_rules() || existing.len() > 2 {
        let text = "can be compared only with one other, or with the live rules, not with flags or manifests";
        let setting = match &existing[0] {
            Basis::Listing(_) => Setting::FromSave,
            _ => Setting::NetworkNamespace,
        };
        problems.push(InputProblem::of(&setting.row().option(), text));
    }
    let (run, prints_rules) =
        run::begin(raw, problems, run::ANSWER, |reader| reader.switch(Setting::DiffRules))?;
    if prints_rules {
        tracing::warn!(target: "config", "--rules has no effect: existing rules are compared by packets");
    }
    let live =
        Basis::Rules { namespace: raw.get(Setting::NetworkNamespace).map(|given| given.value.clone()) };
    let read = |basis: &Basis| -> Result<(PodContext, Vec<RuleView>), Box<dyn Error>> {
        if let Basis::Listing(file) = basis {
            let pod = PodContext::new([], None);
            return Ok((pod.clone(), live::from_save(file, &pod)?));
        }
        if let Basis::Rules { namespace: Some(name) } = basis {
            host::enter(name)?;
        }
        let pod = PodContext::new(address::all()?, None);
        let rule_views = live::from_kernel(&run, &pod)?;
        Ok((pod, rule_views))
    };
    let [from, to] = match existing {
        [one] => [&live, one],
        two => [&two[0], &two[1]],
    };
    let ((old_pod, old), (new_pod, new)) = (read(from)?, read(to)?);
    let pod = compare::pod(&[old_pod, new_pod]);
    let [old, new] = [old, new].map(|rule_views| ComparedSide::of_rules(rule_views, &pod));
    let comparison = compare(&old, &new, &pod);
    let report = DiffReport {
        equal: comparison.changes.is_empty(),
        comparison,
        ..unequal(Some(from.name()), Some(to.name()))
    };
    print(&report, &run, false)
}

fn print(report: &DiffReport, run: &Run, prints_rules: bool) -> RunResult {
    report::answer(run.format, report, || report.text(report::line_width(), prints_rules))?;
    Ok(exit(report))
}

fn from_live(live: &Subject, subject: &Subject, to: String) -> RunResult {
    let (call, prints_rules) = resolve(subject, &System::of(&subject.raw))?;
    manifest::begin(std::slice::from_ref(subject), &call.run, [&call.warnings], Stdout::Answer)?;
    let from = Basis::Rules { namespace: live.namespace() }.name();
    let report = with_live(unequal(Some(from), Some(to)), subject, &call)?;
    print(&report, &call.run, prints_rules)
}

fn between(old: &[NamedSubject], new: &[NamedSubject]) -> RunResult {
    let all = manifest::each(old.iter().chain(new), |(name, subject)| {
        let (call, prints_rules) = resolve(subject, &*subject.host())?;
        Ok(Sided { name, subject, call, prints_rules })
    })?;
    if let Some(Sided { subject, call, .. }) = all.first() {
        manifest::begin(std::slice::from_ref(*subject), &call.run, [], Stdout::Answer)?;
    }
    all.iter().for_each(|sided| manifest::warn(sided.subject, &sided.call.warnings));
    all.iter().for_each(|sided| manifest::note_assumption(sided.subject));
    let (old, new) = all.split_at(old.len());
    let format = all.first().map_or(Format::Text, |sided| sided.call.run.format);
    let (mut sections, mut exits) = (Vec::new(), Vec::new());
    for pair in matched(old, new) {
        let title = pair.iter().flatten().find_map(|sided| sided.subject.title.clone());
        let prints_rules = pair.iter().flatten().any(|sided| sided.prints_rules);
        let report = between_subjects(pair);
        exits.push(exit(&report));
        let body = match format {
            Format::Text => report.text(report::line_width(), prints_rules),
            Format::Data(_) => report::document(Encoding::Json, &report),
        };
        sections.push(SubjectSection { title, body });
    }
    match format {
        Format::Text => manifest::print(&sections, |title| format!("== {title}")),
        Format::Data(encoding) => manifest::print_data(encoding, &sections),
    }?;
    // A change in one pod takes precedence over an incomplete comparison of another pod.
    Ok(exits.into_iter().max_by_key(|exit| *exit as u8).unwrap_or(Exit::Done))
}

fn resolve(subject: &Subject, host: &dyn Host) -> Result<(ResolvedCall, bool), Problems> {
    let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
    let prints_rules = reader.switch(Setting::DiffRules);
    Ok((run::finish(reader, host)?, prints_rules))
}

/// Described configurations, each with its file's label: two, or one to compare with the live rules.
fn configurations(
    raw: &Raw,
    problems: &[InputProblem],
    files: &[String],
) -> Result<Vec<(Raw, Option<String>)>, Problems> {
    let of_file = |file: &String, raw: Raw, with_flags: bool| {
        let with_flags = if with_flags { " with the flags" } else { "" };
        (manifest::of_file(raw, file), Some(format!("{}{with_flags}", manifest::file_name(file))))
    };
    let refused = |text: &str| {
        let problem = InputProblem::of(&Source::Flag(Setting::Filename.row().long), text.to_owned());
        Err(Problems(problems.iter().cloned().chain([problem]).collect()))
    };
    let names = |setting| raw.stated(setting).is_some();
    let has_flags = raw.describes_rules();
    Ok(match files {
        [] => vec![(raw.clone(), None)],
        [file] if (has_flags || names(Setting::Mesh)) && !names(Setting::NetworkNamespace) => {
            // The unmodified manifest belongs to its own mesh, despite a flag.
            let own = raw.clone().without_rules().without(Setting::Mesh);
            vec![of_file(file, own, false), of_file(file, raw.clone(), true)]
        }
        [file] => vec![of_file(file, raw.clone(), has_flags)],
        [old, new] => [old, new].map(|file| of_file(file, raw.clone(), false)).into(),
        _ => return refused(&format!("is given {} times; expected two manifests", files.len())),
    })
}

type NamedSubject = (String, Subject);

struct Sided<'a> {
    name: &'a str,
    subject: &'a Subject,
    call: ResolvedCall,
    prints_rules: bool,
}

type ComparedPair<'a> = [Option<&'a Sided<'a>>; 2];

/// Pairs to compare: both sides' single subjects, or subjects with equal names, in the second side's order.
fn matched<'a>(old: &'a [Sided<'a>], new: &'a [Sided<'a>]) -> Vec<ComparedPair<'a>> {
    if let ([old], [new]) = (old, new) {
        return vec![[Some(old), Some(new)]];
    }
    let same = |of: &Sided<'_>, side: &'a [Sided<'a>]| {
        side.iter().find(|other| other.subject.title == of.subject.title)
    };
    let gone = old.iter().filter(|one| same(one, new).is_none()).map(|one| [Some(one), None]);
    gone.chain(new.iter().map(|one| [same(one, old), Some(one)])).collect()
}

fn unequal(from: Option<String>, to: Option<String>) -> DiffReport {
    let comparison = Comparison { complete: true, ..Comparison::default() };
    DiffReport { from, to, comparison, ..DiffReport::default() }
}

fn between_subjects(pair: ComparedPair<'_>) -> DiffReport {
    let [from, to] = pair.map(|side| side.map(|sided| sided.name.to_owned()));
    let none = unequal(from, to);
    let [Some(old), Some(new)] = pair else { return none };
    let pods = [old, new].map(|Sided { subject, call, .. }| {
        PodContext::from_settings(&subject.raw, Some(&*call.capture), Some(&*subject.host()))
    });
    let pod = compare::pod(&pods);
    let [before, after] =
        [old, new].map(|Sided { subject, call, .. }| ComparedSide::of_subject(subject, &call.capture, &pod));
    let comparison = compare(&before, &after, &pod);
    let [before, after] = [old, new].map(|sided| sided.call.capture.desired());
    let parts = match new.prints_rules || new.call.run.format != Format::Text {
        true => parts(&engine::compare_desired(&before, &after, OWNERS)),
        false => Vec::new(),
    };
    DiffReport { equal: comparison.changes.is_empty(), comparison, parts, ..none }
}

fn parts(differences: &Differences) -> Vec<PartReport> {
    differences.parts.iter().map(PartReport::of).collect()
}

fn with_live(base: DiffReport, subject: &Subject, call: &ResolvedCall) -> Result<DiffReport, Box<dyn Error>> {
    let ResolvedCall { run, capture, .. } = call;
    let owner = capture.owner();
    let desired = |pod: &PodContext| ComparedSide::of_subject(subject, capture, pod);
    if subject.skip().is_some() {
        let comparison = live::changed_verdicts(run, capture, desired)?;
        return Ok(DiffReport { equal: comparison.changes.is_empty(), comparison, ..base });
    }
    let mut session = run.session(owner)?;
    let compared = session.check(&capture.desired())?;
    let before = change::warned(session.preceding_rules()?);
    let others = compared.live.others(&owner, OWNERS).map(|(other, by_what)| OtherMesh {
        mesh: other.mesh.into(),
        text: format!("{} captures here too ({by_what}), so apply would fail", other.name),
        remedy: engine::remedy_of(&other),
    });
    let others: Vec<OtherMesh> = others.collect();
    for OtherMesh { text, remedy, .. } in &others {
        tracing::warn!(target: "iptables", "{text}; {remedy}");
    }
    let comparison = live::changed_verdicts(run, capture, desired)?;
    // If no rule differs, a changed verdict is due to other programs' rules.
    let is_overruled = compared.differences.is_empty() && comparison.has_known_change();
    let is_alone = before.is_empty() && others.is_empty() && !is_overruled;
    Ok(DiffReport {
        equal: compared.differences.is_empty() && is_alone,
        comparison,
        backend: Some(compared.backend.to_string()),
        summary: Some(also(&compared, &owner)).filter(|summary| !summary.is_empty()),
        parts: parts(&compared.differences),
        before,
        others,
        ..base
    })
}

fn exit(report: &DiffReport) -> Exit {
    match (report.equal, report.comparison.complete) {
        (false, _) => Exit::Drift,
        (true, false) => Exit::Failed,
        (true, true) => Exit::Done,
    }
}

/// Short summary of differing rules: the backend, or the number of lines.
fn also(compared: &LiveComparison, owner: &Ownership) -> String {
    let LiveComparison { backend, differences, live } = compared;
    let holding = live.all_contents().filter(|contents| contents.holds_any_of(owner));
    let holding: Vec<_> = holding.map(|contents| contents.backend()).collect();
    if !holding.is_empty() && !holding.contains(backend) {
        let holding: Vec<String> = holding.iter().map(ToString::to_string).collect();
        return format!("backend {} -> {backend}", holding.join(", "));
    }
    let count = |reason: Reason| {
        let lines =
            differences.parts.iter().flat_map(|part| &part.lines).filter(|line| line.reason == Some(reason));
        let mut of_sides = [0; 3];
        lines.for_each(|line| of_sides[line.side as usize] += 1);
        // A changed or moved line counts on each side.
        of_sides[0] + of_sides[1].max(of_sides[2])
    };
    let reasons =
        [Reason::Missing, Reason::Extra, Reason::Changed, Reason::Moved, Reason::ForeignBefore].into_iter();
    let counted = reasons.map(|reason| (count(reason), reason)).filter(|(count, _)| *count > 0);
    let counted: Vec<String> = counted.map(|(count, reason)| format!("{count} {reason}")).collect();
    match (counted.is_empty(), differences.is_empty()) {
        (true, false) => "chains".to_owned(),
        _ => counted.join(", "),
    }
}

pub(super) fn refused(run: &Run, capture: &Capture, compared: Box<LiveComparison>) -> String {
    tracing::debug!(target: "iptables", "the rules that differ:\n{}", compared.differences);
    let desired = |pod: &PodContext| ComparedSide::of_capture(capture, Dialect::default(), pod);
    let mut lines = match live::changed_verdicts(run, capture, desired) {
        Ok(comparison) => {
            let line = |change: &Change| painted(&[change.line()], usize::MAX).trim_end().to_owned();
            comparison.shown().0.into_iter().map(line).collect()
        }
        Err(error) => vec![format!("the verdicts can't be compared: {error}")],
    };
    lines.push(format!("also: {}", also(&compared, &capture.owner())));
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("{}{lines}", EngineError::Drift(compared))
}
