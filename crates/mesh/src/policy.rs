//! Each mesh's policy: its validated configuration, for code that works with rules.

use crate::facts::{Ipv6Advice, ListItem, Proxy};
use crate::{mesh::Mesh, registry::Capture, sources::Raw};
use rules::{
    Checked, Family, Ownership, RuleSet,
    check::check,
    desired::{Desired, StaleFlows},
    routing::Object,
};
use std::{collections::BTreeSet, fmt};

#[derive(Debug, Default)]
pub struct PolicyFacts {
    pub ipv6: bool,
    pub captures_nothing: bool,
    pub routing: BTreeSet<Object>,
    /// Older flows, which would bypass the rules.
    pub stale_flows: Option<StaleFlows>,
    pub proxy: Proxy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturePart {
    Dns,
    Ipv6,
}

pub trait CapturePolicy: fmt::Debug {
    fn mesh(&self) -> Mesh;

    /// Rules for a captured family, in the order in which they take effect.
    fn write(&self, family: Family) -> RuleSet;

    fn facts(&self) -> PolicyFacts;

    fn lists(&self) -> Vec<ListItem>;

    fn without(&self, part: CapturePart) -> Capture;

    fn ipv6(&self) -> bool {
        self.facts().ipv6
    }

    /// Rules for one family, checked against their owner's limits; none for a family that is not captured.
    fn rules(&self, family: Family) -> Checked {
        let is_captured = family == Family::V4 || self.ipv6();
        let rules = if is_captured { self.write(family) } else { RuleSet::empty(family) };
        check(rules, &self.owner()).unwrap_or_else(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            panic!("the policy made an invalid rule set: {}", faults.join("; "))
        })
    }

    fn owner(&self) -> Ownership {
        self.mesh().ownership()
    }

    fn proxy(&self) -> Proxy {
        self.facts().proxy
    }

    /// Reason why IPv6 is not captured. `names_it` is true if the settings contain an IPv6 address of the pod.
    fn without_ipv6(&self, raw: &Raw, names_it: bool) -> Ipv6Advice {
        let entry = self.mesh().entry();
        if let Some(advice) = entry.without_ipv6 {
            return advice(raw, names_it);
        }
        let (setting, remedy) = entry.keys.ipv6;
        Ipv6Advice { why: "IPv6 is not captured in this pod", setting, remedy }
    }
}

/// `configuration! { |READER, HOST, NUMBERS_ONLY| FIELD: TYPE = VALUE; .. }` defines a mesh's type `CaptureConfig`, and its
/// reader, which evaluates the values in order, so each may use earlier ones. A block after `=>` checks all values.
macro_rules! configuration {
    (|$reader:ident, $host:ident, $numbers_only:ident|
     $($(#[doc = $doc:literal])* $field:ident: $type:ty = $value:expr;)* $(=> $check:block)?) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct CaptureConfig {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        pub(crate) fn configure(
            $reader: &mut $crate::sources::SettingReader<'_>,
            $host: &dyn $crate::sources::Host,
            $numbers_only: bool,
        ) -> CaptureConfig {
            $(let $field = $value;)*
            $($check)?
            CaptureConfig { $($field,)* }
        }
    };
}

pub(crate) use configuration;

impl dyn CapturePolicy + '_ {
    pub fn desired(&self) -> Desired {
        let PolicyFacts { routing, stale_flows, .. } = self.facts();
        Desired {
            owner: self.owner(),
            v4: self.rules(Family::V4),
            v6: self.ipv6().then(|| self.rules(Family::V6)),
            routing,
            stale_flows,
            made: None,
        }
    }

    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        Family::captured(self.ipv6())
    }
}
