//! Limits of the mesh's own rules that packets of the configuration can run into.

use super::Finding;
use super::comparison::Comparison;
use rules::shadow::Work;

/// Rules met by packets, in all. Long lists bring more of the same, so nobody misses what is not found.
const MOST_WORK: usize = 4_000_000;

/// A note for each, about all that the rules with the limit are about.
pub(super) fn limits(comparison: &Comparison<'_>) -> Vec<Finding> {
    let met = comparison.limits_met(Work::new(MOST_WORK));
    met.into_iter()
        .map(|(limit, about)| {
            let (text, remedy) = limit.told(&about.join(" and "));
            let setting = limit.reason.settings().first();
            let option = setting.map_or_else(|| "all options".to_owned(), |setting| setting.row().mention());
            Finding::note(limit.code, &option, text, remedy)
        })
        .collect()
}
