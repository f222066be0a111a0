//! Facts of a pod beside its rules: its addresses, its proxy, and the users of its application.

use mesh::istio::defaults::{PASSTHROUGH_V6, PROXY_ID};
use mesh::pod::Application;
use mesh::settings::Setting;
use mesh::sources::{Host, Raw, STAND_IN};
use mesh::{CapturePolicy, OWNERS, Proxy};
use rules::simulate::LOOPBACK;
use rules::{Family, Gid, Uid};
use std::fmt;
use std::net::IpAddr;

/// Defaults where a question about a packet leaves something open.
#[derive(Clone, Debug)]
pub struct PodContext {
    /// Its addresses; where [`PodContext::is_known`] is false, placeholders for them.
    pub addresses: Vec<IpAddr>,
    pub is_known: bool,
    pub proxy: (Uid, Gid),
    /// 0 where the proxy's packets have none.
    pub mark: u32,
    /// The user and group of the application, and a remark about the user where a manifest does not set it.
    pub application: (Uid, Gid),
    pub user_remark: &'static str,
    /// A manifest names the application's user.
    pub(crate) is_user_known: bool,
    /// All users and groups of the proxy.
    pub(crate) proxy_ids: (Vec<Uid>, Vec<Gid>),
}

/// A user and a group of containers beside the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationUser {
    /// `None` where the manifest leaves it to the image.
    pub uid: Option<Uid>,
    pub gid: Gid,
    pub containers: Vec<String>,
}

impl ApplicationUser {
    /// The users of these containers, each once.
    pub fn all(applications: &[Application]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for Application { container, user, group } in applications {
            let uid = user.and_then(|user| Uid::new(user.number));
            // Without a group, a user that the image does not name has group 0 (`runAsGroup` of a security context).
            let assumed = || Gid::new(if uid.is_some() { 0 } else { APPLICATION });
            let Some(gid) = group.and_then(|group| Gid::new(group.number)).or_else(assumed) else { continue };
            match all.iter_mut().find(|one| (one.uid, one.gid) == (uid, gid)) {
                Some(known) => known.containers.push(container.clone()),
                None => all.push(Self { uid, gid, containers: vec![container.clone()] }),
            }
        }
        all
    }

    /// True for the user and the group of an application that nothing describes.
    pub fn is_default(&self) -> bool {
        self.uid.is_none_or(|uid| uid.number() == APPLICATION) && self.gid.number() == APPLICATION
    }
}

/// The user and its containers, as a heading.
impl fmt::Display for ApplicationUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uid, remark) = self.uid.map_or((APPLICATION, ASSUMED), |uid| (uid.number(), ""));
        write!(f, "user {uid}{remark}, group {} ({})", self.gid, self.containers.join(", "))
    }
}

const ASSUMED: &str = " (assumed: the manifest sets no runAsUser)";

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
        let app = Uid::new(APPLICATION).expect("the number is valid");
        let plain = Self {
            addresses,
            is_known: true,
            proxy: (default, default.into()),
            mark: 0,
            application: (app, app.into()),
            user_remark: "",
            is_user_known: false,
            proxy_ids: (vec![default], vec![default.into()]),
        };
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
        let is_known = !proxy.uids.is_empty() || !proxy.gids.is_empty() || proxy.mark.is_some();
        // A proxy whose group rules do not name usually has that of its user's number.
        let gids = match proxy.gids.is_empty() {
            true => proxy.uids.iter().copied().map(Gid::from).collect(),
            false => proxy.gids.clone(),
        };
        let proxy_ids = if is_known { (proxy.uids.clone(), gids) } else { self.proxy_ids };
        Self { proxy: proxys, mark: proxy.mark.map_or(self.mark, |mark| mark.value), proxy_ids, ..self }
    }

    #[must_use]
    pub fn with_application(self, user: &ApplicationUser) -> Self {
        let user_remark = if user.uid.is_some() { "" } else { ASSUMED };
        let application = (user.uid.unwrap_or(self.application.0), user.gid);
        Self { application, user_remark, is_user_known: user.uid.is_some(), ..self }
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

    /// The first of its addresses in a family; true if that is its own.
    pub(super) fn address(&self, family: Family) -> (IpAddr, bool) {
        let own = self.addresses.iter().copied().find(|own| Family::of(*own) == family);
        (own.unwrap_or(placeholder(family)), own.is_some() && self.is_known)
    }

    pub(super) fn owner(&self, sender: Sender) -> (Uid, Gid) {
        match sender {
            Sender::App | Sender::External => self.application,
            Sender::Proxy => self.proxy,
        }
    }

    pub(super) fn mark(&self, sender: Sender) -> u32 {
        if sender == Sender::Proxy { self.mark } else { 0 }
    }

    /// The interface by which packets to an address leave.
    pub(crate) fn route(&self, destination: IpAddr) -> &'static str {
        let own = destination.is_loopback()
            || destination == IpAddr::V6(PASSTHROUGH_V6)
            || self.addresses.contains(&destination);
        if own { LOOPBACK } else { OUTSIDE }
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
    use mesh::pod::Id;
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
    fn containers_of_one_user_are_asked_about_once() {
        let id = |number| Some(Id { number, is_of_pod: false });
        let of = |container: &str, user, group| Application { container: container.to_owned(), user, group };
        let applications =
            [of("a", id(5), None), of("b", None, None), of("c", id(5), id(0)), of("d", id(5), id(7))];
        let users = ApplicationUser::all(&applications);
        let titles: Vec<String> = users.iter().map(ToString::to_string).collect();
        assert_eq!(
            titles,
            [
                "user 5, group 0 (a, c)",
                "user 1000 (assumed: the manifest sets no runAsUser), group 1000 (b)",
                "user 5, group 7 (d)"
            ]
        );
        let pod = |user: usize| PodContext::new([], None).with_application(&users[user]);
        assert_eq!(pod(0).owner(Sender::App).0.number(), 5);
        assert!(pod(1).owner(Sender::App).0.number() == APPLICATION && !pod(1).user_remark.is_empty());
    }

    #[test]
    fn addresses_count_as_the_pods_where_they_are_declared_or_the_host_knows_them() {
        let declared = configured(Mesh::Istio, &[("pod-ips", "10.3.0.2")]).expect("valid").0;
        let plain = configured(Mesh::Istio, &[]).expect("valid").0;
        let is_known = |raw| PodContext::from_settings(raw, None, Some(&OtherMachine)).is_known;
        assert!(is_known(&declared) && !is_known(&plain));
    }
}
