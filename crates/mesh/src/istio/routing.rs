//! What the rules need beside themselves: a policy rule and route for TPROXY, an address for the proxy.

use super::config::{CaptureConfig, Interception, RouteTable};
use super::defaults::PASSTHROUGH_V6;
use rules::{Family, Mark, routing::Object};
use std::collections::BTreeSet;

/// A policy rule that sends marked packets to a table whose only route delivers everything locally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyRoute {
    pub mark: Mark,
    pub table: RouteTable,
}

/// Routing that the rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IstioRouting {
    /// For transparent packets, which are addressed to others than this machine.
    pub transparent: Option<PolicyRoute>,
    /// Whether the route is needed for IPv6 too.
    pub transparent_ipv6: bool,
    /// Whether `lo` carries `::6`, from which the proxy calls the application over IPv6. IPv4 needs
    /// nothing: all of 127.0.0.0/8 is there.
    pub passthrough_ipv6: bool,
}

impl IstioRouting {
    /// The policy rules, routes and addresses.
    pub fn objects(&self) -> BTreeSet<Object> {
        let mut objects = BTreeSet::new();
        if let Some(PolicyRoute { mark, table }) = self.transparent {
            let v6 = self.transparent_ipv6.then_some(Family::V6);
            for family in [Some(Family::V4), v6].into_iter().flatten() {
                let table = table.number();
                let rule = Object::Rule { family, mark, table, preference: None };
                objects.extend([rule, Object::Route { family, table }]);
            }
        }
        objects.extend(self.passthrough_ipv6.then_some(Object::Address(PASSTHROUGH_V6)));
        objects
    }
}

/// The routing that a configuration needs.
pub fn routing(config: &CaptureConfig) -> IstioRouting {
    let transparent = match config.interception {
        Interception::None => return IstioRouting::default(),
        Interception::Tproxy { mark, table } if config.captures_inbound() => {
            Some(PolicyRoute { mark, table })
        }
        Interception::Tproxy { .. } | Interception::Redirect => None,
    };
    IstioRouting {
        transparent,
        transparent_ipv6: transparent.is_some() && config.ipv6,
        passthrough_ipv6: config.ipv6,
    }
}
