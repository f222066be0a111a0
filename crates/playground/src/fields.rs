//! The page's fields: the request, its configurations, and the field of each problem.

use diagnose::{Prepared, Subject, explain::ApplicationUser};
use mesh::settings::{self, SettingRow, Topic};
use mesh::sources::{Raw, RemoteHost};
use mesh::{InputProblem, Problems};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) const MANIFEST: &str = "manifest";

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PageRequest {
    pub flags: String,
    pub manifest: String,
    pub packet: String,
    #[serde(default)]
    pub flags_before: String,
    #[serde(default)]
    pub manifest_before: String,
}

/// Resolves the configuration of a subject and, if `asks`, the packet of its first user.
pub(crate) fn prepare(subject: &Subject, asks: bool) -> Result<Prepared, Problems> {
    Prepared::of(subject, ApplicationUser::all(subject.applications()).first(), asks)
}

/// Pods of a manifest; if it is empty, the flags' configuration.
pub(crate) fn subjects(raw: &Raw, manifest: &str) -> Result<Vec<Subject>, Problems> {
    match manifest.trim().is_empty() {
        true => Ok(vec![Subject::of_flags(raw.clone(), Vec::new(), RemoteHost::host)]),
        false => Subject::of_manifest(raw, &[], MANIFEST, manifest, RemoteHost::host),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageField {
    Flags,
    Manifest,
    Packet,
    FlagsBefore,
    ManifestBefore,
}

impl PageField {
    /// The corresponding field of the earlier configuration.
    fn before(self) -> Self {
        match self {
            Self::Manifest | Self::ManifestBefore => Self::ManifestBefore,
            Self::Flags | Self::Packet | Self::FlagsBefore => Self::FlagsBefore,
        }
    }
}

/// Problems by the field to correct; fields without problems are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FieldProblems(BTreeMap<PageField, Vec<String>>);

impl FieldProblems {
    /// Adds each problem to its field, mapped by `before` if `is_before`. `has_manifest`: the manifest may be the cause.
    pub(crate) fn extend(&mut self, problems: &Problems, has_manifest: bool, is_before: bool) {
        for problem in &problems.0 {
            let field = field(problem, has_manifest);
            self.add(if is_before { field.before() } else { field }, problem);
        }
    }

    pub(crate) fn add(&mut self, field: PageField, problem: &InputProblem) {
        let list = self.0.entry(field).or_default();
        let sentence = problem.to_string();
        if !list.contains(&sentence) {
            list.push(sentence);
        }
    }

    /// True if the flags and the manifest have no problems, so rules can be rendered.
    pub(crate) fn has_valid_settings(&self) -> bool {
        self.of(PageField::Flags).is_empty() && self.of(PageField::Manifest).is_empty()
    }

    pub(crate) fn of(&self, field: PageField) -> &[String] {
        self.0.get(&field).map(Vec::as_slice).unwrap_or_default()
    }
}

pub(crate) fn is_of_packet(row: &SettingRow) -> bool {
    row.topic == Topic::Packet
}

fn field(problem: &InputProblem, has_manifest: bool) -> PageField {
    let is_named =
        |row: &&SettingRow| problem.name == row.option() || row.variables.contains(&problem.name.as_str());
    match settings::all().find(is_named) {
        Some(row) if is_of_packet(row) => PageField::Packet,
        Some(_) => PageField::Flags,
        None if has_manifest => PageField::Manifest,
        None => PageField::Flags,
    }
}
