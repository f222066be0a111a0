//! The captures in a network namespace, and on a whole node, in terms of the meshes' policies. This module prints nothing and
//! reads no environment: front ends and the node program share it.

mod node;

use crate::backend::{self, Kernel, nftables};
use crate::engine::{self, Maker, OwnRules};
use crate::sys::listener::{self, ListeningSocket, SocketHolder};
use crate::sys::process::{self, RunningProcess};
use crate::{backend::iptables::Lock, sys::address};
use diagnose::explain::RuleView;
use diagnose::live_proxy;
use diagnose::status::{self, CaptureStatus, Observation, Record, Socket, UserProcess};
use mesh::{Mesh, recognition::named};
use nix::libc;
pub use node::NodeObserver;
use rules::finding::{Code, Finding};
use rules::simulate::{Routing, View};
use rules::{ByFamily, Family, Ownership, desired::Made, routing::Object};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{io, path::PathBuf};

#[derive(Clone, Debug)]
pub struct ObserverSettings {
    pub lock: Lock,
    pub owner: Ownership,
    pub only: Option<Mesh>,
}

pub struct NamespaceObserver {
    kernel: Kernel,
    owner: Ownership,
    only: Option<Mesh>,
    /// Known socket holders, which are not looked up again.
    holders: BTreeMap<u64, SocketHolder>,
    processes: Option<Vec<PathBuf>>,
}

impl NamespaceObserver {
    pub fn open(settings: &ObserverSettings) -> Result<Self, backend::Error> {
        let ObserverSettings { lock, owner, only } = settings.clone();
        let kernel = Kernel::open(lock, owner)?;
        Ok(Self { kernel, owner, only, holders: BTreeMap::new(), processes: None })
    }

    /// Restricts the search for socket holders to these processes, given by their folders.
    pub fn among(self, processes: Vec<PathBuf>) -> Self {
        Self { processes: Some(processes), ..self }
    }

    pub fn look(&mut self) -> Result<CaptureStatus, backend::Error> {
        let seen = engine::status(&mut self.kernel, &self.owner)?;
        let mut findings = seen.findings;
        let addresses = listed(seen.addresses, "addresses", &mut findings).unwrap_or_default();
        let rule_view = |family: Family, view: View| RuleView {
            family,
            view: named(view),
            routing: routing(&seen.routing, family, &addresses),
        };
        let rules =
            ByFamily { v4: rule_view(Family::V4, seen.views.v4), v6: rule_view(Family::V6, seen.views.v6) };
        let ports = status::ports(&rules);
        let sockets = listed(seen.listeners, "listeners", &mut findings).map(|mut all| {
            all.retain(|one| ports.contains(&one.port));
            self.sockets(&all, &addresses)
        });
        let processes = listed(self.processes_of(&rules), "processes", &mut findings).unwrap_or_default();
        Ok(status::status(&Observation {
            rules: &rules,
            addresses: &addresses,
            sockets: sockets.as_deref(),
            processes: &processes,
            held: seen.held.iter().map(rules_of).collect(),
            only: self.only,
            findings,
        }))
    }

    /// Processes of users whose traffic the rules exclude as the proxy's.
    fn processes_of(&self, rules: &ByFamily<RuleView>) -> io::Result<Vec<UserProcess>> {
        let uids = rules.iter().flat_map(|(_, one)| live_proxy([&one.view]).uids);
        let uids: Vec<u32> = uids.map(|uid| uid.number()).collect();
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let found = process::of_users(&uids, self.processes.as_deref())?.into_iter();
        let others = found.filter(|process| process.id != std::process::id());
        let process = |RunningProcess { id, name, uid, is_here }| {
            let is_here = is_here.is_some();
            UserProcess { id, name, uid, is_here }
        };
        Ok(others.map(process).collect())
    }

