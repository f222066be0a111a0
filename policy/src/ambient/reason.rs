//! Why each rule is there: its name, the setting that makes it, and the sentence that tells it.

use super::settings::Ambient;
use crate::settings::Setting;
use rules::Origin;

macro_rules! reasons {
    ($($reason:ident $name:literal [$($setting:ident),*];)*) => {
        /// A rule of the policy. Rules that do the same for the same reason share one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($reason,)*
        }

        impl Reason {
            /// Every reason, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The short name in kebab case: comment in nf_tables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// The setting that makes the rule; none for what is always there.
            pub fn settings(self) -> &'static [Setting] {
                match self {
                    $(Self::$reason => &[$(Ambient::$setting,)*],)*
                }
            }
        }
    };
}

reasons! {
    Arriving "ambient-arriving" [];
    Dns "ambient-dns" [DnsCapture];
    DnsZone "ambient-dns-zone" [DnsCapture];
    Inbound "ambient-inbound" [Ingress];
    Leaving "ambient-leaving" [];
    Machine "ambient-machine" [RerouteInterfaces];
    Outbound "ambient-outbound" [];
    OwnPod "ambient-own-pod" [];
    Probe "ambient-probe" [ProbeAddress];
    ProxyToApplication "ambient-proxy-to-application" [];
}

impl Reason {
    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// What the rule carries along: its name, and the setting that made it.
    pub(super) fn origin(self) -> Origin {
        let option = self.settings().first().map_or("", |setting| setting.row().name());
        Origin { name: self.name(), option }
    }

    /// Why such a rule decides, in words. `value` is the item that the rule is about. `None` for rules that only lead on
    /// to others.
    pub fn sentence(self, value: Option<&str>) -> Option<String> {
        Some(match (self, value) {
            (Self::Arriving | Self::Leaving, _) => return None,
            (Self::Dns, _) => {
                "--dns-capture sends DNS queries to ztunnel, whichever server they ask".to_owned()
            }
            (Self::DnsZone, _) => {
                "ztunnel's own DNS queries are kept apart from those of the application".to_owned()
            }
            (Self::Inbound, _) => {
                "everything that arrives by TCP goes to ztunnel, but for its tunnel and its own calls"
                    .to_owned()
            }
            (Self::Machine, Some(name)) => {
                format!("--reroute-virtual-interfaces says that {name} belongs to a virtual machine")
            }
            (Self::Machine, None) => {
                "--reroute-virtual-interfaces says that it comes from a virtual machine".to_owned()
            }
            (Self::Outbound, _) => {
                "everything that leaves by TCP goes to ztunnel, but for what it sends itself".to_owned()
            }
            (Self::OwnPod, _) => "the pod talks to itself, which is not captured".to_owned(),
            (Self::Probe, Some(address)) => {
                format!("{address} is where the host's own calls come from (--probe-address)")
            }
            (Self::Probe, None) => "the host's own calls are left alone (--probe-address)".to_owned(),
            (Self::ProxyToApplication, _) => {
                "it belongs to a connection by which ztunnel hands a call to the application".to_owned()
            }
        })
    }
}
