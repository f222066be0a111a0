//! Features of capture in all meshes: the rows of the table that compares them.

macro_rules! features {
    ($($feature:ident $title:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $($feature,)*
        }

        impl Feature {
            /// In the order of the table.
            pub const ALL: &[Self] = &[$(Self::$feature,)*];

            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$feature => $title,)*
                }
            }
        }
    };
}

features! {
    Listeners "The proxy's ports";
    Identity "Who the proxy is";
    Directions "One direction alone";
    InboundOnly "Inbound: these ports and no others";
    InboundExcept "Inbound: all ports but these";
    SourcesExcept "Inbound: calls from these networks excluded (skip subnets)";
    OutboundNetworks "Outbound: these networks and no others";
    OutboundNetworksExcept "Outbound: all networks but these";
    OutboundOnly "Outbound: these ports whatever the network, or no others";
    OutboundExcept "Outbound: all ports but these";
    Ranges "Ranges in lists of ports";
    PortsByUser "Outbound: ports excluded for a user";
    Groups "Outbound: by the group of the process";
    Interfaces "Interfaces excluded";
    Machines "Virtual interfaces, whose traffic counts as outbound";
    Loopback "What counts as loopback";
    Dns "DNS to the servers of resolv.conf";
    DnsAll "DNS to any server";
    Tproxy "TPROXY";
    Ipv6 "IPv6, on or off";
    Invalid "Packets that conntrack calls INVALID dropped";
    Logs "Rules or packets logged";
    Probes "Probes of the host let through";
    Form "How rules are written down";
}
