//! Facts about a pod: addresses, proxy, application users, routes, and the rules to walk through.

use mesh::istio::defaults::{PASSTHROUGH_V6, PROXY_ID};
use mesh::sources::{Host, Raw, STAND_IN};
use mesh::{CapturePolicy, OWNERS, Proxy, pod::Application, recognition::named, settings::Setting};
use rules::simulate::{LOOPBACK, Routing, View};
use rules::{Action, Checked, Family, Gid, Listing, Mark, Protocol, Table, Target, Uid, routing::Object};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Defaults for the open properties of a question about a packet.
#[derive(Clone, Debug)]
pub struct PodContext {
    /// Addresses of the pod; placeholders if [`PodContext::is_known`] is false.
    pub addresses: Vec<IpAddr>,
    pub is_known: bool,
    pub proxy: (Uid, Gid),
    /// 0 if the proxy's packets have none.
    pub mark: u32,
    /// User and group of the application, and a remark about the user if a manifest does not set it.
    pub application: (Uid, Gid),
    pub user_remark: &'static str,
    pub(crate) is_user_known: bool,
    pub(crate) proxy_ids: (Vec<Uid>, Vec<Gid>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationUser {
    /// `None` if the manifest leaves it to the image.
    pub uid: Option<Uid>,
    pub gid: Gid,
    pub containers: Vec<String>,
}

impl ApplicationUser {
    pub fn all(applications: &[Application]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for Application { container, user, group } in applications {
            let uid = user.and_then(|user| Uid::new(user.number));
            // A user set by the manifest without a group has group 0 (`runAsGroup` of a security context).
            let assumed = || Gid::new(if uid.is_some() { 0 } else { APPLICATION });
            let Some(gid) = group.and_then(|group| Gid::new(group.number)).or_else(assumed) else { continue };
            match all.iter_mut().find(|one| (one.uid, one.gid) == (uid, gid)) {
                Some(known) => known.containers.push(container.clone()),
                None => all.push(Self { uid, gid, containers: vec![container.clone()] }),
            }
        }
        all
    }

    pub fn is_default(&self) -> bool {
        self.uid.is_none_or(|uid| uid.number() == APPLICATION) && self.gid.number() == APPLICATION
    }
}

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
    External,
}

const APPLICATION: u32 = 1000;

/// Interface of a pod, as container runtimes name it.
pub(super) const OUTSIDE: &str = "eth0";

impl PodContext {
    /// Pod with only the addresses that other hosts can reach.
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>, config: Option<&dyn CapturePolicy>) -> Self {
        let default = Uid::new(PROXY_ID).expect("the number is valid");
        let is_pods = |address: &IpAddr| match address {
            IpAddr::V4(address) => !address.is_loopback(),
            IpAddr::V6(address) => {
                // A mesh adds its proxy's source address to the loopback interface.
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

    pub fn with_placeholders(addresses: Vec<IpAddr>, config: Option<&dyn CapturePolicy>) -> Self {
        let mut pod = Self::new(addresses, config);
        for family in Family::BOTH {
            if !pod.addresses.iter().any(|address| Family::of(*address) == family) {
                pod.addresses.push(placeholder(family));
            }
        }
        pod
    }

    #[must_use]
    pub fn with_proxy(self, proxy: &Proxy) -> Self {
        let (uid, gid) = self.proxy;
        let proxys = (proxy.uids.first().copied().unwrap_or(uid), proxy.gids.first().copied().unwrap_or(gid));
        // Without a group in the rules, the proxy's group usually equals its user.
        let gids = match proxy.gids.is_empty() {
            true => proxy.uids.iter().copied().map(Gid::from).collect(),
            false => proxy.gids.clone(),
        };
        let proxy_ids = if proxy.is_known() { (proxy.uids.clone(), gids) } else { self.proxy_ids };
        Self { proxy: proxys, mark: proxy.mark.map_or(self.mark, |mark| mark.value), proxy_ids, ..self }
    }

    #[must_use]
    pub fn with_application(self, user: &ApplicationUser) -> Self {
        let user_remark = if user.uid.is_some() { "" } else { ASSUMED };
        let application = (user.uid.unwrap_or(self.application.0), user.gid);
        Self { application, user_remark, is_user_known: user.uid.is_some(), ..self }
    }

    /// Pod with its declared addresses, else the host's addresses, else placeholders.
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

    /// First address in a family; true if it is the pod's own.
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

    pub(crate) fn route(&self, destination: IpAddr) -> &'static str {
        let own = destination.is_loopback()
            || destination == IpAddr::V6(PASSTHROUGH_V6)
            || self.addresses.contains(&destination);
        if own { LOOPBACK } else { OUTSIDE }
    }
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingPacket {
    pub to: SocketAddr,
    pub from: Option<IpAddr>,
    pub source_port: Option<u16>,
    pub protocol: Protocol,
    pub uid: Uid,
    pub mark: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingPacket<'a> {
    pub to: IpAddr,
    pub from: Option<IpAddr>,
    pub at: Option<&'a str>,
    pub mark: u32,
}

/// Route of a sent packet; `lo` if it stays in the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub interface: String,
    /// Source address if the sender chooses none.
    pub source: Option<IpAddr>,
    /// Other interfaces, used with other source ports.
    pub others: Vec<String>,
    /// True for broadcast and multicast addresses.
    pub is_group: bool,
}

impl Route {
    pub fn by(interface: String) -> Self {
        Self { interface, source: None, others: Vec::new(), is_group: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub interface: String,
    /// True if the destination is in this pod.
    pub local: bool,
}

/// Source ports that the kernel chooses by default (`net.ipv4.ip_local_port_range`).
pub const LOCAL_PORTS: (u16, u16) = (32_768, 60_999);

pub trait Routes {
    /// Fails with the reason why no such packet is sent, as a clause.
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String>;

    /// Fails with the reason why no such packet is accepted, as a clause.
    fn arriving(&self, packet: &IncomingPacket<'_>) -> Result<Arrival, String>;

    fn local_ports(&self) -> (u16, u16) {
        LOCAL_PORTS
    }

    /// Interface address that REDIRECT chooses. Fails with the reason if there is none: REDIRECT then drops packets.
    fn address_at(&self, interface: &str, family: Family) -> Result<IpAddr, String>;
}

/// Routes of a typical pod: `lo` to itself, and one interface to all other addresses.
impl Routes for PodContext {
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String> {
        let interface = self.route(packet.to.ip()).to_owned();
        let is_group = match packet.to.ip() {
            IpAddr::V4(to) => to.is_multicast() || to.is_broadcast(),
            IpAddr::V6(to) => to.is_multicast(),
        };
        Ok(Route { is_group, ..Route::by(interface) })
    }

    fn arriving(&self, packet: &IncomingPacket<'_>) -> Result<Arrival, String> {
        let local = self.addresses.is_empty() || self.route(packet.to) == LOOPBACK;
        Ok(Arrival { interface: packet.at.unwrap_or(OUTSIDE).to_owned(), local })
    }

    fn address_at(&self, _: &str, family: Family) -> Result<IpAddr, String> {
        Ok(self.address(family).0)
    }
}

#[derive(Clone, Debug)]
pub struct RuleView {
    pub family: Family,
    pub view: View,
    pub routing: Routing,
}

impl RuleView {
    pub fn of_config(config: &dyn CapturePolicy, family: Family, pod: &PodContext) -> Self {
        Self::of_rules(&config.rules(family), config, pod)
    }

    pub(crate) fn of_rules(rules: &Checked, config: &dyn CapturePolicy, pod: &PodContext) -> Self {
        let family = rules.rules().family;
        let marks = config.facts().routing.into_iter().filter_map(|object| match object {
            Object::Rule { family: of, mark, .. } if of == family => Some(mark),
            _ => None,
        });
        let routing = Routing { local_marks: marks.collect(), addresses: pod.addresses.clone() };
        Self { family, view: View::of_rules(rules.rules()), routing }
    }

    pub(crate) fn without_rules(family: Family, pod: &PodContext) -> Self {
        let routing = Routing { local_marks: Vec::new(), addresses: pod.addresses.clone() };
        Self { family, view: View::empty(family), routing }
    }

    /// Rules of a listing, which lacks policy rules: policy rules for TPROXY's marks are assumed.
    pub fn of_listing(listing: Listing, pod: &PodContext) -> Self {
        let family = listing.family;
        let mangle = listing.chains.iter().filter(|((table, _), _)| *table == Table::Mangle);
        let rules = mangle.flat_map(|(_, chain)| &chain.rules);
        let local_marks = rules.filter_map(|listed| tproxy_mark(&listed.line.action())).collect();
        let routing = Routing { local_marks, addresses: pod.addresses.clone() };
        Self { family, view: named(View::of_listing(listing)), routing }
    }
}

/// Mark that TPROXY sets and a policy rule must match.
pub(crate) fn tproxy_mark(action: &Action) -> Option<Mark> {
    match action {
        Action::Target(Target::Tproxy { mark, .. }) if mark.value != 0 => Some(*mark),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random_tests::configured;
    use mesh::Mesh;
    use mesh::pod::Id;
    use std::io;

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
    fn family_without_reachable_address_has_a_placeholder() {
        let unreachable: [IpAddr; 2] = ["127.0.0.1", "fe80::1"].map(|text| text.parse().expect("an address"));
        let pod = PodContext::with_placeholders(unreachable.to_vec(), None);
        assert_eq!(pod.addresses, Family::BOTH.map(placeholder));
    }

    #[test]
    fn containers_of_one_user_are_one_question() {
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
    fn addresses_are_known_if_declared_or_provided_by_the_host() {
        let declared = configured(Mesh::Istio, &[("pod-ips", "10.3.0.2")]).expect("valid").0;
        let plain = configured(Mesh::Istio, &[]).expect("valid").0;
        let is_known = |raw| PodContext::from_settings(raw, None, Some(&OtherMachine)).is_known;
        assert!(is_known(&declared) && !is_known(&plain));
    }
}
