//! All packets of a pod: to other hosts, to itself, and inbound for the pod or virtual machines behind it.

use crate::explain::PodContext;
#[cfg(test)]
use crate::explain::RuleView;
use rules::nft::{Field, Interval, Intervals, interface_number, protocol_number, state_bit};
#[cfg(test)]
use rules::simulate::{Atlas, Work};
use rules::simulate::{Direction, Marks, Packet, PacketSet, View, Way, loopback_interface, number};
use rules::{ConnState, Family, Gid, ListedCondition, Protocol, Uid};
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports for examples; few configurations list them.
pub(crate) const PLAIN_PORTS: [u16; 6] = [8080, 80, 9000, 12_345, 23_456, 34_567];

/// Port within the kernel's default range (`net.ipv4.ip_local_port_range` starts at 32768).
pub const SOURCE_PORT: u16 = 40_000;

#[derive(Debug)]
pub(crate) struct PodPackets {
    pub(crate) family: Family,
    owned: Vec<IpAddr>,
    own: Intervals,
    /// The pod's own and loopback addresses.
    pub(crate) local: Intervals,
    pub(crate) starts: Vec<Start>,
}

/// Packets of one direction, in each state that the rules distinguish. New connections come first.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) way: Way,
    pub(crate) is_within: bool,
    pub(crate) sets: Vec<PacketSet>,
}

impl Start {
    pub(crate) fn values(&self, field: Field) -> Option<Intervals> {
        self.sets[0].values(field).map(Intervals::joined)
    }

    /// Packet marks (0) or connection marks (1).
    pub(crate) fn marks(&self, at: usize) -> &Marks {
        [self.sets[0].mark(), self.sets[0].connmark()][at]
    }

    pub(crate) fn is_inbound(&self) -> bool {
        self.way != Way::Outbound
    }

    pub(crate) fn is_local(&self) -> bool {
        self.way == Way::Inbound { local: true }
    }

    pub(crate) fn is_forwarded(&self) -> bool {
        self.way == Way::Inbound { local: false }
    }
}

impl PodPackets {
    /// Packets that the rules may distinguish. If the pod's addresses are unknown, any address may be its own.
    pub(crate) fn of(views: &[&View], pod: &PodContext, is_known: bool) -> Self {
        let family = views[0].family();
        let empty = Self::without_starts(family, &pod.addresses);
        let Self { own, local, .. } = &empty;
        let (loopback, lo) = (loopback(family), loopback_interface());
        let states = states(views);
        let start = |way: Way, is_within: bool| {
            let set = |state: ConnState| {
                // Packets from outside have no mark; new connections, no connection mark.
                let any_if = |is_any| if is_any { Marks::any() } else { Marks::one(0) };
                let (mark, connmark) =
                    (any_if(way == Way::Outbound), any_if(state == ConnState::Established));
                let all = PacketSet::all(family, way, state).marked(mark, connmark);
                let (source, destination) = (Field::Source(family), Field::Destination(family));
                match (way, is_within) {
                    (Way::Outbound, true) => {
                        let all = if is_known { all.with(destination, local) } else { all };
                        all.with(source, local).with(Field::OutInterface, &lo)
                    }
                    (Way::Outbound, false) => {
                        let within = if is_known { local } else { &loopback };
                        all.without(destination, within).with(source, own).without(Field::OutInterface, &lo)
                    }
                    // No packet from outside has a source or destination on the loopback interface.
                    (Way::Inbound { local: is_local }, _) => {
                        let all = all.without(source, local).without(Field::InInterface, &lo);
                        if is_local { all.with(destination, own) } else { all.without(destination, local) }
                    }
                }
            };
            Start { way, is_within, sets: states.iter().map(|state| set(*state)).collect() }
        };
        let starts = vec![
            start(Way::Outbound, false),
            start(Way::Outbound, true),
            start(Way::Inbound { local: true }, false),
            start(Way::Inbound { local: false }, false),
        ];
        Self { starts, ..empty }
    }

    /// Only `set`, for a pod with these addresses; if `is_within`, packets stay within the pod.
    pub(crate) fn alone(set: PacketSet, is_within: bool, addresses: &[IpAddr]) -> Self {
        let mut packets = Self::without_starts(set.family, addresses);
        if let Some(called) = set.values(Field::Destination(set.family)).filter(|_| is_within) {
            packets.local = called.clone();
        }
        packets.starts.push(Start { way: set.way, is_within, sets: vec![set] });
        packets
    }

