//! Families as programs read them.

use rules::Family;

pub(super) fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}
