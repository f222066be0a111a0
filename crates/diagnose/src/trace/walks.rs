//! Walks of single packets, assembled from traced steps; and NFLOG reports, per packet. The trace's own chains, `first` and
//! `last`, mark the beginning and the end of a walk. A packet to the machine itself is outbound, then inbound, in one walk.

use rules::report::{Headers, NflogMessage, PacketSnapshot, TraceEvent, TraceEventKind};
use rules::simulate::LOOPBACK;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Time without a step or report after which a packet counts as finished.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum number of open packets. Further packets end the oldest one.
const MAX_OPEN: usize = 4_096;

/// The trace's own chains.
#[derive(Clone, Copy, Debug)]
pub struct TraceChains {
    pub table: &'static str,
    pub first: [&'static str; 2],
    pub last: [&'static str; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    id: u32,
    pub began: SystemTime,
    latest: SystemTime,
    pub is_inbound: bool,
    /// First and last state of the packet.
    pub first: Option<PacketSnapshot>,
    pub last: Option<PacketSnapshot>,
    pub mark: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Steps, without the trace's own chains.
    pub events: Vec<TraceEvent>,
    /// Last of the trace's own chains reached.
    pub ended_in: Option<String>,
    /// True from sending until receipt over loopback.
    waits: bool,
    /// True until the packet leaves the first chain, outbound or inbound.
    is_fresh: bool,
    pub is_incomplete: bool,
}

pub struct Walks {
    chains: TraceChains,
    open: Vec<Walk>,
    /// Users and groups of packets whose walk has not begun.
    owners: BTreeMap<FlowKey, (SystemTime, Option<u32>, Option<u32>)>,
    /// True if the kernel has dropped steps after the queued steps.
    has_lost: bool,
}

/// Protocol, addresses and ports, which distinguish simultaneous packets.
type FlowKey = String;

impl Walks {
    pub fn new(chains: TraceChains) -> Self {
        Self { chains, open: Vec::new(), owners: BTreeMap::new(), has_lost: false }
    }

    /// Marks open walks, and walks begun before [`Self::catch_up`], as incomplete: the kernel has dropped steps.
    pub fn lose(&mut self) {
        self.has_lost = true;
        self.open.iter_mut().for_each(|walk| walk.is_incomplete = true);
    }

    /// To call when the queue is empty: the kernel then queues new steps again (`netlink_rcv_wake`).
    pub fn catch_up(&mut self) {
        self.has_lost = false;
    }

    /// Records a packet's sender, which the kernel reports before the packet's steps.
    pub fn hear(&mut self, report: &NflogMessage, now: SystemTime) {
        // A packet received over loopback has lost its sender.
        if let Some(flow) = flow(&report.packet).filter(|_| report.uid.is_some()) {
            self.owners.insert(flow, (now, report.uid, report.gid));
        }
    }

    /// Takes a step; returns the walks that it ends.
    pub fn take(&mut self, event: TraceEvent, now: SystemTime) -> Vec<Walk> {
        let mut ended = Vec::new();
        let is_ours = event.table == self.chains.table;
        if is_ours && self.chains.first.contains(&event.chain.as_str()) {
            if !self.open.iter().any(|walk| walk.id == event.id && walk.is_fresh) {
                ended.extend(self.begin(event, now));
            }
            return ended;
        }
        let Some(index) = self.open.iter().position(|walk| walk.id == event.id) else { return ended };
        let walk = &mut self.open[index];
        (walk.latest, walk.is_fresh) = (now, false);
        if let Some(seen) = &event.packet {
            walk.last = Some(seen.clone());
        }
        if !is_ours {
            let drops = matches!(
                event.kind,
                TraceEventKind::Rule { drops: true, .. } | TraceEventKind::Policy { drops: true }
            );
            walk.events.push(event);
            if drops {
                ended.push(self.open.remove(index));
            }
            return ended;
        }
        walk.ended_in = Some(event.chain);
        // Packets sent over loopback are received again.
        let comes_back = walk.ended_in.as_deref() == Some(self.chains.last[1])
            && walk.last.as_ref().is_some_and(|seen| seen.out_interface.as_deref() == Some(LOOPBACK));
        walk.waits = comes_back;
        if !comes_back {
            ended.push(self.open.remove(index));
        }
        ended
    }

    /// Ends and returns walks without a recent step, or all without `now`.
    pub fn end(&mut self, now: Option<SystemTime>) -> Vec<Walk> {
        self.owners.retain(|_, (then, ..)| !is_old(*then, now));
        self.open.extract_if(.., |walk| is_old(walk.latest, now)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn begin(&mut self, event: TraceEvent, now: SystemTime) -> Option<Walk> {
        let is_inbound = event.chain == self.chains.first[0];
        let from_here = |seen: &PacketSnapshot| seen.in_interface.as_deref() == Some(LOOPBACK);
        if is_inbound && event.packet.as_ref().is_some_and(from_here) {
            let source = event.packet.as_ref().and_then(|seen| sender(&seen.packet));
            let same = |walk: &&mut Walk| {
                walk.waits && walk.last.as_ref().and_then(|seen| sender(&seen.packet)) == source
            };
            if let Some(walk) = self.open.iter_mut().find(same) {
                (walk.id, walk.latest, walk.waits, walk.is_fresh) = (event.id, now, false, true);
                return None;
            }
        }
        // An earlier packet may have this id.
        let before = self.open.iter().position(|walk| walk.id == event.id);
        let crowd = (self.open.len() >= MAX_OPEN).then_some(0);
        let ended = before.or(crowd).map(|index| self.open.remove(index));
        let owner = event.packet.as_ref().and_then(|seen| self.owners.remove(&flow(&seen.packet)?));
        let (_, uid, gid) = owner.unwrap_or((now, None, None));
        self.open.push(Walk {
            id: event.id,
            began: now,
            latest: now,
            is_inbound,
            last: event.packet.clone(),
            first: event.packet,
            mark: event.mark,
            uid,
            gid,
            events: Vec::new(),
            ended_in: None,
            waits: false,
            is_fresh: true,
            is_incomplete: self.has_lost,
        });
        ended
    }
}

#[cfg(test)]
impl Walk {
    pub(crate) fn example(
        began: SystemTime,
        is_inbound: bool,
        first: PacketSnapshot,
        uid: Option<u32>,
        events: Vec<TraceEvent>,
    ) -> Self {
        Self {
            id: 1,
            began,
            latest: began,
            is_inbound,
            last: None,
            first: Some(first),
            mark: 0,
            uid,
            gid: uid,
            events,
            ended_in: is_inbound.then(|| "input".to_owned()),
            waits: false,
            is_fresh: false,
            is_incomplete: false,
        }
    }
}

fn flow(packet: &[u8]) -> Option<FlowKey> {
    Headers::read(packet).map(|headers| format!("{headers:?}"))
}

fn sender(packet: &[u8]) -> Option<(u8, std::net::IpAddr, Option<u16>)> {
    let headers = Headers::read(packet)?;
    Some((headers.protocol, headers.source, headers.ports.map(|(source, _)| source)))
}

/// True if the last report is too old, or without `now`.
fn is_old(latest: SystemTime, now: Option<SystemTime>) -> bool {
    now.is_none_or(|now| now.duration_since(latest).is_ok_and(|time| time >= TIMEOUT))
}

#[derive(Default)]
pub struct Groups(Vec<Group>);

struct Group {
    latest: SystemTime,
    reports: Vec<NflogMessage>,
}

impl Groups {
    /// Takes a report; returns the oldest packet's reports if too many packets are open.
    pub fn take(&mut self, report: NflogMessage, now: SystemTime) -> Option<Vec<NflogMessage>> {
        // The first bytes contain a packet ID (IPv4), or the data's position in the stream (TCP).
        let same = |group: &&mut Group| {
            let first = &group.reports[0];
            (first.hook, &first.packet, first.uid) == (report.hook, &report.packet, report.uid)
        };
        if let Some(group) = self.0.iter_mut().find(same) {
            group.latest = now;
            group.reports.push(report);
            return None;
        }
        let crowd = (self.0.len() >= MAX_OPEN).then(|| self.0.remove(0).reports);
        self.0.push(Group { latest: now, reports: vec![report] });
        crowd
    }

    /// Returns packets without a recent report, or all without `now`.
    pub fn end(&mut self, now: Option<SystemTime>) -> Vec<Vec<NflogMessage>> {
        self.0.extract_if(.., |group| is_old(group.latest, now)).map(|group| group.reports).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAINS: TraceChains = TraceChains { table: "trace", first: ["in", "out"], last: ["here", "away"] };

    fn seen(port: u8, interfaces: [Option<&str>; 2]) -> Option<PacketSnapshot> {
        let packet = [
            &[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 5][..],
            &[0, port, 1, 0xbb],
        ];
        let [in_interface, out_interface] = interfaces.map(|name| name.map(str::to_owned));
        Some(PacketSnapshot { packet: packet.concat(), in_interface, out_interface })
    }

    fn event(id: u32, table: &str, chain: &str, drops: bool, packet: Option<PacketSnapshot>) -> TraceEvent {
        let kind = TraceEventKind::Rule { handle: 1, drops };
        TraceEvent { id, family: 1, table: table.to_owned(), chain: chain.to_owned(), kind, mark: 0, packet }
    }

    fn run(events: Vec<TraceEvent>) -> Vec<(Option<String>, usize)> {
        let (mut walks, now) = (Walks::new(CHAINS), SystemTime::UNIX_EPOCH);
        let mut ended: Vec<Walk> = events.into_iter().flat_map(|event| walks.take(event, now)).collect();
        ended.extend(walks.end(None));
        ended.into_iter().map(|walk| (walk.ended_in, walk.events.len())).collect()
    }

    #[test]
    fn simultaneous_packets_are_distinguished() {
        let (out, away) = (seen(1, [None, Some("eth0")]), seen(2, [None, Some("eth0")]));
        let ended = run(vec![
            event(1, "trace", "out", false, out),
            event(2, "trace", "out", false, away.clone()),
            event(1, "nat", "OUTPUT", false, None),
            event(2, "nat", "OUTPUT", false, None),
            event(2, "nat", "ISTIO_OUTPUT", false, None),
            event(2, "trace", "away", false, away),
            event(1, "nat", "DROP", true, None),
        ]);
        assert_eq!(ended, [(Some("away".to_owned()), 2), (None, 2)]);
    }

    #[test]
    fn packet_received_over_loopback_is_the_same() {
        let ended = run(vec![
            event(1, "trace", "out", false, seen(1, [None, Some("eth0")])),
            event(1, "nat", "OUTPUT", false, None),
            event(1, "trace", "away", false, seen(1, [None, Some("lo")])),
            event(9, "trace", "in", false, seen(1, [Some("lo"), None])),
            event(9, "trace", "in", false, None),
            event(9, "mangle", "PREROUTING", false, None),
            event(9, "trace", "here", false, None),
        ]);
        assert_eq!(ended, [(Some("here".to_owned()), 2)]);
    }

    #[test]
    fn reused_id_is_another_packet() {
        let out = || event(1, "trace", "out", false, seen(1, [None, Some("eth0")]));
        let ended = run(vec![out(), out(), event(1, "nat", "OUTPUT", false, None), out()]);
        assert_eq!(ended, [(None, 1), (None, 0)]);
    }

    #[test]
    fn sender_is_reported_before_the_steps() {
        let (mut walks, now) = (Walks::new(CHAINS), SystemTime::UNIX_EPOCH);
        let packet = |port| seen(port, [None, Some("eth0")]).expect("a packet").packet;
        let report =
            |port, uid| NflogMessage { packet: packet(port), uid, gid: Some(7), ..NflogMessage::default() };
        walks.hear(&report(1, Some(5)), now);
        walks.hear(&report(1, None), now);
        walks.hear(&report(3, None), now);
        for (id, port) in [(1, 1), (2, 2), (3, 3)] {
            walks.take(event(id, "trace", "out", false, seen(port, [None, Some("eth0")])), now);
        }
        let owners: Vec<_> = walks.end(None).into_iter().map(|walk| (walk.uid, walk.gid)).collect();
        assert_eq!(owners, [(Some(5), Some(7)), (None, None), (None, None)]);
    }

    #[test]
    fn packets_under_way_when_steps_are_lost_are_incomplete() {
        let (mut walks, now) = (Walks::new(CHAINS), SystemTime::UNIX_EPOCH);
        let begin = |walks: &mut Walks, id| walks.take(event(id, "trace", "out", false, None), now);
        begin(&mut walks, 1);
        walks.lose();
        begin(&mut walks, 2);
        walks.catch_up();
        begin(&mut walks, 3);
        let ended: Vec<bool> = walks.end(None).into_iter().map(|walk| walk.is_incomplete).collect();
        assert_eq!(ended, [true, true, false]);
    }

    #[test]
    fn walk_without_steps_ends_after_the_timeout() {
        let (mut walks, start) = (Walks::new(CHAINS), SystemTime::UNIX_EPOCH);
        walks.take(event(1, "trace", "out", false, None), start);
        assert!(walks.end(Some(start)).is_empty() && !walks.is_empty());
        assert_eq!(walks.end(Some(start + TIMEOUT)).len(), 1);
        assert!(walks.is_empty());
    }

    #[test]
    fn reports_of_a_packet_stay_together() {
        let report = |prefix: &str, packet: u8| NflogMessage {
            prefix: prefix.to_owned(),
            packet: vec![packet],
            ..NflogMessage::default()
        };
        let (mut groups, start) = (Groups::default(), SystemTime::UNIX_EPOCH);
        for one in [report("a", 1), report("a", 2), report("b", 1)] {
            assert_eq!(groups.take(one, start), None);
        }
        assert!(groups.end(Some(start)).is_empty());
        let ended = groups.end(Some(start + TIMEOUT));
        let names: Vec<Vec<&str>> =
            ended.iter().map(|group| group.iter().map(|report| report.prefix.as_str()).collect()).collect();
        assert_eq!(names, [vec!["a", "b"], vec!["a"]]);
        assert!(groups.is_empty());
    }
}
