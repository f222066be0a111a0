//! A reason: the row of its policy's table, and the macro that writes the table.

use super::meaning::Meaning;
use crate::mesh::Mesh;
use crate::settings::Setting;
use rules::Origin;
use std::{fmt, hash};

/// A reason as its policy's table has it.
#[derive(Debug)]
pub struct Row {
    pub mesh: Mesh,
    pub name: &'static str,
    pub meaning: Meaning,
    pub settings: &'static [Setting],
    pub sentence: fn(Option<&str>, &str) -> Option<String>,
}

/// Why a rule is there: a row of some mesh's table. Two are the same if their names are.
#[derive(Clone, Copy)]
pub struct Reason(&'static Row);

impl Reason {
    pub const fn of(row: &'static Row) -> Self {
        Self(row)
    }

    /// Every reason of every mesh.
    pub fn all() -> impl Iterator<Item = Self> {
        Mesh::ALL.iter().flat_map(|mesh| mesh.reasons().rows()).map(Self)
    }

    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.name() == name)
    }

    /// What a chain of iptables is for, of those that do one thing under a name that upstream gave them: for listings,
    /// which do not say why their rules are there.
    pub fn of_chain(chain: &str) -> Option<Self> {
        Mesh::ALL.iter().find_map(|mesh| {
            let known = mesh.reasons();
            let (_, role) = known.chains().iter().find(|(name, _)| *name == chain)?;
            let meaning = role.meaning()?;
            known.rows().iter().find(|row| row.meaning == meaning).map(Self)
        })
    }

    /// Why a rule of ours is there, by its comment in nf_tables: `excluded-network (--istio-service-exclude-cidr)`, or a
    /// name alone.
    pub fn origin_of(comment: &str) -> Option<Origin> {
        let (name, option) =
            comment.strip_suffix(')').and_then(|text| text.split_once(" (")).unwrap_or((comment, ""));
        let reason = Self::named(name)?;
        let made_by = |setting: &&Setting| reason.made_by(**setting).option_text() == option;
        match reason.settings().iter().find(made_by) {
            Some(setting) => Some(reason.made_by(*setting)),
            None => Some(Origin { name: reason.name(), option: "" }),
        }
    }

    /// Whose it is.
    pub fn mesh(self) -> Mesh {
        self.0.mesh
    }

    /// The short name in kebab case, by which rules say why they are there.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What such rules do.
    pub fn meaning(self) -> Meaning {
        self.0.meaning
    }

    /// The settings of which one makes the rule; none for what is always there.
    pub fn settings(self) -> &'static [Setting] {
        self.0.settings
    }

    /// Why such a rule decides, in words. `value` is the item of the setting's list that the rule is about, `option` the
    /// setting as its author writes it. `None` for rules that only lead on to others.
    pub fn sentence(self, value: Option<&str>, option: &str) -> Option<String> {
        (self.0.sentence)(value, option)
    }

    /// What a rule carries along that this setting made.
    pub fn made_by(self, setting: Setting) -> Origin {
        Origin { name: self.name(), option: setting.row().name() }
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Reason {}

impl hash::Hash for Reason {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Makes the enum `Reason` of a policy, why each of its rules is there, and the same as rows for [`super::Reasons::rows`].
///
/// `reasons! { MESH of HOLDER; REASON "name" MEANING [SETTING, ..]; .. }`, in the order of the names: the [`Meaning`] of
/// such rules, and the settings of which one makes them, as constants of the holder of the policy's settings. The policy
/// adds `Reason::sentence`.
macro_rules! reasons {
    ($mesh:ident of $holder:ident; $($reason:ident $name:literal $meaning:ident [$($setting:ident),*];)*) => {
        /// A rule of the policy. Rules that do the same for the same reason share one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($reason,)*
        }

        /// The reasons as whoever knows no mesh asks about them, in the order of the enum.
        pub(crate) const ROWS: &[$crate::reason::Row] = &[$($crate::reason::Row {
            mesh: $crate::mesh::Mesh::$mesh,
            name: $name,
            meaning: $crate::reason::Meaning::$meaning,
            settings: &[$($holder::$setting,)*],
            sentence: |value, option| Reason::$reason.sentence(value, option),
        },)*];

        impl Reason {
            /// Every reason, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            fn row(self) -> &'static $crate::reason::Row {
                &ROWS[self as usize]
            }

            /// The short name in kebab case, under which the rule reports its hits: prefix of its log line, comment in
            /// nf_tables. It is short enough for both.
            pub fn name(self) -> &'static str {
                self.row().name
            }

            /// The settings of which one makes the rule; none for what is always there.
            pub fn settings(self) -> &'static [$crate::settings::Setting] {
                self.row().settings
            }

            /// The reason of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.name() == name)
            }

            /// What the rule carries along: its name, and the setting that made it where only one can.
            pub(crate) fn origin(self) -> ::rules::Origin {
                match self.settings() {
                    [setting] => self.made_by(*setting),
                    _ => ::rules::Origin { name: self.name(), option: "" },
                }
            }

            /// The same, where several settings make such rules.
            pub(crate) fn made_by(self, setting: $crate::settings::Setting) -> ::rules::Origin {
                ::rules::Origin { name: self.name(), option: setting.row().name() }
            }
        }

        impl From<Reason> for $crate::Reason {
            fn from(reason: Reason) -> Self {
                Self::of(reason.row())
            }
        }
    };
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
            let rows = mesh.reasons().rows();
            assert!(rows.is_sorted_by_key(|row| row.name), "{mesh}");
            for row in rows {
                let name = row.name;
                assert!(
                    name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && name.len() < 64,
                    "{name}"
                );
                assert!(known.insert(name), "{name} is of two meshes");
                assert_eq!(row.mesh, *mesh, "{name}");
                assert_eq!(Reason::named(name).map(Reason::name), Some(name));
                // What is always there, by the first mesh, came before there was another.
                let prefix = format!("{mesh}-");
                assert!(*mesh == Mesh::default() || name.starts_with(&prefix), "{name} says whose it is");
            }
        }
        assert_eq!(Reason::named("nobody"), None);
    }

    #[test]
    fn a_comment_tells_the_reason_and_the_option_that_made_the_rule() {
        for reason in Reason::all() {
            let bare = Reason::origin_of(reason.name()).expect("a name is enough");
            assert_eq!((bare.name, bare.option), (reason.name(), ""));
            for setting in reason.settings() {
                let made = reason.made_by(*setting);
                let comment = format!("{} ({})", made.name, made.option_text());
                assert_eq!(Reason::origin_of(&comment), Some(made), "{comment}");
            }
        }
        assert_eq!(Reason::origin_of("nobody (--drop-invalid)"), None);
    }

    #[test]
    fn chains_that_do_one_thing_tell_it() {
        let check = |chain: &str, expected: Option<&str>| {
            assert_eq!(Reason::of_chain(chain).map(Reason::name), expected, "{chain}");
        };
        check("ISTIO_REDIRECT", Some("to-outbound-listener"));
        check("ISTIO_IN_REDIRECT", Some("to-inbound-listener"));
        check("ISTIO_TPROXY", Some("to-inbound-listener"));
        check("ISTIO_OUTPUT_DNS", Some("dns"));
        check("ISTIO_OUTPUT", None);
        check("DOCKER", None);
    }
}
