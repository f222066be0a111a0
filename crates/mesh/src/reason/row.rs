//! A reason: the row of its policy's table, and the macro that writes the table.

use super::meaning::{Meaning, MeaningRow};
use crate::mesh::Mesh;
use crate::recognition::summary::field_condition;
use crate::settings::Setting;
use rules::field::Field;
use rules::{Action, ListedCondition, Origin, TrafficEffect};
use std::{fmt, hash};

#[derive(Debug)]
pub struct ReasonRow {
    pub mesh: Mesh,
    pub name: &'static str,
    pub meaning: Meaning,
    pub settings: &'static [Setting],
    /// The sentence where no item of a list is known that the rule is about; `None` of rules that only lead on to others.
    pub sentence: Option<&'static str>,
    /// For an item (`{value}`) of the setting's list.
    pub sentence_of_value: Option<&'static str>,
}

/// A row of some mesh's table. Two are the same if their names are.
#[derive(Clone, Copy)]
pub struct RuleReason(&'static ReasonRow);

impl RuleReason {
    pub const fn of(row: &'static ReasonRow) -> Self {
        Self(row)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        Mesh::ALL.iter().flat_map(|mesh| mesh.entry().reasons).map(Self)
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.name() == name)
    }

    /// By the comment in nf_tables: `excluded-network (--istio-service-exclude-cidr)`, or a name alone.
    pub(crate) fn of_comment(comment: &str) -> Option<(Self, Option<Setting>)> {
        let (name, option) =
            comment.strip_suffix(')').and_then(|text| text.split_once(" (")).unwrap_or((comment, ""));
        let reason = Self::named(name)?;
        let made_it = |setting: &Setting| setting.row().option() == option;
        Some((reason, reason.settings().iter().copied().find(made_it)))
    }

    /// `None` of a rule that is always there.
    pub fn setting_of(origin: Origin) -> Option<Setting> {
        let made_it = |setting: &Setting| setting.row().name() == origin.option;
        Self::named(origin.name)?.settings().iter().copied().find(made_it)
    }

    pub fn mesh(self) -> Mesh {
        self.0.mesh
    }

    /// In kebab case: prefix of log lines, comment in nf_tables. It is short enough for both.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    pub fn meaning(self) -> Meaning {
        self.0.meaning
    }

    pub fn is_of_dns(self) -> bool {
        self.meaning().row().direction == "dns"
    }

    /// The settings of which one makes the rule; none for what is always there.
    pub fn settings(self) -> &'static [Setting] {
        self.0.settings
    }

    /// Why such a rule decides, in words, but for the placeholders that [`crate::sources::Dialect::render`] completes.
    /// `value` is the item of the setting's list that the rule is about, `option` the setting as its author writes it. `None`
    /// for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        let of_value =
            self.0.sentence_of_value.zip(value).map(|(text, value)| text.replace("{value}", value));
        let text = of_value.or_else(|| self.0.sentence.map(str::to_owned))?;
        Some(text.replace("{option}", option))
    }

    /// Some rules of this form only jump to a chain whose rules do what the reason says. `is_base` is true if the kernel calls
    /// their chain.
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

impl Cause {
    /// For a rule that one of several settings makes, or none.
    pub(crate) fn by(self, setting: impl Into<Option<Setting>>) -> Self {
        Self { setting: setting.into(), ..self }
    }

