//! Who the proxy is by the rules that are there: the users, the groups or the mark whose traffic they leave alone.

use super::claims::{Claim, claim};
use mesh::Proxy;
use mesh::reason::Meaning;
use mesh::recognition::meant;
use rules::Mark;
use rules::simulate::View;
use std::str::FromStr;

/// What live rules say of the proxy of a mesh: whom they leave alone. Where it listens is not asked.
pub fn proxy(view: &View) -> Proxy {
    let claims: Vec<Claim> = meant(view).iter().filter_map(|meant| claim(view, meant)).collect();
    left_alone(&claims)
}

/// The same by what was claimed.
pub(super) fn left_alone(claims: &[Claim]) -> Proxy {
    let own = claims.iter().filter(|claim| claim.reason.meaning() == Meaning::ProxyOutbound);
    let items: Vec<&String> = own.flat_map(|claim| &claim.items).collect();
    let spared = claims.iter().flat_map(|claim| &claim.spared).flat_map(|spared| &spared.items);
    Proxy {
        uids: all(items.iter().copied(), "user "),
        gids: all(items.iter().copied(), "group "),
        mark: all::<Mark>(spared, "mark ").first().copied(),
        ..Proxy::default()
    }
}

/// What stands behind a noun.
fn all<'a, T: FromStr>(items: impl Iterator<Item = &'a String>, noun: &str) -> Vec<T> {
    items.filter_map(|item| item.strip_prefix(noun)?.parse().ok()).collect()
}
