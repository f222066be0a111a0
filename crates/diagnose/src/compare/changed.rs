//! The packets that two rule sets treat differently: the walk of all packets through the first, and of each of its regions
//! through the second. Regions that change alike are joined along one property at a time.

use crate::explain::RuleView;
use crate::groups::{PacketGroup, joined, widened};
use crate::pod_packets::PodPackets;
use rules::PortRange;
use rules::nft::Field;
use rules::simulate::{Atlas, Binding, Ending, Verdict, Work};
use std::net::IpAddr;

/// The end of packets, whichever rule decides.
pub(crate) type GroupEnd = (Verdict, bool, Option<(Binding<IpAddr>, Binding<PortRange>)>);

pub(crate) fn group_end(ending: Ending) -> GroupEnd {
    (ending.verdict, ending.keeps_port, ending.translated)
}

pub(crate) struct Changed {
    pub(crate) groups: Vec<PacketGroup<[GroupEnd; 2]>>,
    pub(crate) is_complete: bool,
    /// Any packet is captured, before or after.
    pub(crate) any_captured: bool,
}

pub(crate) fn changed(packets: &PodPackets, [before, after]: [&RuleView; 2], work: &mut Work) -> Changed {
    let mut found = Changed { groups: Vec::new(), is_complete: true, any_captured: false };
    for (index, start) in packets.starts.iter().enumerate() {
        let mut groups = Vec::new();
        for set in &start.sets {
            let first = Atlas::of(&before.view, &before.routing, [set.clone()], work);
            found.is_complete &= first.is_complete();
            for region in first.regions {
                let second = Atlas::of(&after.view, &after.routing, [region.packets], work);
                found.is_complete &= second.is_complete();
                for other in second.regions {
                    let ends = [region.ending, other.ending];
                    let is_captured =
                        |end: &Ending| matches!(end.verdict, Verdict::Redirect(_) | Verdict::Tproxy(_));
                    found.any_captured |= ends.iter().any(is_captured);
                    let ends = ends.map(group_end);
                    if ends[0] != ends[1] {
                        groups.push(PacketGroup::of(index, start, set, &other.packets, ends));
                    }
                }
            }
        }
        found.groups.extend(widened(&joined(groups, start), packets, start));
    }
    // Forwarded packets are not described where those to the pod's own address change alike.
    let groups = std::mem::take(&mut found.groups);
    let is_said = |group: &PacketGroup<_>| {
        let alike = |other: &PacketGroup<_>| {
            let mut local = group.with(Field::Destination(packets.family), None);
            local.start = other.start;
            packets.starts[other.start].is_local()
                && local == other.with(Field::Destination(packets.family), None)
        };
        packets.starts[group.start].is_forwarded() && groups.iter().any(alike)
    };
    found.groups = groups.iter().filter(|group| !is_said(group)).cloned().collect();
    found
}
