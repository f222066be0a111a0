//! Comparison of two configurations: packets whose verdict changes.

use crate::fields::{PageField, PageRequest, prepare, subjects};
use crate::words::FieldSettings;
use diagnose::compare::{self, Change, ComparedSide};
use diagnose::{Prepared, Subject, explain::written, subject::each};
use mesh::Problems;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct PodChanges {
    pub title: Option<String>,
    pub changes: Vec<VerdictChange>,
    pub notes: Vec<String>,
}

/// Packets whose verdict changes in the same way.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictChange {
    #[serde(flatten)]
    pub change: Change,
    pub ask: Option<String>,
}

/// Compares each pod with its earlier namesake, single pods regardless of names. Empty without an earlier configuration.
pub(crate) fn compared(
    request: &PageRequest,
    after: &[(&Subject, &Prepared)],
) -> Result<Vec<PodChanges>, Problems> {
    let PageRequest { flags_before, manifest_before, .. } = request;
    let has_manifest = !manifest_before.trim().is_empty();
    if flags_before.trim().is_empty() && !has_manifest {
        return Ok(Vec::new());
    }
    let input = FieldSettings::read(&[(PageField::FlagsBefore, flags_before)]);
    if !input.problems.is_empty() {
        return Err(Problems(input.problems.into_iter().map(|(_, problem)| problem).collect()));
    }
    let raw = input.raw(has_manifest);
    let before = subjects(&raw, manifest_before)?;
    let prepared = each(&before, |subject| prepare(subject, false))?;
    let before: Vec<_> = before.iter().zip(&prepared).collect();
    if let ([before], [after]) = (&before[..], after) {
        return Ok(vec![pair(None, *before, *after)]);
    }
    let alone = |subject: &Subject, note: &str| PodChanges {
        title: subject.title.clone(),
        changes: Vec::new(),
        notes: vec![note.to_owned()],
    };
    let named = |all: &[(&'_ Subject, &'_ Prepared)], title: &Option<String>| {
        all.iter().position(|(subject, _)| subject.title == *title)
    };
    let of_after = after.iter().map(|(subject, prepared)| match named(&before, &subject.title) {
        Some(at) => pair(subject.title.clone(), before[at], (subject, prepared)),
        None => alone(subject, "it is not in the earlier configuration"),
    });
    let gone = before.iter().filter(|(subject, _)| named(after, &subject.title).is_none());
    let gone = gone.map(|(subject, _)| alone(subject, "it is only in the earlier configuration"));
    Ok(of_after.chain(gone).collect())
}

fn pair(title: Option<String>, before: (&Subject, &Prepared), after: (&Subject, &Prepared)) -> PodChanges {
    let pod = compare::pod(&[before.1.pod.clone(), after.1.pod.clone()]);
    let side = |(subject, prepared): (&Subject, &Prepared)| {
        ComparedSide::of_subject(subject, &prepared.capture, &pod)
    };
    let comparison = compare::compare(&side(before), &side(after), &pod);
    let (shown, omitted) = comparison.shown();
    let mut notes: Vec<String> = omitted.into_iter().collect();
    if !comparison.complete {
        notes.push("too many rules to compare all packets: some changes may be missing".to_owned());
    }
    let changed = |change: &Change| {
        let source_matters = change.packets.sources.is_some() || change.packets.source_ports.is_some();
        let ask = change.packet.as_ref().and_then(|packet| written(packet, &after.1.pod, source_matters));
        VerdictChange { change: change.clone(), ask }
    };
    PodChanges { title, changes: shown.into_iter().map(changed).collect(), notes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer;
    use diagnose::explain::VerdictKind;

    fn of(before: (&str, &str), after: (&str, &str)) -> crate::PageAnswer {
        let [flags_before, manifest_before, flags, manifest] =
            [before.0, before.1, after.0, after.1].map(str::to_owned);
        answer(&PageRequest { flags, manifest, flags_before, manifest_before, packet: String::new() })
    }

    #[test]
    fn changed_verdicts_offer_a_packet() {
        let answer = of(("-b '*' -d 15090", ""), ("-b '*' -d 15090,5432", ""));
        let [PodChanges { changes, notes, .. }] = &answer.compared[..] else { panic!("{answer:?}") };
        let [VerdictChange { change, ask }] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(
            (change.before.verdict, change.after.verdict, &**notes),
            (VerdictKind::Captured, VerdictKind::NotCaptured, &[][..])
        );
        assert!(change.text.contains("5432"), "{change:?}");
        assert_eq!(ask.as_deref(), Some("5432"));
        let within = of(("-b '*'", ""), ("-m TPROXY -b '*'", ""));
        assert!(within.compared[0].changes.iter().all(|change| change.ask.is_some()), "{within:?}");
        let same = of(("-b '*'", ""), ("-b '*'", ""));
        assert!(same.compared[0].changes.is_empty());
        assert!(of(("", ""), ("-b '*'", "")).compared.is_empty(), "no earlier configuration");
    }

    #[test]
    fn pods_are_compared_by_name() {
        let pods = |names: [&str; 2]| {
            names
                .map(|name| {
                    format!("kind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: web}}]}}\n")
                })
                .join("---\n")
        };
        let answer = of(("", &pods(["a", "b"])), ("", &pods(["b", "c"])));
        let seen: Vec<_> = answer
            .compared
            .iter()
            .map(|one| (one.title.clone().unwrap_or_default(), one.notes.len()))
            .collect();
        let expected =
            [("Pod b", 0), ("Pod c", 1), ("Pod a", 1)].map(|(name, notes)| (name.to_owned(), notes));
        assert_eq!(seen, expected);
    }

    #[test]
    fn problems_before_have_separate_fields() {
        let answer = of(("-b x --nope", ""), ("-b 80", ""));
        assert!(
            !answer.problems.of(PageField::FlagsBefore).is_empty()
                && answer.problems.of(PageField::Flags).is_empty()
        );
        assert!(answer.parts.is_some(), "the valid configuration is shown");
        let answer = of(("", "kind: ["), ("-b 80", ""));
        assert_eq!(answer.problems.of(PageField::ManifestBefore).len(), 1);
    }
}
