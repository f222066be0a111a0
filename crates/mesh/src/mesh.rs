//! The only list of meshes. Each mesh has a folder ([`crate::registry`]).

use std::{fmt, str::FromStr};

/// A mesh's pod annotations that are not settings. Names in one domain share a string: `domain/name name`.
#[derive(Clone, Copy)]
pub(crate) struct KnownAnnotations {
    /// Annotations that affect capture without being a setting's value.
    pub(crate) deciding: &'static [&'static str],
    /// Annotations unrelated to capture.
    pub(crate) others: &'static [&'static [&'static str]],
}

/// Passes the list to a macro, default mesh first: each mesh, its folder and its `--mesh` name.
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
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mesh {
            #[default]
            $($(#[doc = $doc])* $mesh,)*
        }

        impl Mesh {
            pub const ALL: &[Self] = &[$(Self::$mesh,)*];

            pub const NAMES: &[&str] = &[$($name,)*];

            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
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

/// Defines the capture features of all meshes: the rows of the comparison table, in order.
macro_rules! features {
    ($($feature:ident $title:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $($feature,)*
        }

        impl Feature {
            pub const ALL: &[Self] = &[$(Self::$feature,)*];

            pub fn title(self) -> &'static str {
                [$($title,)*][self as usize]
            }
        }
    };
}

features! {
    Listeners "The proxy's ports";
    Identity "The proxy's user";
    Directions "One direction";
    InboundOnly "Inbound: ports captured";
    InboundExcept "Inbound: ports excluded";
    SourcesExcept "Inbound: networks excluded";
    OutboundNetworks "Outbound: networks captured";
    OutboundNetworksExcept "Outbound: networks excluded";
    OutboundOnly "Outbound: ports captured";
    OutboundExcept "Outbound: ports excluded";
    Ranges "Port ranges";
    PortsByUser "Outbound: ports excluded for a user";
    Groups "Outbound: groups";
    Interfaces "Interfaces excluded";
    Machines "Virtual machine interfaces";
    Loopback "Loopback addresses";
    Dns "DNS to the servers of resolv.conf";
    DnsAll "DNS to any server";
    Tproxy "TPROXY";
    Ipv6 "IPv6";
    Invalid "INVALID packets dropped";
    Logs "Logs";
    Probes "Host probes";
    Form "Rule form";
}
