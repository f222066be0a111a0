//! Items of lists that lie in other items.

use super::change::{Change, Removed};
use super::findings::Redundant;
use super::{Code, Finding};
use mesh::Setting;
use rules::nft::Interval;
use std::cmp::Reverse;
use std::fmt::Display;

/// The items that lie in another one, in their order; of equal items, the later. One item that is as wide as any before
/// it is enough to compare with, once the items stand in the order of their starts.
pub(super) fn covered<T: Copy + Display + PartialEq + Into<Removed>>(
    setting: Setting,
    items: &[T],
    interval: fn(&T) -> Interval,
) -> Vec<Redundant> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| {
        let Interval { first, last } = interval(&items[*at]);
        (first, Reverse(last), *at)
    });
    let mut widest: Option<usize> = None;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for at in order {
        match widest {
            Some(wide) if interval(&items[at]).last <= interval(&items[wide]).last => found.push((at, wide)),
            Some(_) | None => widest = Some(at),
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(at, wide)| idle(setting, items[at], items[wide])).collect()
}

fn idle<T: Copy + Display + PartialEq + Into<Removed>>(setting: Setting, item: T, wide: T) -> Redundant {
    let once = item == wide;
    let (text, remedy) = match once {
        true => (format!("lists {item} twice"), format!("list {item} once")),
        false => (format!("lists {item}, which lies in {wide}"), format!("drop {item}")),
    };
    let finding = Finding::warning(Code::CoveredItem, &setting.row().mention(), text, remedy);
    Redundant { finding, change: Change { once, ..Change::without(setting, item) } }
}
