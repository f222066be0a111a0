//! The writer of this policy's rules: what they need of the configuration by family, and their comments.
//!
//! Upstream counts what it inserts into a base chain and appends the rest, and begins each rule with a comment on
//! what it is for.

use super::config::CaptureConfig;
use super::defaults;
use super::ownership::{COMMENTS, OWNERSHIP};
use crate::facts::loopback;
use crate::reason::Cause;
use crate::writing::{self, ChainPlace, Comments};
use rules::{Cidr, Comment, Family, Match, Table, Target};

pub(super) type KumaWriter<'a> = writing::RuleWriter<'a, CaptureConfig>;

impl<'a> KumaWriter<'a> {
    pub(super) fn of(config: &'a CaptureConfig, family: Family) -> Self {
        let comments = if config.comments { Comments::OfEach(comment) } else { Comments::First };
        Self::new(config, family, &OWNERSHIP, comments, None)
    }

    pub(super) fn loopback(&self) -> Cidr {
        Cidr::host(loopback(self.family()))
    }

    pub(super) fn passthrough(&self) -> Cidr {
        Cidr::host(match self.family() {
            Family::V4 => defaults::PASSTHROUGH_V4.into(),
            Family::V6 => defaults::PASSTHROUGH_V6.into(),
        })
    }

    pub(super) fn add(
        &mut self,
        inserts: bool,
        place: ChainPlace,
        matches: impl IntoIterator<Item = Match>,
        target: Target,
        cause: Cause,
    ) {
        match inserts {
            true => self.insert_next(Table::Nat, place, matches, target, cause),
            false => self.append(Table::Nat, place, matches, target, cause),
        }
    }
}

/// The prefix by which upstream knows its rules, and the reason's name.
fn comment(cause: Cause) -> Comment {
    let name = cause.reason.name().strip_prefix("kuma-").unwrap_or(cause.reason.name());
    format!("{COMMENTS}{name}").parse().expect("names of reasons fit behind the prefix")
}
