//! The flags of one mesh for those of another: for advice where one is taken for the other.

use super::{Setting, SettingRow};
use crate::mesh::{Feature, Mesh};

/// Features that do not distinguish flags: how lists are written, and that a direction can be left out.
const COARSE: [Feature; 2] = [Feature::Ranges, Feature::Directions];

/// The flags of `mesh` for a setting of another mesh; none where it has no counterpart.
pub fn counterparts(setting: Setting, mesh: Mesh) -> Vec<String> {
    let mut found = Vec::new();
    for feature in setting.row().features.iter().filter(|feature| !COARSE.contains(feature)) {
        let same = mesh.settings().iter().filter(|row| row.features.contains(feature));
        for option in same.filter(|row| !row.long.is_empty()).map(SettingRow::option) {
            if !found.contains(&option) {
                found.push(option);
            }
        }
    }
    found
}

/// The remark about a flag that only other meshes have, by its name with the dashes; `None` if none has it.
pub(crate) fn foreign(name: &str, mesh: Mesh) -> Option<String> {
    let is_named = |row: &&SettingRow| match name.strip_prefix("--") {
        Some(long) => !row.long.is_empty() && row.long == long,
        None => row.short.is_some_and(|letter| name == format!("-{letter}")),
    };
    let of = |other: &Mesh| Some((*other, other.settings().iter().find(is_named)?.setting));
    let others: Vec<(Mesh, Setting)> =
        Mesh::ALL.iter().filter(|other| **other != mesh).filter_map(of).collect();
    let (first, setting) = others.first()?;
    let names: Vec<&str> = others.iter().map(|(other, _)| other.name()).collect();
    let whose = format!("is a flag of {}", names.join(" and "));
    if mesh == Mesh::default() {
        return Some(format!("{whose}; add --mesh {first}"));
    }
    let same = counterparts(*setting, mesh);
    Some(match same.is_empty() {
        true => format!("{whose}, and {mesh} has nothing like it; drop it, or give --mesh {first}"),
        false => format!("{whose}; for {mesh} use {}", same.join(" or ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_another_mesh_is_known() {
        for (name, mesh, expected) in [
            (
                "-i",
                Mesh::Linkerd,
                "is a flag of istio, and linkerd has nothing like it; drop it, or give --mesh istio",
            ),
            ("-b", Mesh::Linkerd, "is a flag of istio; for linkerd use --ports-to-redirect"),
            (
                "--istio-local-exclude-ports",
                Mesh::Kuma,
                "is a flag of istio; for kuma use --exclude-inbound-ports",
            ),
            ("--inbound-ports-to-ignore", Mesh::Istio, "is a flag of linkerd; add --mesh linkerd"),
            ("--ipv6", Mesh::Istio, "is a flag of linkerd and ambient; add --mesh linkerd"),
        ] {
            assert_eq!(foreign(name, mesh).as_deref(), Some(expected), "{name} for {mesh}");
        }
        assert_eq!(foreign("--nope", Mesh::Istio), None);
        assert_eq!(foreign("--envoy-port", Mesh::Istio), None);
        assert_eq!(foreign("--", Mesh::Kuma), None);
    }
}
