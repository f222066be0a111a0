//! What every policy can say of itself.

use super::Capture;
use super::facts::{Listed, Proxy};
use rules::{
    Checked, Family, Ownership,
    desired::{Desired, StaleFlows},
    routing::Object,
};
use std::{collections::BTreeSet, fmt};

/// A validated configuration, as whoever works with rules sees it.
pub trait Policy: fmt::Debug {
    /// By what its rules and its routing are known again.
    fn owner(&self) -> Ownership;

    /// Whether IPv6 is captured too. IPv4 always is.
    fn ipv6(&self) -> bool;

    /// Whether nothing is to be captured at all.
    fn captures_nothing(&self) -> bool {
        false
    }

    /// The rules for one family, in the order in which they take effect; none for a family that is not captured.
    ///
    /// # Panics
    /// If the policy broke the rules of the rule model, which would be a defect of it.
    fn rules(&self, family: Family) -> Checked;

    /// The policy rules, routes and addresses that the rules rely on.
    fn routing(&self) -> BTreeSet<Object>;

    /// Flows that pass the rules by if they are older than those.
    fn stale_flows(&self) -> Option<StaleFlows> {
        None
    }

    /// The same, with questions for names left alone.
    fn without_dns(&self) -> Capture;

    /// Who the proxy is, and where it listens.
    fn proxy(&self) -> Proxy;

    /// What the lists name, in the order of the settings.
    fn lists(&self) -> Vec<Listed>;
}

impl dyn Policy + '_ {
    /// All that it asks of a network namespace.
    ///
    /// # Panics
    /// As [`Policy::rules`].
    pub fn desired(&self) -> Desired {
        Desired {
            owner: self.owner(),
            v4: self.rules(Family::V4),
            v6: self.ipv6().then(|| self.rules(Family::V6)),
            routing: self.routing(),
            stale_flows: self.stale_flows(),
            made: None,
        }
    }

    /// The families whose traffic is captured.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        let ipv6 = self.ipv6();
        Family::BOTH.into_iter().filter(move |family| *family == Family::V4 || ipv6)
    }
}
