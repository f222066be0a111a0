//! Families as programs read them.

use rules::Family;

/// The family, as data has it.
pub fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}
