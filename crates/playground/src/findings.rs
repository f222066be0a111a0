//! Findings with a fix: a field's new text, without any other change in meaning.

use crate::fields::{MANIFEST, PageRequest, subjects};
use crate::words::{flags, is_program, split_words, variable};
use diagnose::lint::{Edit, Finding};
use diagnose::{Subject, finding::FindingReport};
use mesh::settings::{self, SettingRow};
use mesh::sources::pflag::{self, PflagWord};
use mesh::sources::{Raw, Source};
use mesh::{Mesh, pod, quoted};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct PageFinding {
    #[serde(flatten)]
    pub report: FindingReport,
    pub fix: Option<FieldFix>,
}

#[derive(Clone, Debug, Serialize)]
pub struct FieldFix {
    pub label: String,
    pub field: &'static str,
    pub value: String,
}

/// Maximum characters of a value quoted in a label.
const MAX_VALUE: usize = 30;

pub(crate) fn shown(request: &PageRequest, subject: &Subject, findings: &[Finding]) -> Vec<PageFinding> {
    let shown = |finding: &Finding| PageFinding {
        report: finding.clone().into(),
        fix: match &finding.edit {
            Some(edit) => of_edit(request, subject, edit),
            None => of_annotation(request, finding),
        },
    };
    findings.iter().map(shown).collect()
}

fn of_edit(request: &PageRequest, subject: &Subject, edit: &Edit) -> Option<FieldFix> {
    let mesh = subject.raw.mesh();
    let row = settings::of(mesh).find(|row| row.long == edit.flag)?;
    let source = &subject.raw.get(row.setting)?.source;
    let (field, name, value) = match source {
        Source::Flag(_) | Source::Variable(_) => {
            ("flags", row.short_option(), in_flags(&request.flags, mesh, edit)?)
        }
        Source::Annotation(name) => {
            let change = edit.value.as_deref().map_or(AnnotationChange::Removed, AnnotationChange::Set);
            let value = in_manifest(&request.manifest, name, change)?;
            let is_followed = |after: &Subject| {
                let given = after.raw.get(row.setting).filter(|given| given.source == *source);
                given.map(|given| &given.value) == edit.value.as_ref()
            };
            let after = subjects(&Raw::default(), &value).ok()?;
            after.iter().any(is_followed).then_some(())?;
            ("manifest", name.clone(), value)
        }
        Source::Preset(_)
        | Source::Container { .. }
        | Source::Field(_)
        | Source::Key(_)
        | Source::Default(_) => return None,
    };
    let label = match &edit.value {
        None => format!("Drop {name}"),
        Some(value) if value.len() <= MAX_VALUE => format!("Set {name} to {value}"),
        Some(_) => format!("Shorten {name}"),
    };
    Some(FieldFix { label, field, value })
}

/// Renames a misspelt annotation.
fn of_annotation(request: &PageRequest, remark: &Finding) -> Option<FieldFix> {
    let objects = pod::objects(MANIFEST, &request.manifest).ok()?;
    let names = objects.iter().flat_map(|object| object.pod.annotations.keys());
    let name = names.into_iter().find(|name| pod::unknown(name).as_ref() == Some(&remark.text))?;
    let intended = pod::nearest_annotation(name)?;
    let value = in_manifest(&request.manifest, name, AnnotationChange::Renamed(&intended))?;
    Some(FieldFix { label: format!("Rename to {intended}"), field: "manifest", value })
}

/// Flags after a change; `None` if no flag or variable sets the setting, or its word cannot be replaced.
fn in_flags(text: &str, mesh: Mesh, Edit { flag, value }: &Edit) -> Option<String> {
    let row = settings::of(mesh).find(|row| row.long == *flag)?;
    let words = split_words(text)?;
    let start = words.iter().position(|word| is_program(word)).map_or(0, |program| program + 1);
    let (before, call) = words.split_at(start);
    let flags = flags(mesh);
    let mut edited: Vec<String> = before.to_vec();
    // The new value replaces the first flag of the setting; the others are removed.
    let mut new = value.as_ref();
    let mut found = false;
    let mut call = call.iter();
    let is_it = |flag: &SettingRow| flag.setting == row.setting;
    while let Some(word) = call.next() {
        match pflag::word(word, &flags) {
            PflagWord::Flags(given, waiting)
                if given.iter().any(|(flag, _)| is_it(flag)) || waiting.is_some_and(is_it) =>
            {
                if given.len() + usize::from(waiting.is_some()) > 1 {
                    return None;
                }
                let flag = match waiting.map(|_| call.next()) {
                    Some(_) => word.clone(),
                    None => row.option(),
                };
                edited.extend(new.take().map(|value| [flag, value.clone()]).into_iter().flatten());
                found = true;
            }
            PflagWord::Flags(_, Some(_)) => {
                edited.extend([Some(word), call.next()].into_iter().flatten().cloned());
            }
            PflagWord::End | PflagWord::Flags(_, None) | PflagWord::Unknown { .. } | PflagWord::Bare => {
                edited.push(word.clone());
            }
        }
    }
    let sets = |word: &String, name: &str| variable(word).is_some_and(|(given, _)| given == name);
    match value {
        // Without the flag, a variable would take effect.
        None => {
            let count = edited.len();
            edited.retain(|word| !row.variables.iter().any(|name| sets(word, name)));
            if !found && edited.len() == count {
                return None;
            }
        }
        // The setting's first variable wins; of the words that set it, the last.
        Some(value) if !found => {
            let last = |name: &str| edited.iter().rposition(|word| sets(word, name));
            let (name, at) = row.variables.iter().find_map(|name| Some((name, last(name)?)))?;
            edited[at] = format!("{name}={value}");
        }
        Some(_) => {}
    }
    Some(joined(&edited))
}

