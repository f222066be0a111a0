//! How the reasons of a policy are written: a row a reason, in the order of their names.

/// Makes the enum `Reason` of a policy: why each of its rules is there.
///
/// `reasons! { HOLDER; REASON "name" [SETTING, ..]; .. }`: the name under which the rule is known in listings, and the
/// settings of which one makes it, as constants of the holder of the policy's settings. The policy adds the sentences.
macro_rules! reasons {
    ($holder:ident; $($reason:ident $name:literal [$($setting:ident),*];)*) => {
        /// A rule of the policy. Rules that do the same for the same reason share one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($reason,)*
        }

        impl Reason {
            /// Every reason, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The short name in kebab case, under which the rule reports its hits: prefix of its log line, comment in
            /// nf_tables. It is short enough for both.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// The settings of which one makes the rule; none for what is always there.
            pub fn settings(self) -> &'static [$crate::settings::Setting] {
                match self {
                    $(Self::$reason => &[$($holder::$setting,)*],)*
                }
            }

            /// The reason of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.name() == name)
            }

            /// Why a rule of ours is there, by its comment in nf_tables: `NAME (--OPTION)`, or the name alone.
            pub fn origin_of(comment: &str) -> Option<rules::Origin> {
                let (name, option) =
                    comment.strip_suffix(')').and_then(|text| text.split_once(" (")).unwrap_or((comment, ""));
                let reason = Self::named(name)?;
                let made_by = |setting: &&$crate::settings::Setting| {
                    let origin = reason.made_by(**setting);
                    origin.option_text() == option
                };
                match reason.settings().iter().find(made_by) {
                    Some(setting) => Some(reason.made_by(*setting)),
                    None => Some(rules::Origin { name: reason.name(), option: "" }),
                }
            }

            /// What the rule carries along: its name, and the setting that made it where only one can.
            pub(crate) fn origin(self) -> rules::Origin {
                match self.settings() {
                    [setting] => self.made_by(*setting),
                    _ => rules::Origin { name: self.name(), option: "" },
                }
            }

            /// The same, where several settings make such rules.
            pub(crate) fn made_by(self, setting: $crate::settings::Setting) -> rules::Origin {
                rules::Origin { name: self.name(), option: setting.row().name() }
            }
        }

        #[cfg(test)]
        mod names {
            use super::Reason;

            #[test]
            fn are_kebab_case_in_order_and_find_their_reason() {
                assert!(Reason::ALL.is_sorted_by_key(|reason| reason.name()));
                for &reason in Reason::ALL {
                    let name = reason.name();
                    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && name.len() < 64, "{name}");
                    assert_eq!(Reason::named(name), Some(reason));
                    assert_eq!(Reason::origin_of(name).map(|origin| origin.name), Some(name));
                }
                assert_eq!(Reason::named("nobody"), None);
            }
        }
    };
}

pub(crate) use reasons;
