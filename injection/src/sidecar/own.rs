//! Our own annotations, `sidecar-init/` and the name of a flag: what they say wins over Istio's, as it does for the plugin.

use super::annotations::Annotations;
use policy::pod::{Pod, annotated};
use policy::settings::ANNOTATIONS;
use policy::sources::{Given, Raw, Source};
use policy::subject::Elsewhere;
use policy::{Problem, Problems, Setting, mesh};
use std::collections::BTreeMap;

/// Settings by our own annotations, understood by the policy as a plugin would.
///
/// # Errors
/// Every problem with them.
pub(super) fn settings(said: &Annotations<'_>) -> Result<BTreeMap<Setting, String>, Vec<Problem>> {
    let ours = said.iter().filter(|(name, _)| name.starts_with(ANNOTATIONS));
    let ours: BTreeMap<String, String> =
        ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if ours.is_empty() {
        return Ok(BTreeMap::new());
    }
    let title = "";
    let read = annotated(&Pod::annotated("", "", ours), title, &Raw::default());
    if let Err(Problems(problems)) = read.resolve(&Elsewhere::Open) {
        let untitled =
            |problem: Problem| Problem { name: problem.name.trim_start_matches(": ").to_owned(), ..problem };
        return Err(problems.into_iter().map(untitled).collect());
    }
    let is_own =
        |source: &Source| matches!(source, Source::Annotation(name) if name.starts_with(ANNOTATIONS));
    let own = read.raw.iter().filter(|(_, given)| is_own(&given.source));
    Ok(own.map(|(setting, given)| (setting, bare(&given.value))).collect())
}

/// A value without the spaces around its items: arguments are told on as text, too.
fn bare(value: &str) -> String {
    value.split(',').map(|item| item.trim_matches([' ', '\t'])).collect::<Vec<_>>().join(",")
}

/// What the init container or a plugin would say of the settings as a whole: what each annotation may say alone may not go
/// together. Ends with warnings.
///
/// # Errors
/// Every problem.
pub(super) fn check(settings: Vec<(Setting, Given)>) -> Result<Vec<String>, Vec<Problem>> {
    let resolved = mesh::resolve(&Raw::of(settings), &Elsewhere::Open, Vec::new());
    resolved.map(|resolved| resolved.warnings).map_err(|Problems(problems)| problems)
}
