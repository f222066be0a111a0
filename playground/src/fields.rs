//! The fields of the page, and which of them a problem belongs to.

use mesh::settings::{self, Row, Topic};
use mesh::{Problem, Problems};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The words of a call.
    Flags,
    /// A pod's manifest.
    Manifest,
    Packet,
    /// The words of the call before a change.
    FlagsBefore,
    ManifestBefore,
}

/// What is wrong, by the field where it is mended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    pub flags: Vec<String>,
    pub manifest: Vec<String>,
    pub packet: Vec<String>,
    pub flags_before: Vec<String>,
    pub manifest_before: Vec<String>,
}

impl Told {
    /// Adds each problem to its field. `has_manifest` is whether a manifest may be at fault.
    pub(crate) fn extend(&mut self, problems: &Problems, has_manifest: bool) {
        for problem in &problems.0 {
            self.add(field(problem, has_manifest), problem);
        }
    }

    /// Adds a problem whose field is known.
    pub(crate) fn add(&mut self, field: Field, problem: &Problem) {
        let list = match field {
            Field::Flags => &mut self.flags,
            Field::Manifest => &mut self.manifest,
            Field::Packet => &mut self.packet,
            Field::FlagsBefore => &mut self.flags_before,
            Field::ManifestBefore => &mut self.manifest_before,
        };
        let sentence = problem.to_string();
        if !list.contains(&sentence) {
            list.push(sentence);
        }
    }

    /// Adds problems of the configuration before a change.
    pub(crate) fn extend_before(&mut self, problems: &Problems, has_manifest: bool) {
        for problem in &problems.0 {
            let field = match field(problem, has_manifest) {
                Field::Manifest | Field::ManifestBefore => Field::ManifestBefore,
                Field::Flags | Field::Packet | Field::FlagsBefore => Field::FlagsBefore,
            };
            self.add(field, problem);
        }
    }

    /// Whether nothing but the packet is at fault.
    pub(crate) fn is_of_packet_alone(&self) -> bool {
        self.flags.is_empty() && self.manifest.is_empty()
    }
}

/// Whether a setting is about the packet.
pub(crate) fn is_of_packet(row: &Row) -> bool {
    row.topic == Topic::Packet
}

fn field(problem: &Problem, has_manifest: bool) -> Field {
    let is_named =
        |row: &&Row| problem.name == row.option() || row.variables.contains(&problem.name.as_str());
    match settings::all().find(is_named) {
        Some(row) if is_of_packet(row) => Field::Packet,
        Some(_) => Field::Flags,
        None if has_manifest => Field::Manifest,
        None => Field::Flags,
    }
}
