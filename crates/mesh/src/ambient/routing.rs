//! What the rules need beside themselves: ztunnel calls the application from the client's address, so the answer is
//! addressed to another machine. Marked, it finds its way to ztunnel's socket by a table that delivers everything locally.

use super::config::CaptureConfig;
use super::defaults::{CONNECTION_MARK, PREFERENCE, TABLE};
use rules::{Family, routing::Object};
use std::collections::BTreeSet;

/// A policy rule and a route for each family, in ingress mode too: there ztunnel still brings what came by its tunnel.
pub(super) fn objects(config: &CaptureConfig) -> BTreeSet<Object> {
    let each = Family::captured(config.ipv6).flat_map(|family| {
        let preference = Some(PREFERENCE);
        [
            Object::Route { family, table: TABLE },
            Object::Rule { family, mark: CONNECTION_MARK, table: TABLE, preference },
        ]
    });
    each.collect()
}
