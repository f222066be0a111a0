//! The writer of this policy's rules.

use super::config::CaptureConfig;
use super::defaults::{LOG_GROUP, PASSTHROUGH_V4, PASSTHROUGH_V6};
use super::ownership::OWNERSHIP;
use super::words::ProxyOwner;
use crate::writing::Comments;
use rules::{Cidr, Family};
use std::net::Ipv6Addr;

pub(super) type Writer<'a> = crate::writing::RuleWriter<'a, CaptureConfig>;

impl<'a> Writer<'a> {
    pub(super) fn of(config: &'a CaptureConfig, family: Family) -> Self {
        Self::new(config, family, &OWNERSHIP, Comments::Last, config.log_hits.then_some(LOG_GROUP))
    }

    pub(super) fn loopback(&self) -> Cidr {
        match self.family() {
            Family::V4 => self.config.loopback_v4,
            Family::V6 => Cidr::host(Ipv6Addr::LOCALHOST.into()),
        }
    }

    /// 127.0.0.6, or `::6`.
    pub(super) fn passthrough(&self) -> Cidr {
        Cidr::host(match self.family() {
            Family::V4 => PASSTHROUGH_V4.into(),
            Family::V6 => PASSTHROUGH_V6.into(),
        })
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = ProxyOwner> + use<'a> {
        let config = self.config;
        let users = config.proxy_uids.iter().copied().map(ProxyOwner::User);
        users.chain(config.proxy_gids.iter().copied().map(ProxyOwner::Group))
    }
}
