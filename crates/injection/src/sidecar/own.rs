//! Annotations `sidecar-init/` and the name of a flag: they win over Istio's, as they do for the plugin.

use super::annotations::Annotations;
use crate::mesh_config::list::excess;
use mesh::pod::{Pod, annotated};
use mesh::settings::ANNOTATIONS;
use mesh::sources::{Given, Raw, RemoteHost, Source};
use mesh::{InputProblem, Problems, Setting};
use std::collections::BTreeMap;

/// Settings by such annotations, read by the policy as the plugin does.
pub(super) fn settings(
    annotations: &Annotations<'_>,
) -> Result<BTreeMap<Setting, String>, Vec<InputProblem>> {
    let ours = annotations.iter().filter(|(name, _)| name.starts_with(ANNOTATIONS));
    let ours: BTreeMap<String, String> =
        ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let excesses = ours.iter().filter_map(|(name, value)| Some(InputProblem::of(name, excess(value)?)));
    let excesses: Vec<InputProblem> = excesses.collect();
    if ours.is_empty() || !excesses.is_empty() {
        return if excesses.is_empty() { Ok(BTreeMap::new()) } else { Err(excesses) };
    }
    let read = annotated(&Pod::annotated("", "", ours), "", &Raw::default());
    read.resolve(&RemoteHost::Open).map_err(|Problems(problems)| problems)?;
    let is_own =
        |source: &Source| matches!(source, Source::Annotation(name) if name.starts_with(ANNOTATIONS));
    let own = read.raw.iter().filter(|(_, given)| is_own(&given.source));
    Ok(own.map(|(setting, given)| (setting, bare(&given.value))).collect())
}

/// A value without spaces around its items: arguments are also printed as one line.
fn bare(value: &str) -> String {
    value.split(',').map(|item| item.trim_matches([' ', '\t'])).collect::<Vec<_>>().join(",")
}

/// Checks the settings as a whole, as the init container and the plugin do: valid annotations may contradict each other. Returns
/// warnings.
pub(super) fn check(settings: Vec<(Setting, Given)>) -> Result<Vec<String>, Vec<InputProblem>> {
    let resolved = mesh::resolve(&Raw::of(settings), &RemoteHost::Open, Vec::new());
    resolved.map(|resolved| resolved.warnings).map_err(|Problems(problems)| problems)
}
