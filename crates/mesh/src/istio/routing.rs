//! Routing for the rules: a policy rule and route for TPROXY, an address for the proxy.

use super::config::{CaptureConfig, Interception};
use super::defaults::PASSTHROUGH_V6;
use rules::routing::Object;
use std::collections::BTreeSet;

/// Only for a configuration that captures anything.
pub(super) fn objects(config: &CaptureConfig) -> BTreeSet<Object> {
    let mut objects = BTreeSet::new();
    // Transparent packets are addressed to others than this machine: marked, they go to a table whose only route delivers
    // everything locally.
    if let Interception::Tproxy { mark, table } = config.interception
        && config.captures_inbound()
    {
        let table = table.number();
        for family in config.families() {
            let rule = Object::Rule { family, mark, table, preference: None };
            objects.extend([rule, Object::Route { family, table }]);
        }
    }
    // The proxy calls the application over IPv6 from this address, which `lo` has to carry. IPv4 needs nothing: all of
    // 127.0.0.0/8 is there.
    if config.ipv6 {
        objects.insert(Object::Address(PASSTHROUGH_V6));
    }
    objects
}
