//! All rules that a packet meets in a namespace, of any program.

use crate::backend::{self, Kernel, Variant};
use rules::simulate::View;
use rules::{Family, Listing};

/// The rules of a family: both variants of iptables and every table of nf_tables, in one view.
pub fn live(kernel: &mut Kernel, family: Family) -> Result<View, backend::Error> {
    live_parts(kernel, family).map(|(view, _)| view)
}

/// As [`live`], with whether any of it is of iptables (legacy).
pub(super) fn live_parts(kernel: &mut Kernel, family: Family) -> Result<(View, bool), backend::Error> {
    let mut view = View::empty(family);
    let says_anything = |listing: &Listing| listing.holds_rules() || listing.drops();
    let legacy = kernel.legacy_listing(family)?.filter(says_anything);
    let (of_iptables, tables) = kernel.nftables_listing(family)?;
    if let Some(listing) = of_iptables {
        let label = legacy.is_some().then(|| Variant::Nft.to_string());
        view.add_listing(listing, label.as_deref());
    }
    let has_legacy = legacy.is_some();
    if let Some(listing) = legacy {
        let label = (!view.chains().is_empty()).then(|| Variant::Legacy.to_string());
        view.add_listing(listing, label.as_deref());
    }
    for table in tables {
        view.add_nftables(table);
    }
    Ok((view, has_legacy))
}
