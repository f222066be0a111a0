//! Items of lists that lie in other items.

use super::change::{AdvisedChange, Redundant};
use super::{Code, Finding};
use mesh::ListItem;
use mesh::Setting;
use rules::nft::{Field, Interval};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Items of one list that select packets by one field, each with its values.
type ItemIntervals<'a> = Vec<(&'a ListItem, Interval)>;

/// Networks and ports that lie in others of the same list.
pub(super) fn overlaps(lists: &[ListItem]) -> Vec<Redundant> {
    let mut of_fields: BTreeMap<(Setting, Field), ItemIntervals<'_>> = BTreeMap::new();
    for listed in lists {
        let condition = listed.selector.condition();
        let is_compared = condition.field.is_port() || condition.field.family().is_some();
        if let Some(values) = condition.values.single().filter(|_| is_compared) {
            of_fields.entry((listed.setting, condition.field)).or_default().push((listed, values));
        }
    }
    of_fields.values().flat_map(|items| covered(items)).collect()
}

/// The items that lie in another one, in their order; of equal items, the later. One item that is as wide as any before
/// it is enough to compare with, once the items are in the order of their starts.
fn covered(items: &[(&ListItem, Interval)]) -> Vec<Redundant> {
    let values = |at: usize| items[at].1;
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| (values(*at).first, Reverse(values(*at).last), *at));
    let mut widest: Option<usize> = None;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for at in order {
        match widest {
            Some(wide) if values(at).last <= values(wide).last => found.push((at, wide)),
            Some(_) | None => widest = Some(at),
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(at, wide)| redundant(items[at].0, items[wide].0)).collect()
}

fn redundant(listed: &ListItem, wide: &ListItem) -> Redundant {
    let (item, once) = (&listed.selector, listed == wide);
    let (text, remedy) = match once {
        true => (format!("lists {item} twice"), format!("list {item} once")),
        false => (format!("lists {item}, which lies in {}", wide.selector), format!("drop {item}")),
    };
    let finding = Finding::warning(Code::CoveredItem, &listed.setting.row().mention(), text, remedy);
    Redundant { finding, change: AdvisedChange { once, ..AdvisedChange::without(listed) } }
}