    fn without_starts(family: Family, addresses: &[IpAddr]) -> Self {
        let owned = addresses.iter().copied().filter(|own| Family::of(*own) == family).collect();
        let own = own_addresses(family, addresses);
        let local = local_addresses(family, addresses);
        Self { family, owned, own, local, starts: Vec::new() }
    }

    /// Disjoint sets.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &PacketSet> {
        self.starts.iter().flat_map(|start| &start.sets)
    }

    pub(crate) fn is_own(&self, range: Interval) -> bool {
        self.own.meets(&range.into())
    }

    /// Typical values, the likeliest first.
    fn usual(&self, field: Field) -> Vec<u128> {
        match field {
            Field::DestinationPort => PLAIN_PORTS.map(u128::from).into(),
            Field::SourcePort => vec![SOURCE_PORT.into()],
            Field::Uid | Field::Gid => vec![1000, 1001, 2000, 5000],
            Field::InInterface | Field::OutInterface => ["eth0", "net-9"].map(interface_number).into(),
            Field::Source(_) | Field::Destination(_) => {
                let own = self.owned.first().map(|own| number(*own));
                outside_addresses(self.family).map(number).into_iter().chain(own).collect()
            }
            _ => Vec::new(),
        }
    }

    /// True if values should be named, not excepted: they are fewer, or lack the typical value.
    pub(crate) fn is_narrow(&self, values: &Intervals, all: &Intervals, field: Field) -> bool {
        let mut others = all.clone();
        others.remove(values);
        let has = |set: &Intervals, value: &u128| set.meets(&Intervals::one(*value));
        let is_usual =
            || self.usual(field).iter().find(|value| has(all, value)).is_none_or(|value| has(values, value));
        match values.ranges().len().cmp(&others.ranges().len()) {
            _ if matches!(field, Field::Source(_)) => !is_usual(),
            Ordering::Less => true,
            Ordering::Equal => !is_usual(),
            Ordering::Greater => false,
        }
    }

    /// Packet of a set, with typical values where possible.
    pub(crate) fn example(&self, set: &PacketSet) -> Option<Packet> {
        let outside = Intervals::one(interface_number("eth0"));
        let is_called = set.way != Way::Outbound
            && set.values(Field::InInterface).is_none_or(|interfaces| interfaces.meets(&outside));
        let packet = set.sample(&|field| {
            let mut usual = self.usual(field);
            // Callers send to the pod, virtual machines to other hosts.
            if is_called && matches!(field, Field::Destination(_)) {
                usual.reverse();
            }
            usual
        })?;
        // Calls to the pod itself have a source that fits the destination.
        let fitting = SocketAddr::new(self.default_source(packet.destination.ip()), packet.source.port());
        let fitted = Packet { source: fitting, ..packet.clone() };
        Some(if set.way == Way::Outbound && set.contains(&fitted) { fitted } else { packet })
    }

    fn default_source(&self, to: IpAddr) -> IpAddr {
        match to {
            IpAddr::V4(to) if to.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            to if self.local.meets(&Intervals::one(number(to))) => to,
            to => self.owned.first().copied().unwrap_or(to),
        }
    }

    /// Typical new TCP connections from and to other hosts.
    pub(crate) fn usual_sets(&self) -> impl Iterator<Item = PacketSet> {
        let tcp = Intervals::one(protocol_number(Protocol::Tcp).into());
        let (source, destination) = (Field::Source(self.family), Field::Destination(self.family));
        let with_others = self.starts.iter().filter(|start| !start.is_within && !start.is_forwarded());
        with_others.map(move |start| {
            let fields: &[Field] = match start.is_inbound() {
                true => &[source, Field::InInterface],
                false => &[destination, Field::OutInterface, Field::Uid, Field::Gid],
            };
            let set = start.sets[0].clone().with(Field::Protocol, &tcp).marked(Marks::one(0), Marks::one(0));
            fields.iter().chain(&[Field::SourcePort, Field::DestinationPort]).fold(set, |set, field| {
                set.with(*field, &self.usual(*field).into_iter().map(Interval::one).collect())
            })
        })
    }

    /// True for the placeholder for addresses outside the pod.
    pub(crate) fn is_outside_example(&self, address: IpAddr) -> bool {
        outside_addresses(self.family)[0] == address
    }

    /// Counts an example's typical parts: another host, a source port in the kernel's range, a common port, a typical user.
    pub(crate) fn usual_parts(&self, example: &Packet) -> usize {
        let ends = [example.source.ip(), example.destination.ip()];
        let is_with_others = ends.iter().any(|end| self.is_outside_example(*end));
        let is_plain = PLAIN_PORTS.contains(&example.destination.port());
        let is_users = match &example.direction {
            Direction::Outbound { uid, .. } => self.usual(Field::Uid).contains(&uid.number().into()),
            Direction::Inbound { .. } => true,
        };
        let parts = [is_with_others, example.source.port() == SOURCE_PORT, is_plain, is_users];
        parts.into_iter().map(usize::from).sum()
    }
}