    fn sockets(&mut self, listeners: &[ListeningSocket], addresses: &[IpAddr]) -> Vec<Socket> {
        self.holders.retain(|inode, _| listeners.iter().any(|listener| listener.inode == *inode));
        let is_new = |listener: &&ListeningSocket| !self.holders.contains_key(&listener.inode);
        let new: Vec<u64> = listeners.iter().filter(is_new).map(|listener| listener.inode).collect();
        if !new.is_empty() {
            self.holders.extend(match &self.processes {
                Some(processes) => listener::holders_among(processes, &new),
                None => listener::holders(&new),
            });
        }
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let interfaces = address::by_interface().unwrap_or_default();
        let hears = |listener: &ListeningSocket, own: &IpAddr| {
            let is_of = |device: &String| match own.is_loopback() {
                true => device == "lo",
                false => interfaces.iter().any(|(address, name)| address == own && name == device),
            };
            listener.hears(*own) && listener.device.as_ref().is_none_or(is_of)
        };
        let socket = |listener: &ListeningSocket| Socket {
            protocol: listener.protocol,
            port: listener.port,
            hears: addresses.iter().chain(&loopback).copied().filter(|own| hears(listener, own)).collect(),
            is_bound: listener.device.is_some(),
            uid: listener.uid,
            gid: self.holders.get(&listener.inode).and_then(|holder| holder.gid),
            process: self
                .holders
                .get(&listener.inode)
                .map(|SocketHolder { id, name, .. }| (*id, name.clone())),
            is_transparent: listener.is_transparent,
        };
        listeners.iter().map(socket).collect()
    }
}

/// The listed values; `None`, with a finding, if listing fails.
fn listed<T>(found: io::Result<T>, what: &str, findings: &mut Vec<Finding>) -> Option<T> {
    let warning = |error: &io::Error| {
        let remedy = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "run this as root",
            _ => "check the kernel's log",
        };
        let text = format!("{what} can't be listed: {error}");
        findings.push(Finding::warning(Code::Unreadable, "", text, remedy));
    };
    found.inspect_err(warning).ok()
}

fn rules_of(held: &OwnRules) -> status::InstalledRules {
    let OwnRules { owner, place, families, rules, maker, record } = held;
    let predecessor = owner.predecessor.map_or("another program", |predecessor| predecessor.name);
    let program = match maker {
        Maker::Owner => "sidecar-init".to_owned(),
        Maker::Either => format!("sidecar-init or {predecessor}, whose rules are equal"),
        Maker::Predecessor => predecessor.to_owned(),
    };
    // The default mesh is not named.
    let program = match owner.mesh == Mesh::default().name() {
        true => program,
        false => format!("{program}, for {}", owner.name),
    };
    let families = families.iter().map(|family| family.word().into()).collect();
    let made = record.as_ref().map(|(record, is_as_made)| record_of(record, *is_as_made));
    let (mesh, backend) = (owner.mesh.into(), place.clone());
    status::InstalledRules { mesh, backend, families, rules: *rules, program, made }
}

fn record_of(record: &nftables::TableRecord, is_as_made: bool) -> Record {
    let (changed_since, record) = (!is_as_made, record.clone());
    let nftables::TableRecord { made, settings_digest, rules_digest, settings } = record;
    let Made { version: program_version, command, at, .. } = made;
    Record { program_version, command, at, settings, settings_digest, rules_digest, changed_since }
}

/// Routing of a family. Packets are delivered locally if the policy rule for their mark leads to a table with a local default
/// route.
pub fn routing(routes: &BTreeSet<Object>, of_family: Family, addresses: &[IpAddr]) -> Routing {
    let local_marks = routes.iter().filter_map(|object| match object {
        Object::Rule { family, mark, table, .. } if *family == of_family => {
            let route = Object::Route { family: *family, table: *table };
            routes.contains(&route).then_some(*mark)
        }
        Object::Rule { .. } | Object::Route { .. } | Object::Address(_) => None,
    });
    Routing { local_marks: local_marks.collect(), addresses: addresses.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::Protocol;
    use std::{net::TcpListener, process};

    #[test]
    fn missing_holder_is_found_later() {
        let owner = Mesh::default().ownership();
        let settings = ObserverSettings { lock: Lock::default(), owner, only: None };
        let observer = NamespaceObserver::open(&settings).expect("a netlink socket");
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("it is bound").port();
        let mut all = listener::all().expect("they are listed");
        all.retain(|one| (one.port, one.protocol) == (port, Protocol::Tcp));
        let found = |observer: &mut NamespaceObserver| observer.sockets(&all, &[]).remove(0).process;
        let mut observer = observer.among(Vec::new());
        assert_eq!(found(&mut observer), None);
        observer.processes = None;
        assert_eq!(found(&mut observer).map(|(id, _)| id), Some(process::id()));
    }
}
