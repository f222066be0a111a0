//! Reasons of all meshes' rules, each with a [`Meaning`]: the rule's effect, for mesh-independent code.

use crate::{mesh::Mesh, settings::Setting};
use rules::field::{Condition, Field};
use rules::{Action, Family, ListedCondition, Origin, TrafficEffect};
use std::{borrow::Cow, fmt};

#[derive(PartialEq, Eq, Hash)]
pub struct ReasonRow {
    pub mesh: Mesh,
    pub name: &'static str,
    pub meaning: Meaning,
    pub settings: &'static [Setting],
    pub general: Option<&'static str>,
    pub of_value: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleReason(pub(crate) &'static ReasonRow);

impl RuleReason {
    pub fn all() -> impl Iterator<Item = Self> {
        Mesh::ALL.iter().flat_map(|mesh| mesh.entry().reasons).copied()
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.name() == name)
    }

    /// Parses an nf_tables comment: `excluded-network (--istio-service-exclude-cidr)`, or a name alone.
    pub(crate) fn of_comment(comment: &str) -> Option<(Self, Option<Setting>)> {
        let (name, option) =
            comment.strip_suffix(')').and_then(|text| text.split_once(" (")).unwrap_or((comment, ""));
        let reason = Self::named(name)?;
        let made_it = |setting: &Setting| setting.row().option() == option;
        Some((reason, reason.settings().iter().copied().find(made_it)))
    }

    /// `None` if no setting made the rule.
    pub fn setting_of(origin: Origin) -> Option<Setting> {
        let made_it = |setting: &Setting| setting.row().name() == origin.option;
        Self::named(origin.name)?.settings().iter().copied().find(made_it)
    }

    pub fn mesh(self) -> Mesh {
        self.0.mesh
    }

    /// Name in kebab case, short enough for a log prefix and an nf_tables comment.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    pub fn meaning(self) -> Meaning {
        self.0.meaning
    }

    pub fn is_of_dns(self) -> bool {
        self.meaning().row().direction == "dns"
    }

