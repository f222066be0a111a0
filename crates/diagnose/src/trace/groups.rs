//! Reports of rules, put together packet by packet.

use rules::report::NflogMessage;
use std::time::{Duration, SystemTime};

/// After so long without another report, a packet has met its last rule that reports.
const GROUP_TIMEOUT: Duration = Duration::from_millis(200);

/// So many packets are kept open at most.
const MAX_OPEN: usize = 1_024;

/// Packets that may meet further rules.
#[derive(Default)]
pub struct Groups(Vec<Group>);

struct Group {
    latest: SystemTime,
    reports: Vec<NflogMessage>,
}

impl Groups {
    /// Takes a report; gives the reports of a packet that has made place, where there are too many.
    pub fn take(&mut self, report: NflogMessage, now: SystemTime) -> Option<Vec<NflogMessage>> {
        // The first bytes hold a number that senders give each packet (IPv4), or the place of its data in the stream (TCP).
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

    /// Gives the packets that nothing has been heard of for a while, or all.
    pub fn end(&mut self, now: Option<SystemTime>) -> Vec<Vec<NflogMessage>> {
        let is_old = |group: &mut Group| {
            now.is_none_or(|now| now.duration_since(group.latest).is_ok_and(|time| time >= GROUP_TIMEOUT))
        };
        self.0.extract_if(.., is_old).map(|group| group.reports).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let ended = groups.end(Some(start + GROUP_TIMEOUT));
        let names: Vec<Vec<&str>> =
            ended.iter().map(|group| group.iter().map(|report| report.prefix.as_str()).collect()).collect();
        assert_eq!(names, [vec!["a", "b"], vec!["a"]]);
        assert!(groups.is_empty());
    }
}
