//! Limits of the mesh's own rules that packets of the configuration can run into.

use super::Finding;
use super::comparison::Comparison;
use rules::shadow::Work;

/// Rules met by packets, in all. Long lists bring more of the same, so that what is not found is not missed.
const MAX_WORK: usize = 4_000_000;

/// A note for each, about all that the rules with the limit are about.
pub(super) fn limits(comparison: &Comparison<'_>) -> Vec<Finding> {
    let met = comparison.limits_reached(Work::new(MAX_WORK));
    met.into_iter()
        .map(|(limit, about)| {
            let (text, remedy) = limit.about_items(&about.join(" and "));
            let setting = limit.reason.settings().first();
            let option = setting.map_or_else(|| "all options".to_owned(), |setting| setting.row().mention());
            Finding::note(limit.code, &option, text, remedy)
        })
        .collect()
}