    pub(crate) fn origin(self, is_base: bool, asks: &[ListedCondition], action: &Action) -> Origin {
        let MeaningRow { effect, about, .. } = *self.reason.meaning_of(is_base, asks, action).row();
        // An exclusion of a rule that captures is not an item of its list.
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

impl PartialEq for RuleReason {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for RuleReason {}

impl hash::Hash for RuleReason {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for RuleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Makes the enum `Reason` of a policy, why each of its rules is there, and the same as rows for [`crate::MeshEntry::reasons`].
///
/// `reasons! { MESH of HOLDER; REASON "name" MEANING [SETTING, ..], "sentence", of "sentence about {value}"; .. }`, in the
/// order of the names: the [`Meaning`] of such rules, the settings of which one makes them, as constants of the holder of
/// the policy's settings, and why they decide, in general and for an item of a list. `{option}` is the setting.
macro_rules! reasons {
    ($mesh:ident of $holder:ident;
     $($reason:ident $name:literal $meaning:ident [$($setting:ident),*] $(, $text:literal)? $(, of $of_value:literal)?;)*) => {
        /// A rule of the policy. Rules that do the same for the same reason share one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($reason,)*
        }

        /// The reasons as code without knowledge of meshes uses them, in the order of the enum.
        pub(crate) const ROWS: &[$crate::reason::ReasonRow] = &[$($crate::reason::ReasonRow {
            mesh: $crate::mesh::Mesh::$mesh,
            name: $name,
            meaning: $crate::reason::Meaning::$meaning,
            settings: &[$($holder::$setting,)*],
            sentence: $crate::reason::reasons!(@text $($text)?),
            sentence_of_value: $crate::reason::reasons!(@text $($of_value)?),
        },)*];

        impl Reason {
            fn row(self) -> &'static $crate::reason::ReasonRow {
                &ROWS[self as usize]
            }

            /// With the setting that makes the rule where only one can.
            pub(crate) fn cause(self) -> $crate::reason::Cause {
                let setting = if let [one] = self.row().settings { Some(*one) } else { None };
                $crate::reason::Cause { reason: self.into(), setting }
            }
        }

        impl From<Reason> for $crate::RuleReason {
            fn from(reason: Reason) -> Self {
                Self::of(reason.row())
            }
        }
    };
    (@text) => { None };
    (@text $text:literal) => { Some($text) };
}

pub(crate) use reasons;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_kebab_case_in_order_and_of_one_mesh_alone() {
        let mut known = BTreeSet::new();
        for mesh in Mesh::ALL {
            let rows = mesh.entry().reasons;
            assert!(!rows.is_empty() && rows.is_sorted_by_key(|row| row.name), "{mesh}");
            for row in rows {
                let name = row.name;
                assert!(
                    name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && name.len() < 64,
                    "{name}"
                );
                assert!(known.insert(name), "{name} is of two meshes");
                assert_eq!(row.mesh, *mesh, "{name}");
                assert_eq!(RuleReason::named(name).map(RuleReason::name), Some(name));
                // What is always there, by the first mesh, came before there was another.
                let prefix = format!("{mesh}-");
                assert!(*mesh == Mesh::default() || name.starts_with(&prefix), "{name} says whose it is");
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
    fn a_sentence_is_about_the_item_where_it_is_known() {
        let check = |name: &str, value: Option<&str>, expected: Option<&str>| {
            let reason = RuleReason::named(name).expect("a reason");
            assert_eq!(reason.sentence(value, "--flag").as_deref(), expected, "{name} {value:?}");
        };
        check("inbound-port", Some("80"), Some("{-b} lists port 80"));
        check("inbound-port", None, Some("{-b} '*' captures all other inbound ports"));
        check("excluded-network", None, None);
        check("dns", Some("10.0.0.1"), Some("{--redirect-dns} captures DNS queries"));
        check("kuma-excluded-source", Some("10.0.0.0/8"), Some("--flag leaves calls from 10.0.0.0/8 alone"));
    }

    #[test]
    fn a_comment_tells_the_reason_and_the_option_that_made_the_rule() {
        for reason in RuleReason::all() {
            assert_eq!(RuleReason::of_comment(reason.name()), Some((reason, None)));
            for setting in reason.settings() {
                let comment = format!("{} ({})", reason.name(), setting.row().option());
                assert_eq!(RuleReason::of_comment(&comment), Some((reason, Some(*setting))), "{comment}");
            }
        }
        assert_eq!(RuleReason::of_comment("nobody (--drop-invalid)"), None);
    }

    #[test]
    fn a_reason_is_told_and_hashed_by_its_name() {
        use std::collections::HashSet;
        let all: HashSet<RuleReason> = RuleReason::all().chain(RuleReason::all()).collect();
        assert_eq!(all.len(), RuleReason::all().count());
        let reason = RuleReason::named("inbound-port").expect("a reason");
        assert_eq!(format!("{reason:?}"), "inbound-port");
        let hashed = |name: &str| {
            let mut state = hash::DefaultHasher::new();
            hash::Hash::hash(&RuleReason::named(name).expect("a reason"), &mut state);
            hash::Hasher::finish(&state)
        };
        assert_ne!(hashed("inbound-port"), hashed("dns"));
    }
}
