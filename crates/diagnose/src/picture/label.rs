//! The packets of an arrow, in words; long lists are folded to fit.

use crate::packets::count_in;
use std::fmt::Display;

/// So many items of a list are shown at most.
const MAX: usize = 24;

/// Nouns for lists of ports.
pub(crate) const PORTS: (&str, &str) = ("port", "ports");
pub(crate) const TCP_PORTS: (&str, &str) = ("TCP port", "TCP ports");
pub(crate) const TCP_AND_UDP_PORTS: (&str, &str) = ("TCP and UDP port", "TCP and UDP ports");

/// Words, a list, and words after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// Before the noun, with its own space.
    before: String,
    /// The noun of one item, and of several.
    nouns: (&'static str, &'static str),
    /// The first items, as many as may be shown and one more.
    items: Vec<String>,
    /// The number of items; of ports, each one in a range counts.
    count: usize,
    /// Behind the list, with its own space or comma.
    after: String,
}

impl Label {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { before: text.into(), ..Self::default() }
    }

    /// A list whose items are named by `nouns`. Of ports, users and groups each one in a range counts.
    pub(crate) fn list(
        before: &str,
        nouns: (&'static str, &'static str),
        items: impl IntoIterator<Item = impl Display>,
    ) -> Self {
        let mut count = 0;
        let mut shown = Vec::new();
        for item in items {
            let item = item.to_string();
            count += count_in(&item);
            if shown.len() <= MAX {
                shown.push(item);
            }
        }
        Self { before: before.to_owned(), nouns, items: shown, count, after: String::new() }
    }

    pub(crate) fn with(self, after: impl AsRef<str>) -> Self {
        Self { after: self.after + after.as_ref(), ..self }
    }

    /// The words, with as many items as fit.
    pub(crate) fn text(&self, fits: impl Fn(&str) -> bool) -> String {
        let whole = self.whole();
        match whole {
            Some(text) if self.items.len() <= 1 || fits(&text) => text,
            _ => {
                let folded = |shown| self.folded(shown);
                let most = self.items.len().min(MAX) - usize::from(self.items.len() <= MAX);
                (1..=most).rev().map(folded).find(|text| fits(text)).unwrap_or_else(|| folded(0))
            }
        }
    }

    /// With every item, if those are known.
    fn whole(&self) -> Option<String> {
        let Self { before, nouns, items, after, .. } = self;
        // A range of ports or users is plural; interfaces have dashes in their names too.
        let is_range =
            |item: &str| item.contains('-') && item.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let single = items.len() == 1 && !is_range(&items[0]);
        match items.len() {
            0 => Some(format!("{before}{after}")),
            1..=MAX => {
                let noun = if single { nouns.0 } else { nouns.1 };
                Some(format!("{before}{noun} {}{after}", items.join(", ")))
            }
            _ => None,
        }
    }

    fn folded(&self, shown: usize) -> String {
        let Self { before, nouns, items, count, after } = self;
        let count = grouped(*count);
        match shown {
            0 => format!("{before}{count} {}{after}", nouns.1),
            _ => format!("{before}{count} {}: {}, ...{after}", nouns.1, items[..shown].join(", ")),
        }
    }
}

/// The number with a comma before each three digits.
pub(crate) fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u8, width: usize, expected: &str) {
        let networks = (0..count).map(|n| format!("10.{n}.0.0/16"));
        let label = Label::list("to ", ("network", "networks"), networks);
        assert_eq!(label.text(|text| text.len() <= width), expected);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        check(1, 5, "to network 10.0.0.0/16");
        check(3, 60, "to networks 10.0.0.0/16, 10.1.0.0/16, 10.2.0.0/16");
        check(3, 45, "to 3 networks: 10.0.0.0/16, 10.1.0.0/16, ...");
        check(61, 40, "to 61 networks: 10.0.0.0/16, ...");
        check(61, 20, "to 61 networks");
    }

    #[test]
    fn an_interface_with_a_dash_in_its_name_is_one() {
        let label = Label::list("over ", ("interface", "interfaces"), ["br-lan"]);
        assert_eq!(label.text(|_| true), "over interface br-lan");
    }

    #[test]
    fn ranges_are_many_ports() {
        let ports = ["1000-65535", "80"];
        assert_eq!(Label::list("", ("port", "ports"), ports).text(|_| true), "ports 1000-65535, 80");
        assert_eq!(Label::list("", ("port", "ports"), ports).text(|text| text.len() < 15), "64,537 ports");
        assert_eq!(Label::list("", ("port", "ports"), &ports[..1]).text(|_| true), "ports 1000-65535");
    }
}
