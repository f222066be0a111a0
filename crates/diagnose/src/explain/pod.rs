//! What is known of a pod beside its rules: its addresses, who its proxy is, who else sends packets.

use mesh::istio::defaults::{PASSTHROUGH_V6, PROXY_ID};
use mesh::settings::Setting;
use mesh::sources::{Host, Raw, STAND_IN};
use mesh::{CapturePolicy, OWNERS, Proxy};
use rules::{Family, Gid, Uid};
use std::net::IpAddr;

/// What a question about a packet leaves open.
#[derive(Clone, Debug)]
pub struct PodContext {
    /// Its addresses; where [`PodContext::is_known`] is false, placeholders for them.
    pub addresses: Vec<IpAddr>,
    /// Whether the addresses are its own.
    pub is_known: bool,
    /// The proxy's user and group.
    pub proxy: (Uid, Gid),
    /// The mark of the proxy's packets; 0 where they have none.
    pub mark: u32,
}

/// Who sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    App,
    Proxy,
    /// A caller outside the pod.
    External,
}

/// The user and group of an application that nothing describes.
const APPLICATION: u32 = 1000;

/// The interface of a pod, as container runtimes name it.
pub(super) const OUTSIDE: &str = "eth0";

impl PodContext {
    /// A pod that has some of these addresses: those by which others reach it.
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>, config: Option<&dyn CapturePolicy>) -> Self {
        let default = Uid::new(PROXY_ID).expect("the number is valid");
        let is_pods = |address: &IpAddr| match address {
            IpAddr::V4(address) => !address.is_loopback(),
            IpAddr::V6(address) => {
                // A mesh adds one to the loopback interface, for its proxy to send from.
                let is_meshs = OWNERS.iter().any(|mesh| mesh.address == Some(*address));
                !address.is_loopback() && !address.is_unicast_link_local() && !is_meshs
            }
        };
        let addresses = addresses.into_iter().filter(is_pods).collect();
        let plain = Self { addresses, is_known: true, proxy: (default, default.into()), mark: 0 };
        plain.with_proxy(&config.map(|config| config.proxy()).unwrap_or_default())
    }

    /// A pod by these addresses, with a placeholder for each family that has none.
    pub fn with_placeholders(addresses: Vec<IpAddr>, config: Option<&dyn CapturePolicy>) -> Self {
        let mut pod = Self::new(addresses, config);
        for family in Family::BOTH {
            if !pod.addresses.iter().any(|address| Family::of(*address) == family) {
                pod.addresses.push(placeholder(family));
            }
        }
        pod
    }

    /// The same with what is known of the proxy; what is not stays as it is.
    #[must_use]
    pub fn with_proxy(self, proxy: &Proxy) -> Self {
        let (uid, gid) = self.proxy;
        let proxys = (proxy.uids.first().copied().unwrap_or(uid), proxy.gids.first().copied().unwrap_or(gid));
        Self { proxy: proxys, mark: proxy.mark.map_or(self.mark, |mark| mark.value), ..self }
    }

    /// A pod by the addresses that were declared, or else by those that the host has, where there is one to ask. Where nothing
    /// is known, a placeholder.
    pub fn from_settings(raw: &Raw, config: Option<&dyn CapturePolicy>, host: Option<&dyn Host>) -> Self {
        let declared = declared_addresses(raw);
        let is_known = declared.is_some() || host.is_some_and(Host::knows_addresses);
        let of_host = || host.and_then(|host| host.addresses().ok()).unwrap_or_default();
        let pod = Self::new(declared.unwrap_or_else(of_host), config);
        match pod.addresses.is_empty() {
            true => Self { addresses: vec![placeholder(Family::V4)], is_known: false, ..pod },
            false => Self { is_known, ..pod },
        }
    }

    /// The first of its addresses in a family, and whether that is its own.
    pub(super) fn address(&self, family: Family) -> (IpAddr, bool) {
        let own = self.addresses.iter().copied().find(|own| Family::of(*own) == family);
        (own.unwrap_or(placeholder(family)), own.is_some() && self.is_known)
    }

    pub(super) fn owner(&self, sender: Sender) -> (Uid, Gid) {
        let app = Uid::new(APPLICATION).expect("the number is valid");
        match sender {
            Sender::App | Sender::External => (app, app.into()),
            Sender::Proxy => self.proxy,
        }
    }

    /// The mark of what a sender sends.
    pub(super) fn mark(&self, sender: Sender) -> u32 {
        if sender == Sender::Proxy { self.mark } else { 0 }
    }

    /// The interface by which packets to an address leave.
    pub(crate) fn route(&self, destination: IpAddr) -> &'static str {
        let own = destination.is_loopback()
            || destination == IpAddr::V6(PASSTHROUGH_V6)
            || self.addresses.contains(&destination);
        if own { "lo" } else { OUTSIDE }
    }
}

/// The addresses that `--pod-ips` declares; `None` if it is not given.
pub(crate) fn declared_addresses(raw: &Raw) -> Option<Vec<IpAddr>> {
    let given = raw.get(Setting::PodIps)?;
    Some(given.value.split(',').filter_map(|item| item.trim().parse().ok()).collect())
}

fn placeholder(family: Family) -> IpAddr {
    match family {
        Family::V4 => STAND_IN.0.into(),
        Family::V6 => STAND_IN.1.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::configured;
    use mesh::Mesh;
    use std::io;

    /// A machine whose addresses are not the pod's.
    struct OtherMachine;

    impl Host for OtherMachine {
        fn addresses(&self) -> io::Result<Vec<IpAddr>> {
            Ok(vec!["10.3.0.1".parse().expect("an address")])
        }

        fn knows_addresses(&self) -> bool {
            false
        }

        fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_family_of_which_others_reach_no_address_has_a_placeholder() {
        let unreachable: [IpAddr; 2] = ["127.0.0.1", "fe80::1"].map(|text| text.parse().expect("an address"));
        let pod = PodContext::with_placeholders(unreachable.to_vec(), None);
        assert_eq!(pod.addresses, Family::BOTH.map(placeholder));
    }

    #[test]
    fn addresses_count_as_the_pods_where_they_are_declared_or_the_host_knows_them() {
        let declared = configured(Mesh::Istio, &[("pod-ips", "10.3.0.2")]).expect("valid").0;
        let plain = configured(Mesh::Istio, &[]).expect("valid").0;
        let is_known = |raw| PodContext::from_settings(raw, None, Some(&OtherMachine)).is_known;
        assert!(is_known(&declared) && !is_known(&plain));
    }
}
