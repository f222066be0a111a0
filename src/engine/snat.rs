//! The table on the host that gives the host's own calls to some pods a source of their own
//! ([`crate::backend::nftables::snat`]): pods come to it and go, in one step and as often as one likes.

use crate::backend::nftables::snat::{LiveSnat, Snat};
use crate::backend::nftables::{Nftables, Refusal, retry, same};
use crate::{backend::Error, sys::netfilter::lacks_netlink};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{collections::BTreeSet, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnatChange {
    /// The name of the table, of the family `inet`.
    pub table: &'static str,
    /// The comment of each rule, at most 127 bytes.
    pub comment: &'static str,
    /// Pods that come; one that is there already is fine.
    pub add: BTreeSet<IpAddr>,
    /// Pods that go; one that is not there is fine.
    pub remove: BTreeSet<IpAddr>,
    /// The source over IPv4; `None` keeps that of the table, else takes that of `defaults`.
    pub v4: Option<Ipv4Addr>,
    /// The same over IPv6.
    pub v6: Option<Ipv6Addr>,
    pub defaults: (Ipv4Addr, Ipv6Addr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnatSummary {
    pub changed: bool,
    pub content: Snat,
}

/// Brings the table to the requested state, in the network namespace of this thread, whatever exists there under its
/// name. All of it takes effect, or nothing.
///
/// # Errors
/// When the kernel refuses, or has no nf_tables.
pub fn change_snat(change: &SnatChange) -> Result<SnatSummary, Error> {
    let mut nftables = open(change.table)?;
    let changed = retry(|| {
        let live = nftables.read().map_err(unread)?;
        let found = live.as_ref().map(LiveSnat::of).unwrap_or_default();
        let pods: BTreeSet<IpAddr> = found.pods.union(&change.add).copied().collect();
        let content = Snat {
            pods: pods.difference(&change.remove).copied().collect(),
            v4: change.v4.or(found.v4).unwrap_or(change.defaults.0),
            v6: change.v6.or(found.v6).unwrap_or(change.defaults.1),
        };
        let table = content.table(change.table, change.comment);
        let changed = !same(live.as_ref(), Some(&table));
        if changed {
            nftables.replace_snat(live.as_ref(), &table)?;
        }
        Ok(SnatSummary { changed, content })
    });
    changed.map_err(Error::from)
}

/// Removes the table of this name, if it is there. Returns whether it was.
///
/// # Errors
/// When the kernel refuses. That it has no nf_tables is fine.
pub fn remove_snat(table: &'static str) -> Result<bool, Error> {
    let mut nftables = match open(table) {
        Err(Error::NoNftables) => return Ok(false),
        opened => opened?,
    };
    let removed = retry(|| {
        let live = nftables.read().map_err(unread)?;
        nftables.replace(live.as_ref(), None)?;
        Ok(live.is_some())
    });
    removed.map_err(Error::from)
}

fn open(table: &'static str) -> Result<Nftables, Error> {
    match Nftables::open(table) {
        Err(error) if lacks_netlink(&error) => Err(Error::NoNftables),
        opened => opened.map_err(|source| Error::netlink("opening a netlink socket", source)),
    }
}

/// Why the table could not be read: others change nf_tables meanwhile, or the kernel refuses.
fn unread(source: io::Error) -> Refusal {
    match source.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::Interrupted => Refusal::Conflict(source),
        _ => Refusal::of("reading nf_tables", source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_always_comes_too_late_is_a_conflict() {
        let failed = |kind: io::ErrorKind| {
            let mut tries = 0;
            let failed = retry::<()>(|| {
                tries += 1;
                Err(unread(kind.into()))
            });
            (tries > 1, Error::from(failed.expect_err("it always fails")).to_string())
        };
        for kind in [io::ErrorKind::ResourceBusy, io::ErrorKind::Interrupted] {
            assert_eq!(failed(kind), (true, "another program changed the rules at the same time".to_owned()));
        }
        let (is_repeated, text) = failed(io::ErrorKind::PermissionDenied);
        assert!(!is_repeated && text.contains("CAP_NET_ADMIN is needed"), "{text}");
    }
}
