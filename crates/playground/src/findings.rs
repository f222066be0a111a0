//! Findings with a fix: the new text of a field.

use crate::edit::{AnnotationChange, in_flags, in_manifest};
use crate::fields::{MANIFEST, PageRequest, subjects};
use diagnose::Subject;
use diagnose::finding::FindingReport;
use diagnose::lint::{Edit, Finding};
use mesh::pod;
use mesh::settings;
use mesh::sources::{Raw, Source};
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
