//! Proxy of a mesh, derived from live rules.

use mesh::recognition::{RecognizedRule, field_condition, recognized};
use mesh::{Proxy, reason::Meaning};
use rules::{Gid, Mark, Port, TrafficEffect, Uid, field::Field, simulate::View};

/// Users, groups or mark that live rules exclude, and a tunnel port that a capturing rule excludes.
pub fn live_proxy<'a>(views: impl IntoIterator<Item = &'a View>) -> Proxy {
    one_of(views.into_iter().map(|view| proxy_of(&recognized(view))))
}

/// The first known proxy among several families.
pub(crate) fn one_of(proxies: impl IntoIterator<Item = Proxy>) -> Proxy {
    let first = proxies.into_iter().reduce(|one, other| if one.is_known() { one } else { other });
    first.unwrap_or_default()
}

pub(crate) fn proxy_of(recognized: &[RecognizedRule<'_>]) -> Proxy {
    let mut proxy = Proxy::default();
    for recognized in recognized.iter().filter(|recognized| recognized.is_reached) {
        let Some(meaning) = recognized.meaning() else { continue };
        for condition in recognized.rule.conditions.iter().filter_map(field_condition) {
            let single = condition.values.ranges().iter().filter(|range| range.is_single());
            let ids = single.filter_map(|range| u32::try_from(range.first).ok());
            let is_own = meaning == Meaning::ProxyOutbound && !condition.negated;
            match condition.field {
                Field::Uid if is_own => proxy.uids.extend(ids.filter_map(Uid::new)),
                Field::Gid if is_own => proxy.gids.extend(ids.filter_map(Gid::new)),
                field if condition.negated && meaning.exception(field) == Some(Meaning::TunnelPort) => {
                    let port = ids.filter_map(|port| Port::new(u16::try_from(port).ok()?)).next();
                    proxy.listeners.tunnel = proxy.listeners.tunnel.or(port);
                }
                Field::Mark(mask) if condition.negated && meaning.row().effect == TrafficEffect::Captured => {
                    proxy.mark = proxy.mark.or(ids.map(|value| Mark { value, mask }).next());
                }
                _ => {}
            }
        }
    }
    proxy
}
