//! A user that rules or lists do not name, so that a packet of that user shows what becomes of all others'.

use rules::Uid;

/// The first user of applications, by the convention of Linux distributions.
const FIRST: u32 = 1000;

/// The smallest number from 1000 that is not named, a smaller one where all of those are, and 1000 where all are. A range may
/// name nearly every user, so only the successors of `last_named`, the last numbers of all ranges, are tried.
pub(crate) fn unnamed_user(last_named: impl Iterator<Item = u32>, is_named: impl Fn(Uid) -> bool) -> Uid {
    let candidates = last_named.map(|number| number.saturating_add(1)).chain([0, FIRST]);
    let free = candidates.filter_map(Uid::new).filter(|uid| !is_named(*uid));
    let unnamed = free.min_by_key(|uid| (uid.number() < FIRST, *uid));
    unnamed.or_else(|| Uid::new(FIRST)).expect("1000 is an id")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::UidRange;

    #[test]
    fn an_unnamed_user_is_found_at_once_whatever_is_named() {
        let unnamed = |ranges: &[&str]| {
            let ranges: Vec<UidRange> = ranges.iter().map(|text| text.parse().expect("a range")).collect();
            let last = ranges.iter().map(|range| range.last().number());
            unnamed_user(last, |uid| ranges.iter().any(|range| range.contains(uid))).number()
        };
        assert_eq!(unnamed(&[]), 1000);
        assert_eq!(unnamed(&["1000", "1001-1005", "1007"]), 1006);
        assert_eq!(unnamed(&["1000-4294967294"]), 0);
        assert_eq!(unnamed(&["0-5", "1000-4294967294"]), 6);
        assert_eq!(unnamed(&["0-4294967294"]), 1000);
    }
}