pub(crate) fn joined(words: &[String]) -> String {
    let is_name = |name: &str| !name.is_empty() && quoted(name) == name;
    let each = words.iter().map(|word| match word.split_once('=') {
        // Before the `=`, a variable's name must not be quoted and a flag's need not be.
        Some((name, value)) if is_name(name) => format!("{name}={}", quoted(value)),
        Some(_) | None => quoted(word),
    });
    each.collect::<Vec<String>>().join(" ")
}

#[derive(Clone, Copy)]
enum AnnotationChange<'a> {
    Renamed(&'a str),
    Set(&'a str),
    Removed,
}

/// Manifest after an annotation change; `None` unless exactly one line starts with its name and holds its whole value.
fn in_manifest(text: &str, name: &str, change: AnnotationChange<'_>) -> Option<String> {
    let keys = [format!("{name}:"), format!("\"{name}\":"), format!("'{name}':")];
    let value_of = |line: &str| {
        let line = line.trim_start();
        keys.iter().find_map(|key| line.strip_prefix(key.as_str())).map(|value| value.trim().to_owned())
    };
    let mut found = text.split_inclusive('\n').filter_map(|line| Some((line, value_of(line)?)));
    let (line, value) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let is_one_line = !value.is_empty() && !value.starts_with(['|', '>', '&', '*', '{', '[']);
    let (value, comma) = value.strip_suffix(',').map_or((value.as_str(), ""), |value| (value, ","));
    let new = match change {
        AnnotationChange::Renamed(other) => line.replacen(name, other, 1),
        AnnotationChange::Set(new) if is_one_line && !value.contains(" #") => {
            let at = line.rfind(value)?;
            let end = line.len() - line.trim_end().len();
            format!("{}{}{comma}{}", &line[..at], serde_json::to_string(new).ok()?, &line[line.len() - end..])
        }
        AnnotationChange::Removed
            if is_one_line && comma.is_empty() && !text.trim_start().starts_with('{') =>
        {
            String::new()
        }
        AnnotationChange::Set(_) | AnnotationChange::Removed => return None,
    };
    let lines = text.split_inclusive('\n').map(|line| if value_of(line).is_some() { &*new } else { line });
    Some(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::Setting;

    #[test]
    fn flags_keep_their_other_words() {
        let edit = |value: Option<&str>| Edit {
            flag: Setting::InboundPortsExclude.row().long,
            value: value.map(str::to_owned),
        };
        for (text, value, expected) in [
            ("-b '*' -d 1,1 -i '*'", Some("1"), Some("-b '*' -d 1 -i '*'")),
            (
                "-b '*' --istio-local-exclude-ports=1,1",
                Some("1"),
                Some("-b '*' --istio-local-exclude-ports 1"),
            ),
            ("--dual-stack=true --to='a b' -d 1", None, Some("--dual-stack=true --to='a b'")),
            ("-d 1 -b '*' -d 2", Some("1,2"), Some("-d 1,2 -b '*'")),
            ("-d 1 -b '*'", None, Some("-b '*'")),
            ("sudo docker run -d istio-iptables \\\n -d 1", None, Some("sudo docker run -d istio-iptables")),
            (
                "ISTIO_LOCAL_EXCLUDE_PORTS='1 ,1' sidecar-init -b 8",
                Some("1"),
                Some("ISTIO_LOCAL_EXCLUDE_PORTS=1 sidecar-init -b 8"),
            ),
            ("ISTIO_LOCAL_EXCLUDE_PORTS=1 sidecar-init -d 2 -b 8", None, Some("sidecar-init -b 8")),
            ("-b 8", None, None),
            ("-d '1", None, None),
        ] {
            assert_eq!(in_flags(text, Mesh::default(), &edit(value)).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_manifest_keeps_its_other_lines() {
        use AnnotationChange::{Removed, Renamed, Set};
        let manifest = |line: &str| format!("metadata:\n  annotations:\n{line}spec: {{}} # a.b/ports\n");
        for (line, change, expected) in [
            ("    a.b/ports: \"1,1\"\n", Set("1"), Some("    a.b/ports: \"1\"\n")),
            ("    'a.b/ports': 1\r\n", Set("2"), Some("    'a.b/ports': \"2\"\r\n")),
            ("    a.b/ports: x\n", Renamed("a.b/excludePorts"), Some("    a.b/excludePorts: x\n")),
            ("    a.b/ports: x\n", Removed, Some("")),
            (
                "#    a.b/ports: 1\n    a.b/ports: 1\n",
                Set("2"),
                Some("#    a.b/ports: 1\n    a.b/ports: \"2\"\n"),
            ),
            ("    a.b/ports: |\n      1\n", Set("2"), None),
            ("    a.b/ports: 1 # one\n", Set("2"), None),
            ("    a.b/ports: 1\n    a.b/ports: 2\n", Removed, None),
            ("", Removed, None),
        ] {
            let edited = in_manifest(&manifest(line), "a.b/ports", change);
            assert_eq!(edited, expected.map(manifest), "{line}");
        }
    }
}
