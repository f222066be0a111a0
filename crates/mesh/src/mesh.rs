//! The meshes: the one list of them. What each name stands for is a folder ([`crate::registry`]).

mod feature;

pub use feature::Feature;

use std::{fmt, str::FromStr};

/// Annotations that a mesh knows of pods beside those of its settings, and why they have no meaning for capture; `None` for
/// those that decide about it in another way than as the value of a setting. Names of one domain are in one text: `domain/name name`.
pub(crate) type AnnotationGroup = (Option<&'static str>, &'static [&'static str]);

/// Passes the list to a macro: a row a mesh, with its name here, its folder, and its name as `--mesh` takes it. The
/// default comes first.
macro_rules! meshes {
    ($with:ident) => {
        $with! {
            /// Istio's sidecar, whose rules `istio-iptables` sets.
            Istio istio "istio";
            /// Linkerd's sidecar, whose rules `proxy-init` sets.
            Linkerd linkerd "linkerd";
            /// Kuma, whose rules `kumactl install transparent-proxy` sets.
            Kuma kuma "kuma";
            /// Istio's ambient mode, whose rules the node agent sets for ztunnel.
            Ambient ambient "ambient";
        }
    };
}
pub(crate) use meshes;

macro_rules! names {
    ($($(#[doc = $doc:literal])* $mesh:ident $module:ident $name:literal;)*) => {
        /// A mesh whose capture rules we make.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mesh {
            #[default]
            $($(#[doc = $doc])* $mesh,)*
        }

        impl Mesh {
            /// The default first.
            pub const ALL: &[Self] = &[$(Self::$mesh,)*];

            /// In the order of `ALL`.
            pub const NAMES: &[&str] = &[$($name,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$mesh => $name,)*
                }
            }
        }
    };
}

meshes!(names);

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mesh {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|mesh| mesh.name() == text).ok_or(())
    }
}
