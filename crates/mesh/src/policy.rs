//! What every mesh provides: a policy, and what is known of its rules.

use crate::facts::{ConfigKeys, Ipv6Advice, ListItem, Proxy, Unused};
use crate::limit::{Caution, Limit};
use crate::reason::{ReasonRow, RuleReason};
use crate::recognition::{RecognizedRule, Role, RuleContext};
use crate::registry::Capture;
use crate::settings::Setting;
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
    /// By what its rules and its routing are known again.
    fn owner(&self) -> Ownership;

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
    fn routing(&self) -> BTreeSet<Object>;

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

    /// The settings that change what every mesh has.
    fn keys(&self) -> ConfigKeys;

    /// The settings that have no effect beside the others where they are given, with why.
    fn unused(&self) -> Vec<Unused> {
        Vec::new()
    }

    /// Why IPv6 is not captured, where it is not, by the settings. `names_it` is whether they name an IPv6 address of
    /// the pod.
    fn without_ipv6(&self, _raw: &Raw, _names_it: bool) -> Ipv6Advice {
        let (setting, remedy) = self.keys().ipv6;
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

/// What is known of a mesh's rules, beside what each carries.
pub trait Reasons {
    /// The reasons, in the order of their names.
    fn rows(&self) -> &'static [ReasonRow];

    /// The chains of iptables that the mesh's rules lead to, in capitals, each with what it is for.
    fn chains(&self) -> &'static [(&'static str, Role)];

    /// Who answers captured DNS queries.
    fn resolver(&self) -> &'static str {
        "the proxy"
    }

    /// What its rules do, or leave undone, though people expect otherwise.
    fn limits(&self) -> &'static [Limit] {
        &[]
    }

    /// What to know of settings that work as they are given.
    fn cautions(&self) -> &'static [Caution] {
        &[]
    }

    /// What to do where rules capture one family, and the pod has addresses of this one, too.
    fn remedy_of_gap(&self, family: Family) -> &'static str;

    /// Why a rule of iptables, or of the predecessor's, is there: by its comment where that shows it, else by its chain, by
    /// its conditions and by its target.
    fn read(&self, context: &RuleContext<'_>) -> Option<RuleReason>;

    /// Of several settings that make such rules, the one that this rule shows.
    fn setting(&self, _reason: RuleReason, _context: &RuleContext<'_>) -> Option<Setting> {
        None
    }

    /// Whether a rule of a chain that the kernel calls is the mesh's, of those that lead to no chain of it and carry no
    /// comment of it.
    fn owns(&self, _context: &RuleContext<'_>) -> bool {
        false
    }

    /// Mends what was read of each rule by what all together show.
    fn refine(&self, _all: &mut [RecognizedRule<'_>]) {}
}
