//! What all that is asked about a policy needs to know of it, beside its rules: who the proxy is, where it listens, and
//! what the lists name.

use crate::settings::Setting;
use rules::{Cidr, Family, Gid, InterfaceName, Mark, Port, PortRange, Protocol, Uid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A port by its number, for the defaults of meshes.
pub(crate) const fn port(number: u16) -> Port {
    Port::new(number).expect("not 0")
}

/// The port of DNS (RFC 1035, 4.2).
pub const DNS_PORT: Port = port(53);

/// Where the proxy listens; `None` where nothing is sent to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// For connections that leave the pod.
    pub outbound: Option<PortRange>,
    /// For connections that arrive.
    pub inbound: Option<PortRange>,
    /// For DNS queries, by UDP and TCP.
    pub dns: Option<Port>,
    /// For tunnels of the mesh: called by its number, and so never captured.
    pub tunnel: Option<Port>,
    /// The mark of what is handed to the inbound listener unchanged, where that is a transparent one (TPROXY).
    pub transparent: Option<Mark>,
}

/// Who the proxy is, and where it listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    pub listeners: Listeners,
    /// Users whose traffic is its own.
    pub uids: Vec<Uid>,
    /// Groups whose traffic is its own.
    pub gids: Vec<Gid>,
    /// The mark of its own packets, where it is known by that.
    pub mark: Option<Mark>,
    /// The addresses from which it hands calls to the application, where it has its own for that.
    pub passthrough: Option<(Ipv4Addr, Ipv6Addr)>,
}

impl Proxy {
    /// The address of a family from which it hands calls to the application.
    pub fn passthrough(&self, family: Family) -> Option<IpAddr> {
        self.passthrough.map(|(v4, v6)| match family {
            Family::V4 => v4.into(),
            Family::V6 => v6.into(),
        })
    }
}

/// That IPv6 is not captured, as advice tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoIpv6 {
    /// Why, in a sentence without its stop.
    pub why: &'static str,
    /// The setting that says so.
    pub setting: Setting,
    /// What helps where the pod has IPv6.
    pub remedy: &'static str,
}

/// What helps where settings leave nothing to capture, and no single one says what to capture.
pub(crate) const NOTHING_LEFT: (Option<Setting>, &str) =
    (None, "take out of them what leaves everything alone");

/// A setting that was given and has no effect beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    pub setting: Setting,
    /// Why, in words that follow those of the setting, such as `it lists ports that are captured anyway`.
    pub because: &'static str,
    /// What helps.
    pub remedy: &'static str,
}

/// The settings that change what every mesh has, for advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKeys {
    /// What says that nothing is to be captured, where one setting does, and what helps if that was not meant.
    pub off: Option<(Setting, &'static str)>,
    /// What says what to capture, where one setting does, and what helps where it captures nothing.
    pub on: (Option<Setting>, &'static str),
    /// What says whether IPv6 is captured, and how it comes to be, such as `give --dual-stack`.
    pub ipv6: (Setting, &'static str),
    /// What says whose traffic is the proxy's own; `None` if nothing does.
    pub proxy: Option<Setting>,
    /// What says where the proxy listens, and at which ports it does.
    pub listeners: Vec<(Setting, PortRange)>,
}

/// What is named by a list of a setting, or by the policy itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Where connections go that leave.
    Destination(Cidr),
    /// Where connections come from that arrive.
    Source(Cidr),
    /// The port of connections that leave, of these protocols.
    OutboundPort(PortRange, &'static [Protocol]),
    /// The port of connections that arrive.
    InboundPort(PortRange),
    /// The port of the mesh's tunnels, which is never captured.
    Tunnel(Port),
    /// An interface by which traffic comes and goes.
    Interface(InterfaceName),
    /// An interface behind which somebody else sits, such as a virtual machine.
    Machine(InterfaceName),
    /// A user of the application, or a range of them, with both ends.
    User(Uid, Uid),
    /// A group of the application.
    Group(Gid),
    /// A DNS server.
    Server(IpAddr),
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    /// The setting that names it.
    pub setting: Setting,
    pub selector: Selector,
    /// Whether it is selector to be captured, and not to be left alone.
    pub captured: bool,
}

impl ListItem {
    /// What the list is about, for headings and legends.
    pub fn meaning(&self) -> &'static str {
        match (&self.selector, self.captured) {
            (Selector::Destination(_), true) => "networks whose connections are captured",
            (Selector::Destination(_), false) => "networks left alone",
            (Selector::Source(_), true) => "networks whose calls are captured",
            (Selector::Source(_), false) => "networks whose calls are left alone",
            (Selector::OutboundPort(..), true) => "outbound ports captured wherever they are",
            (Selector::OutboundPort(..), false) => "outbound ports left alone",
            (Selector::InboundPort(_), true) => "inbound ports captured",
            (Selector::InboundPort(_), false) => "inbound ports left alone",
            (Selector::Tunnel(_), _) => "the tunnel's port",
            (Selector::Interface(_), true) => "interfaces captured",
            (Selector::Interface(_), false) => "interfaces left alone",
            (Selector::Machine(_), _) => "interfaces of virtual machines, whose calls go out",
            (Selector::User(..), true) => "users whose calls are captured",
            (Selector::User(..), false) => "users whose calls are left alone",
            (Selector::Group(_), true) => "groups whose calls are captured",
            (Selector::Group(_), false) => "groups whose calls are left alone",
            (Selector::Server(_), _) => "DNS servers whose queries are captured",
        }
    }
}