    /// Settings that can make the rule; empty for unconditional rules.
    pub fn settings(self) -> &'static [Setting] {
        self.0.settings
    }

    /// Explains the rule's verdict for the item `value` in the list of `option`; `None` for rules that only lead to other
    /// rules. [`crate::sources::Dialect::render`] fills in the placeholders.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        let (own, usual) = (self.0, self.meaning().row());
        let of_value = own.of_value.or(usual.of_value).zip(value);
        let of_value = of_value.map(|(text, value)| text.replace("{value}", value));
        let text = of_value.or_else(|| own.general.or(usual.general).map(str::to_owned))?;
        Some(text.replace("{option}", option))
    }

    pub(crate) fn by(self, setting: impl Into<Option<Setting>>) -> Cause {
        Cause { reason: self, setting: setting.into() }
    }

    /// Meaning of a rule with this reason: a jump only leads to rules with the reason's effect.
    pub(crate) fn meaning_of(self, is_base: bool, asks: &[ListedCondition], action: &Action) -> Meaning {
        let asks_for = |fields: &[Field]| {
            asks.iter().filter_map(ListedCondition::field).any(|one| fields.contains(&one))
        };
        match self.meaning() {
            Meaning::InboundPort if is_base && action.leads_on() => Meaning::Inbound,
            Meaning::Dns if is_base && action.leads_on() => Meaning::DnsJump,
            Meaning::Dns if action.leads_on() => Meaning::DnsChain,
            Meaning::Dns if !action.captures() => Meaning::DnsZone,
            Meaning::OutboundNetwork if asks_for(&[Field::InInterface]) => Meaning::VirtualMachine,
            meaning @ Meaning::ExcludedSource if !asks_for(meaning.row().about) => {
                Meaning::ExcludedDestination
            }
            Meaning::ProxyToApplication if !action.passes() => Meaning::ProxyAnswers,
            meaning => meaning,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: RuleReason,
    pub(crate) setting: Option<Setting>,
}

impl From<RuleReason> for Cause {
    fn from(reason: RuleReason) -> Self {
        let setting = if let [one] = reason.settings() { Some(*one) } else { None };
        Self { reason, setting }
    }
}

impl Cause {
    pub(crate) fn origin(self, is_base: bool, asks: &[ListedCondition], action: &Action) -> Origin {
        let MeaningRow { effect, about, .. } = *self.reason.meaning_of(is_base, asks, action).row();
        // An exception in a capturing rule is not an item of the list.
        let is_exception = |one: &ListedCondition| field_condition(one).is_some_and(|one| one.negated);
        let items = asks.iter().filter(|one| effect != TrafficEffect::Captured || !is_exception(one));
        Origin {
            name: self.reason.name(),
            option: self.setting.map_or("", |setting| setting.row().name()),
            effect,
            item: items.filter_map(ListedCondition::field).filter(|field| about.contains(field)).min(),
        }
    }
}

impl fmt::Debug for RuleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `reasons! { MESH of HOLDER; REASON "name" MEANING [SETTING, ..], "sentence", of "sentence about {value}"; .. }`, sorted by
/// name, defines the mesh's type `Reason`. `{option}` is the setting, a holder constant, that makes the rule.
macro_rules! reasons {
    ($mesh:ident of $holder:ident;
     $($reason:ident $name:literal $meaning:ident [$($setting:ident),*] $(, $text:literal)? $(, of $of_value:literal)?;)*) => {
        pub struct Reason;

        #[expect(non_upper_case_globals, reason = "they act as enum variants")]
        impl Reason {
            $(pub const $reason: $crate::RuleReason = $crate::RuleReason(&$crate::reason::ReasonRow {
                mesh: $crate::mesh::Mesh::$mesh,
                name: $name,
                meaning: $crate::reason::Meaning::$meaning,
                settings: &[$($holder::$setting,)*],
                general: $crate::settings::settings!(@option $($text)?),
                of_value: $crate::settings::settings!(@option $($of_value)?),
            });)*
        }

        pub(crate) const REASONS: &[$crate::RuleReason] = &[$(Reason::$reason,)*];
    };
}

pub(crate) use reasons;

const NOTHING: &[Field] = &[];
const DESTINATION: &[Field] = &[Field::Destination(Family::V4), Field::Destination(Family::V6)];
const SOURCE: &[Field] = &[Field::Source(Family::V4), Field::Source(Family::V6)];
const PORT: &[Field] = &[Field::DestinationPort];
const INTERFACE: &[Field] = &[Field::InInterface, Field::OutInterface];
const OWNER: &[Field] = &[Field::Uid, Field::Gid];

/// `MEANING: EFFECT "DIRECTION" ABOUT, [BEFORE, ALL, AFTER], "sentence", of "sentence about {value}";`: words before, instead
/// of and after a list, and sentences for meshes that have none.
macro_rules! meanings {
    ($($(#[doc = $doc:literal])* $meaning:ident: $effect:ident $direction:literal $about:ident,
       [$before:literal, $all:literal, $after:literal] $(, $text:literal)? $(, of $of_value:literal)?;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Meaning {
            $($(#[doc = $doc])* $meaning,)*
        }

        const TABLE: &[MeaningRow] = &[$(MeaningRow {
            effect: TrafficEffect::$effect,
            direction: $direction,
            about: $about,
            counted: Phrase { before: $before, all: $all, after: $after },
            general: $crate::settings::settings!(@option $($text)?),
            of_value: $crate::settings::settings!(@option $($of_value)?),
        },)*];
    };
}

meanings! {
    OutboundNetwork: Captured "outbound" DESTINATION, ["outbound, ", "outbound, all other destinations", ""];
    OutboundPort: Captured "outbound" PORT, ["outbound, ", "outbound, all other destinations", ""],
        of "{option} lists port {value}";
    InboundPort: Captured "inbound" PORT, ["inbound, ", "inbound, all other ports", ""], of "{option} lists port {value}";
    Dns: Captured "dns" DESTINATION, ["DNS queries ", "DNS queries to every server", ""];
    ProxyCallsOwnPod: Captured "inbound" OWNER,
        ["the proxy's calls to its own pod, ", "the proxy's calls to its own pod", ""],
        "the proxy's calls to its own pod are sent to the inbound listener";
    /// Captures traffic from a guest behind the pod, such as a virtual machine, as if the pod sent it.
    VirtualMachine: Captured "outbound" INTERFACE, ["outbound, ", "outbound", ""];
    VirtualMachineDns: Captured "dns" INTERFACE, ["DNS queries, ", "DNS queries", ""];
    ToOutboundListener: HandedOver "outbound" NOTHING, ["", "connections handed to the proxy, outbound", ""];
    ToInboundListener: HandedOver "inbound" NOTHING, ["", "connections handed to the proxy, inbound", ""];
    ExcludedOutboundPort: Excluded "outbound" PORT, ["outbound, ", "outbound", ""], of "{option} excludes port {value}";
    ExcludedInboundPort: Excluded "inbound" PORT, ["inbound, ", "inbound", ""], of "{option} excludes port {value}";
    ExcludedDestination: Excluded "outbound" DESTINATION, ["outbound, ", "outbound", ""], of "{option} excludes {value}";
    ExcludedSource: Excluded "inbound" SOURCE, ["inbound, ", "inbound", ""], of "{option} excludes calls from {value}";
    ExcludedInterface: Excluded "both" INTERFACE, ["", "", ""];
    ExcludedOwner: Excluded "outbound" OWNER, ["outbound, ", "outbound, every group", ""];
    OtherOwners: Excluded "outbound" OWNER, ["outbound, ", "outbound, every group", ""];
    VirtualMachineInterface: Excluded "inbound" INTERFACE, ["", "", ""];
    TunnelPort: Excluded "inbound" PORT, ["inbound, ", "inbound", ": the tunnel"];
    ProxyOutbound: Excluded "outbound" OWNER, ["the proxy's own calls, ", "the proxy's own calls", ""],
        of "traffic of the proxy's {value} ({option}) is never captured";
    ProxyDns: Excluded "dns" OWNER, ["the proxy's own DNS queries, ", "the proxy's own DNS queries", ""];
    ProxyToApplication: Excluded "inbound" NOTHING, ["", "proxy to application", ""],
        "its source is the address from which the proxy calls the application";
    ProxyAnswers: LedOn "inbound" NOTHING,
        ["", "proxy to application, and answers", ""];
    ApplicationLoopback: Excluded "outbound" NOTHING, ["", "the application's calls to its own pod", ""],
        "the application's calls to its own pod are not captured";
    Loopback: Excluded "outbound" DESTINATION, ["", "outbound, to loopback", ""], "the destination is a loopback address";
    ExcludedDns: Excluded "dns" NOTHING, ["", "DNS queries over TCP, except the proxy's", ""];
    OutboundOff: Excluded "outbound" NOTHING, ["", "outbound, all traffic", ""];
    InboundOff: Excluded "inbound" NOTHING, ["", "inbound, all traffic", ""];
    Outbound: LedOn "outbound" NOTHING, ["", "outbound: evaluated", ""];
    Inbound: LedOn "inbound" NOTHING, ["", "inbound: evaluated", ""];
    DnsJump: LedOn "dns" NOTHING, ["", "DNS: evaluated", ""];
    DnsChain: LedOn "dns" NOTHING, ["", "outbound, sent to the DNS rules", ""];
    DnsZone: LedOn "dns" NOTHING, ["", "DNS, put into separate conntrack zones", ""];
    KnownConnection: LedOn "both" NOTHING, ["", "packets of connections already handed over", ""];
    Dropped: Dropped "inbound" NOTHING, ["", "packets of unknown connections", ""],
        "{option} drops packets of unknown connections";
    Log: LedOn "both" NOTHING, ["", "logged by the kernel", ""];
}

#[derive(Clone, Copy, Debug)]
pub struct MeaningRow {
    pub effect: TrafficEffect,
    /// Traffic direction: `outbound`, `inbound`, `dns` or `both`.
    pub direction: &'static str,
    /// Fields whose condition may hold the items of the setting's list.
    pub about: &'static [Field],
    pub counted: Phrase,
    pub general: Option<&'static str>,
    pub of_value: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phrase {
    pub before: &'static str,
    pub all: &'static str,
    pub after: &'static str,
}

impl Meaning {
    pub fn row(self) -> &'static MeaningRow {
        &TABLE[self as usize]
    }

    /// Exclusion that a negated condition on this field expresses in a capturing rule.
    pub fn exception(self, field: Field) -> Option<Self> {
        match (self, field) {
            (Self::InboundPort, Field::DestinationPort) => Some(Self::TunnelPort),
            (_, Field::Mark(_)) => Some(Self::ProxyOutbound),
            _ => None,
        }
    }
}

pub fn field_condition(condition: &ListedCondition) -> Option<Cow<'_, Condition>> {
    match condition {
        ListedCondition::Known(known) => known.condition().map(Cow::Owned),
        ListedCondition::Nft(condition) => Some(Cow::Borrowed(condition)),
        ListedCondition::Protocol(_)
        | ListedCondition::DestinationLocal(_)
        | ListedCondition::TcpFlags { .. }
        | ListedCondition::Always(_)
        | ListedCondition::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_sorted_kebab_case_with_one_mesh_each() {
        let mut known = BTreeSet::new();
        for mesh in Mesh::ALL {
            let reasons = mesh.entry().reasons;
            assert!(!reasons.is_empty() && reasons.is_sorted_by_key(|reason| reason.name()), "{mesh}");
            for reason in reasons {
                let name = reason.name();
                assert!(
                    name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && name.len() < 64,
                    "{name}"
                );
                assert!(known.insert(name), "{name} belongs to two meshes");
                assert_eq!(reason.mesh(), *mesh, "{name}");
                assert_eq!(RuleReason::named(name).map(RuleReason::name), Some(name));
                // The default mesh's names predate the other meshes, so they lack a prefix.
                let prefix = format!("{mesh}-");
                assert!(*mesh == Mesh::default() || name.starts_with(&prefix), "{name} lacks a prefix");
            }
        }
        assert_eq!(RuleReason::named("nobody"), None);
    }

    #[test]
    fn reasons_that_decide_have_complete_sentences() {
        for reason in RuleReason::all() {
            let sentences = [None, Some("80")].map(|value| reason.sentence(value, "--flag"));
            let leads_on =
                matches!(reason.meaning().row().effect, TrafficEffect::LedOn | TrafficEffect::HandedOver);
            assert!(leads_on || sentences[1].is_some(), "{} has no sentence", reason.name());
            for text in sentences.into_iter().flatten() {
                assert!(!text.contains("{value}") && !text.contains("{option}"), "{text}");
            }
        }
    }

    #[test]
    fn sentence_contains_the_known_item() {
        let check = |name: &str, value: Option<&str>, expected: Option<&str>| {
            let reason = RuleReason::named(name).expect("a reason");
            assert_eq!(reason.sentence(value, "--flag").as_deref(), expected, "{name} {value:?}");
        };
        check("inbound-port", Some("80"), Some("{-b} lists port 80"));
        check("inbound-port", None, Some("{-b} '*' captures all other inbound ports"));
        check("excluded-network", None, None);
        check("dns", Some("10.0.0.1"), Some("{--redirect-dns} captures DNS queries"));
        check("kuma-excluded-source", Some("10.0.0.0/8"), Some("--flag excludes calls from 10.0.0.0/8"));
    }

    #[test]
    fn comment_has_reason_and_option() {
        for reason in RuleReason::all() {
            assert_eq!(RuleReason::of_comment(reason.name()), Some((reason, None)));
            for setting in reason.settings() {
                let comment = format!("{} ({})", reason.name(), setting.row().option());
                assert_eq!(RuleReason::of_comment(&comment), Some((reason, Some(*setting))), "{comment}");
            }
        }
        assert_eq!(RuleReason::of_comment("nobody (--drop-invalid)"), None);
    }
}
