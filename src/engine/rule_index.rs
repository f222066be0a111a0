//! All rules of a packet's path in a namespace, and a look-up of a traced packet's rule by its handle.

use crate::backend::{self, Kernel, Variant};
use crate::sys::header::*;
use rules::simulate::{At, View};
use rules::{ByFamily, Family, Listing, nft::family_number};
use std::collections::BTreeMap;

const TRIES: u32 = 5;

#[derive(Debug)]
pub struct RuleIndex {
    views: ByFamily<View>,
    generation: u32,
    places: ByFamily<ChainHandles>,
    /// True if rules of iptables (legacy) exist: nf_tables does not trace packets there.
    pub has_legacy: bool,
    /// Includes iptables (nft) rules.
    pub has_nf_tables: bool,
}

/// Chains of a family's view by their location in the kernel, with their rules' handles in order.
type ChainHandles = BTreeMap<(u8, String, String), (usize, Vec<u64>)>;

impl RuleIndex {
    /// Reads the rules of all programs. `named` adds the rules' reasons.
    pub fn read(kernel: &mut Kernel, named: fn(View) -> View) -> Result<Self, backend::Error> {
        let mut tries = TRIES;
        loop {
            let (generation, mut handles) = kernel.handles()?;
            let (v4, legacy_v4) = live_parts(kernel, Family::V4)?;
            let (v6, legacy_v6) = live_parts(kernel, Family::V6)?;
            tries -= 1;
            if tries > 0 && kernel.handles()?.0 != generation {
                continue;
            }
            handles.retain(|(_, table, _), _| table != backend::nftables::tracing::TABLE);
            let place = |view: &View| places(view, &handles);
            return Ok(Self {
                generation,
                places: ByFamily { v4: place(&v4), v6: place(&v6) },
                views: ByFamily { v4: named(v4), v6: named(v6) },
                has_legacy: legacy_v4 || legacy_v6,
                has_nf_tables: !handles.is_empty(),
            });
        }
    }

    pub fn is_old(&self, kernel: &mut Kernel) -> Result<bool, backend::Error> {
        Ok(kernel.handles()?.0 != self.generation)
    }

    pub fn view(&self, family: Family) -> &View {
        self.views.get(family)
    }

    pub fn chain(&self, of: Family, family: u8, table: &str, chain: &str) -> Option<usize> {
        Some(self.place(of, family, table, chain)?.0)
    }

    pub fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At> {
        let (chain, handles) = self.place(of, family, table, chain)?;
        Some(At { chain: *chain, rule: handles.iter().position(|known| *known == handle)? })
    }

    fn place(&self, of: Family, family: u8, table: &str, chain: &str) -> Option<&(usize, Vec<u64>)> {
        self.places.get(of).get(&(family, table.to_owned(), chain.to_owned()))
    }
}

fn places(view: &View, handles: &backend::nftables::RuleHandles) -> ChainHandles {
    let mut places = ChainHandles::new();
    for (index, chain) in view.chains().iter().enumerate() {
        let Some((family, table)) = in_kernel(&chain.table, view.family()) else { continue };
        let key = (family, table.to_owned(), chain.chain.clone());
        let numbers = handles.get(&key).cloned().unwrap_or_default();
        // A listing shows the rules in the kernel's order. A `netdev` chain may have an additional last rule for the policy DROP.
        let most = numbers.len() + usize::from(family == NFPROTO_NETDEV);
        if (numbers.len()..=most).contains(&chain.rules.len()) {
            places.insert(key, (index, numbers));
        }
    }
    places
}

/// Family and name of a table with this title in a view; `None` for tables of iptables (legacy).
fn in_kernel(title: &str, of: Family) -> Option<(u8, &str)> {
    match title.split_once(' ') {
        None => Some((family_number(of), title)),
        Some(("inet", name)) => Some((NFPROTO_INET, name)),
        Some(("ip", name)) => Some((NFPROTO_IPV4, name)),
        Some(("ip6", name)) => Some((NFPROTO_IPV6, name)),
        Some(("netdev", name)) => Some((NFPROTO_NETDEV, name)),
        Some((name, label)) => (label == format!("({})", Variant::Nft)).then_some((family_number(of), name)),
    }
}

/// A family's rules: both iptables variants and every nf_tables table, in one view.
pub fn live(kernel: &mut Kernel, family: Family) -> Result<View, backend::Error> {
    live_parts(kernel, family).map(|(view, _)| view)
}

/// Like [`live`], and true if some rules are from iptables (legacy).
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