fn states(views: &[&View]) -> Vec<ConnState> {
    let chains = || views.iter().flat_map(|view| view.chains());
    let conditions = || chains().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.conditions);
    let mut fields = conditions().filter_map(ListedCondition::field);
    if !fields.any(|field| matches!(field, Field::ConnState | Field::Connmark(_))) {
        return vec![ConnState::New];
    }
    let answers = |state: ConnState| -> Vec<bool> {
        let known = conditions().filter_map(mesh::recognition::field_condition);
        let of_state = known.filter(|one| one.field == Field::ConnState);
        of_state.map(|one| one.holds(state_bit(state).into())).collect()
    };
    let is_apart = answers(ConnState::Related) != answers(ConnState::New);
    let related = is_apart.then_some(ConnState::Related);
    [ConnState::New, ConnState::Established, ConnState::Invalid].into_iter().chain(related).collect()
}

pub(crate) fn owners(uids: &[Uid], gids: &[Gid]) -> (Intervals, Intervals) {
    let uids = uids.iter().map(|uid| Interval::one(uid.number().into())).collect();
    (uids, gids.iter().map(|gid| Interval::one(gid.number().into())).collect())
}

pub(crate) fn without_owners(set: PacketSet, uids: &[Uid], gids: &[Gid]) -> PacketSet {
    let (uids, gids) = owners(uids, gids);
    set.without(Field::Uid, &uids).without(Field::Gid, &gids)
}

pub(crate) fn own_addresses(family: Family, addresses: &[IpAddr]) -> Intervals {
    let own = addresses.iter().filter(|own| Family::of(**own) == family);
    own.map(|own| Interval::one(number(*own))).collect()
}

pub(crate) fn local_addresses(family: Family, addresses: &[IpAddr]) -> Intervals {
    let mut local = own_addresses(family, addresses);
    local.union(&loopback(family));
    local
}

/// Loopback addresses, and the address from which Istio's proxy forwards calls to the application.
pub(crate) fn loopback(family: Family) -> Intervals {
    match family {
        Family::V4 => Interval { first: 127 << 24, last: (128 << 24) - 1 }.into(),
        Family::V6 => [1, 6].map(Interval::one).into_iter().collect(),
    }
}

/// Addresses without a host: for documentation (RFC 5737, RFC 3849, RFC 9637), and for discarding (RFC 6666).
pub(crate) fn outside_addresses(family: Family) -> [IpAddr; 3] {
    match family {
        Family::V4 => [[192, 0, 2, 1], [203, 0, 113, 1], [198, 51, 100, 1]].map(IpAddr::from),
        Family::V6 => [0x2001_0db8, 0x3fff_0000, 0x0100_0000]
            .map(|head: u128| Ipv6Addr::from_bits((head << 96) + 1).into()),
    }
}

/// One packet per region that the rules distinguish.
#[cfg(test)]
pub(crate) fn samples(rule_view: &RuleView, pod: &PodContext) -> Vec<Packet> {
    let packets = PodPackets::of(&[&rule_view.view], pod, false);
    let (sets, mut work) = (packets.sets().cloned(), Work::new(1_000_000));
    let atlas = Atlas::of(&rule_view.view, &rule_view.routing, sets, &mut work);
    atlas.regions.iter().filter_map(|region| packets.example(&region.packets)).collect()
}
