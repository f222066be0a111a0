//! The fields of the page, and the field of each problem.

use mesh::settings::{self, SettingRow, Topic};
use mesh::{InputProblem, Problems};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageField {
    /// A command line.
    Flags,
    Manifest,
    Packet,
    /// The command line before a change.
    FlagsBefore,
    ManifestBefore,
}

impl PageField {
    /// The field of the configuration before a change that stands for this one.
    fn before(self) -> Self {
        match self {
            Self::Manifest | Self::ManifestBefore => Self::ManifestBefore,
            Self::Flags | Self::Packet | Self::FlagsBefore => Self::FlagsBefore,
        }
    }
}

/// Problems, by the field in which they are corrected. A field without problems is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FieldProblems(BTreeMap<PageField, Vec<String>>);

impl FieldProblems {
    /// Adds each problem to its field. `has_manifest`: a manifest may be at fault.
    pub(crate) fn extend(&mut self, problems: &Problems, has_manifest: bool) {
        for problem in &problems.0 {
            self.add(field(problem, has_manifest), problem);
        }
    }

    pub(crate) fn add(&mut self, field: PageField, problem: &InputProblem) {
        let list = self.0.entry(field).or_default();
        let sentence = problem.to_string();
        if !list.contains(&sentence) {
            list.push(sentence);
        }
    }

    /// Adds problems of the configuration before a change.
    pub(crate) fn extend_before(&mut self, problems: &Problems, has_manifest: bool) {
        for problem in &problems.0 {
            self.add(field(problem, has_manifest).before(), problem);
        }
    }

    /// The flags and the manifest are without problems, so that rules can be made.
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
