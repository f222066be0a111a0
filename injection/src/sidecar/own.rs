//! Our own annotations, `sidecar-init/` and the name of a flag: what they say wins over Istio's, as it does for the plugin.

use super::annotations::Annotations;
use policy::pod::{Pod, annotated};
use policy::settings::ANNOTATIONS;
use policy::sources::{Given, Host, Raw, Source};
use policy::{Problem, Problems, Setting, istio};
use std::collections::BTreeMap;
use std::{
    io,
    net::{IpAddr, Ipv6Addr},
};

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
    if let Err(Problems(problems)) = read.resolve(&SomePod) {
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
    let resolved = istio::resolve(&Raw::of(settings), &SomePod, Vec::new());
    resolved.map(|resolved| resolved.warnings).map_err(|Problems(problems)| problems)
}

/// A pod that has got no address yet, and may get any: what it says is checked, and not what would come of it.
pub(crate) struct SomePod;

impl Host for SomePod {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        // For documentation (RFC 3849). IPv4 is captured in any case.
        Ok(vec![IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))])
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53))])
    }
}
