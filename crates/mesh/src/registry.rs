//! The list of meshes at work: where a mesh's name leads to its folder.
//!
//! A mesh is a folder: a table of settings, a validated configuration, the rules and the routing that it makes, and
//! how those are recognized. The list is in [`crate::mesh`]. Code that applies, compares, explains or draws uses
//! a [`Policy`], and knows no mesh by name.

mod made;

pub use made::{made, parse_settings_text, quoted, settings_text};

use crate::facts::ProxyProgram;
use crate::mesh::{AnnotationGroup, Mesh, meshes};
use crate::pod::mesh::Form;
use crate::policy::{CapturePolicy, Reasons};
use crate::settings::{self, Setting, SettingRow};
use crate::sources::{Host, Raw, SettingReader};
use crate::{InputProblem, Problems};
use rules::Ownership;
use std::ops::Deref;

macro_rules! folders {
    ($($(#[doc = $doc:literal])* $mesh:ident $module:ident $name:literal;)*) => {
        impl Mesh {
            /// Its settings of capture.
            pub fn settings(self) -> &'static [SettingRow] {
                match self {
                    $(Self::$mesh => crate::$module::SETTINGS,)*
                }
            }

            /// Its injector's values for settings that pods leave open, each unless one of these settings is given.
            pub fn injector_defaults(self) -> &'static [(Setting, &'static str, &'static [Setting])] {
                match self {
                    $(Self::$mesh => crate::$module::INJECTOR_DEFAULTS,)*
                }
            }

            /// How its pods are recognized and read; `None` for those of the default.
            pub(crate) fn pods(self) -> Option<&'static Form> {
                match self {
                    $(Self::$mesh => crate::$module::PODS,)*
                }
            }

            /// The annotations that it knows of pods, those of its settings aside.
            pub(crate) fn annotations(self) -> &'static [AnnotationGroup] {
                match self {
                    $(Self::$mesh => crate::$module::ANNOTATIONS,)*
                }
            }

            /// What is known of its rules.
            pub fn reasons(self) -> &'static dyn Reasons {
                match self {
                    $(Self::$mesh => &crate::$module::Known,)*
                }
            }

            /// What its proxies run.
            pub fn proxy_program(self) -> ProxyProgram {
                match self {
                    $(Self::$mesh => crate::$module::PROXY_PROGRAM,)*
                }
            }

            /// By what its rules and routing are known again.
            pub fn ownership(self) -> Ownership {
                match self {
                    $(Self::$mesh => crate::$module::OWNERSHIP,)*
                }
            }
        }

        /// By what the rules and the routing of all meshes are known, where several may be in one network namespace.
        pub const OWNERS: &[Ownership] = &[$(crate::$module::OWNERSHIP,)*];

        /// What to capture, validated.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Capture {
            $($(#[doc = $doc])* $mesh(crate::$module::CaptureConfig),)*
        }

        impl Capture {
            /// Whose it is.
            pub fn mesh(&self) -> Mesh {
                match self {
                    $(Self::$mesh(_) => Mesh::$mesh,)*
                }
            }
        }

        /// The policy.
        impl Deref for Capture {
            type Target = dyn CapturePolicy;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$mesh(config) => config,)*
                }
            }
        }

        $(impl From<crate::$module::CaptureConfig> for Capture {
            fn from(config: crate::$module::CaptureConfig) -> Self {
                Self::$mesh(config)
            }
        })*

        /// Reads the configuration of the mesh that the settings name. Where the reader has a problem, the
        /// result must not be used. `numbers_only` is whether the host's users and groups are not the pod's, so that names
        /// can't be looked up.
        pub fn configure(reader: &mut SettingReader<'_>, host: &dyn Host, numbers_only: bool) -> Capture {
            match of(reader) {
                $(Mesh::$mesh => crate::$module::configure(reader, host, numbers_only).into(),)*
            }
        }
    };
}

meshes!(folders);

impl Mesh {
    /// The name that a word is most like: its own, where a mesh has it. `None` if it is like none.
    pub fn nearest(word: &str) -> Option<&'static str> {
        settings::nearest(word, Self::ALL.iter().map(|mesh| mesh.name()))
    }
}

/// The mesh that is named. A name that none has is a problem.
pub fn of(reader: &mut SettingReader<'_>) -> Mesh {
    let complaint = format!("is not a mesh; expected {}", settings::alternatives(Mesh::NAMES));
    reader.optional(Setting::Mesh, &complaint, |text| text.parse::<Mesh>().ok());
    reader.raw.mesh()
}

/// A configuration, and warnings about the settings that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub capture: Capture,
    pub warnings: Vec<String>,
}

/// Reads the settings of capture, and no others. `before` are problems that were found before it
/// came to values; they come first.
///
/// # Errors
/// Every problem found.
pub fn resolve(raw: &Raw, host: &dyn Host, before: Vec<InputProblem>) -> Result<Resolved, Problems> {
    let mut reader = SettingReader::new(raw, before);
    let capture = configure(&mut reader, host, false);
    let warnings = reader.finish()?;
    Ok(Resolved { capture, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Given, NullHost, Source};

    #[test]
    fn a_mesh_is_known_by_a_misspelt_name_and_refused_all_the_same() {
        for (word, nearest) in [("linkrd", Some("linkerd")), ("kuma", Some("kuma")), ("zzz", None)] {
            assert_eq!(Mesh::nearest(word), nearest, "{word}");
        }
        let refused = |name: &str| {
            let given = Given { value: name.to_owned(), source: Source::Flag("mesh") };
            resolve(&Raw::of([(Setting::Mesh, given)]), &NullHost, Vec::new()).expect_err(name).0[0]
                .to_string()
        };
        let expected = "expected istio, linkerd, kuma or ambient";
        assert_eq!(refused("consul"), format!("--mesh: \"consul\" is not a mesh; {expected}"));
        assert_eq!(
            refused("isto"),
            format!("--mesh: \"isto\" is not a mesh; did you mean istio? {expected}")
        );
    }
}
