//! The policy of every mesh: its validated configuration, for code that works with rules.

use crate::facts::{Ipv6Advice, ListItem, Proxy};
use crate::mesh::Mesh;
use crate::registry::Capture;
use crate::sources::Raw;
use rules::{
    Checked, Family, Ownership, RuleSet,
    check::check,
    desired::{Desired, StaleFlows},
    routing::Object,
};
use std::{collections::BTreeSet, fmt};

/// A validated configuration, for code that works with rules.
pub trait CapturePolicy: fmt::Debug {
    /// Whose it is.
    fn mesh(&self) -> Mesh;

    /// The names by which its rules and its routing are recognized.
    fn owner(&self) -> Ownership {
        self.mesh().ownership()
    }

    /// Whether IPv6 is captured too. IPv4 always is.
    fn ipv6(&self) -> bool;

    /// Whether nothing is to be captured at all.
    fn captures_nothing(&self) -> bool {
        false
    }

    /// Writes the rules down for a family that is captured, in the order in which they take effect.
    fn write(&self, family: Family) -> RuleSet;

    /// The rules for one family, checked against what rules of their owner may be; none for a family that is not captured.
    ///
    /// # Panics
    /// If the policy broke the rules of the rule model, which would be a defect of it.
    fn rules(&self, family: Family) -> Checked {
        let is_captured = family == Family::V4 || self.ipv6();
        let rules = if is_captured { self.write(family) } else { RuleSet::empty(family) };
        check(rules, &self.owner()).unwrap_or_else(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            panic!("the policy made a bad rule set: {}", faults.join("; "))
        })
    }

    /// The policy rules, routes and addresses that the rules rely on.
    fn routing(&self) -> BTreeSet<Object> {
        BTreeSet::new()
    }

    /// Flows that pass the rules by if they are older than those.
    fn stale_flows(&self) -> Option<StaleFlows> {
        None
    }

    /// The same without capture of DNS queries.
    fn without_dns(&self) -> Capture;

    /// The same without capture of IPv6.
    fn ipv4_alone(&self) -> Capture;

    /// Who the proxy is, and where it listens.
    fn proxy(&self) -> Proxy;

    /// What the lists name, in the order of the settings.
    fn lists(&self) -> Vec<ListItem>;

    /// Why IPv6 is not captured, where it is not, by the settings. `names_it` is whether they name an IPv6 address of
    /// the pod.
    fn without_ipv6(&self, _raw: &Raw, _names_it: bool) -> Ipv6Advice {
        let (setting, remedy) = self.mesh().entry().keys.ipv6;
        Ipv6Advice { why: "IPv6 is not captured in this pod", setting, remedy }
    }
}

impl dyn CapturePolicy + '_ {
    /// The desired state of a network namespace.
    ///
    /// # Panics
    /// As [`CapturePolicy::rules`].
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
        Family::captured(self.ipv6())
    }
}
