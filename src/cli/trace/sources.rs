//! Sources of a trace: packets, of rules that report or of a trace of the kernel, and the rules of the namespace.

use super::{TraceFailure, number};
use crate::cli::{host::System, rule_views::live_routing, run::Run};
use diagnose::explain::PodContext;
use diagnose::trace::{
    Block, Filter, Groups, Rules, TraceChains, Walk, Walks, of_reports, of_walk, reports_anything,
};
use mesh::{Host, istio::defaults::LOG_GROUP, recognition::named};
use nix::libc;
use rules::simulate::{At, Routing, View};
use rules::{Family, report::NflogMessage, routing::Object};
use sidecar_init::backend::nftables::tracing::{Aim, FIRST, LAST, TABLE, Tracing};
use sidecar_init::backend::{self, Kernel};
use sidecar_init::sys::{nflog, process};
use sidecar_init::{backend::nftables::Refusal, engine::RuleIndex, sys::user::OwnerIds};
use std::os::fd::{AsFd, BorrowedFd};
use std::{collections::BTreeSet, io, time::SystemTime};

pub(super) trait TraceSource: AsFd {
    /// Reads pending reports; returns the packets that they complete.
    fn take(&mut self, known: &mut KnownRules<'_>) -> io::Result<Vec<Block>>;

    /// The packets without reports for a while; all where `now` is `None`.
    fn end(&mut self, now: Option<SystemTime>, known: &mut KnownRules<'_>) -> Vec<Block>;

    fn has_open(&self) -> bool;
}

/// Rules that were set with `--iptables-trace-logging`.
pub(super) struct Reports {
    listener: nflog::NflogListener,
    groups: Groups,
}

impl Reports {
    pub(super) fn start(known: &KnownRules<'_>) -> Result<Self, TraceFailure> {
        let listener =
            nflog::NflogListener::open(LOG_GROUP).map_err(|error| refused(error, TraceFailure::Listen))?;
        tracing::info!(
            target: "trace",
            "listening to NFLOG group {LOG_GROUP}, where rules report that were set with --iptables-trace-logging"
        );
        match &known.read {
            Ok(read) if reports(read) => {}
            Ok(_) => tracing::warn!(
                target: "trace",
                "no rule here reports, and the kernel does not trace rules of iptables (legacy): there is nothing to show \
                 until rules are set with --iptables-trace-logging"
            ),
            Err(error) => tracing::warn!(
                target: "trace",
                "could not read whether any rule here reports, and what it decides: {error}"
            ),
        }
        Ok(Self { listener, groups: Groups::default() })
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl TraceSource for Reports {
    fn take(&mut self, known: &mut KnownRules<'_>) -> io::Result<Vec<Block>> {
        let reports = self.listener.take()?;
        let now = SystemTime::now();
        let ended: Vec<_> = reports.into_iter().filter_map(|report| self.groups.take(report, now)).collect();
        Ok(ended.iter().map(|reports| grouped(reports, known)).collect())
    }

    fn end(&mut self, now: Option<SystemTime>, known: &mut KnownRules<'_>) -> Vec<Block> {
        self.groups.end(now).iter().map(|reports| grouped(reports, known)).collect()
    }

    fn has_open(&self) -> bool {
        !self.groups.is_empty()
    }
}

fn reports(read: &LiveRules) -> bool {
    Family::BOTH.iter().any(|family| reports_anything(read.index.view(*family)))
}

fn grouped(reports: &[NflogMessage], known: &mut KnownRules<'_>) -> Block {
    known.describe(|rules| of_reports(reports, SystemTime::now(), rules))
}

pub(super) struct Enabled {
    listener: nflog::NftraceListener,
    owners: Option<nflog::NflogListener>,
    walks: Walks,
    // Dropped last: then the kernel stops tracing.
    _tracing: Tracing,
}

impl Enabled {
    /// True if nothing is shown otherwise: no rule reports. Rules of iptables (legacy) alone can't be traced, and of what
    /// can't be read nothing is known.
    pub(super) fn is_needed(known: &KnownRules<'_>) -> bool {
        known
            .read
            .as_ref()
            .is_ok_and(|read| !reports(read) && (read.index.has_nf_tables || !read.index.has_legacy))
    }

    pub(super) fn start(
        known: &KnownRules<'_>,
        filter: &Filter,
        every_packet: bool,
    ) -> Result<Self, TraceFailure> {
        match &known.read {
            Ok(read) if read.index.has_legacy && !read.index.has_nf_tables => {
                return Err(TraceFailure::Legacy);
            }
            Ok(read) if read.index.has_legacy => tracing::warn!(
                target: "trace",
                "rules of iptables (legacy) are here too, which the kernel does not trace this way: what they do is not shown"
            ),
            Ok(read) if !read.index.has_nf_tables => {
                tracing::warn!(target: "trace", "there is no rule here at all: packets pass as they are sent");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(target: "trace", "the rules that are there can't be read: {error}"),
        }
        let listener =
            nflog::NftraceListener::open().map_err(|error| refused(error, TraceFailure::ListenToTraces))?;
        // A trace lacks the sender of a packet. Reports of a second group have it.
        let (group, owners) = (LOG_GROUP + 1..LOG_GROUP + 9)
            .find_map(|group| Some((group, nflog::NflogListener::open(group).ok()?)))
            .unzip();
        let destination = filter.destination;
        let aim = Aim {
            protocol: filter.protocol.as_deref().and_then(number),
            network: destination.and_then(|to| to.network),
            port: destination.and_then(|to| to.port),
            every_packet,
        };
        let started = Tracing::start(&aim, group).map_err(|refusal| match refusal {
            Refusal::Conflict(source) if source.kind() == io::ErrorKind::AlreadyExists => {
                TraceFailure::AnotherTrace
            }
            other => TraceFailure::Enable(other),
        })?;
        tracing::info!(
            target: "trace",
            "tracing packets by the table inet {TABLE}, which goes when this ends"
        );
        let chains = TraceChains { table: TABLE, first: FIRST, last: LAST };
        Ok(Self { listener, owners, walks: Walks::new(chains), _tracing: started })
    }
}

impl AsFd for Enabled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl TraceSource for Enabled {
    fn take(&mut self, known: &mut KnownRules<'_>) -> io::Result<Vec<Block>> {
        let events = self.listener.take().inspect_err(|error| {
            if error.raw_os_error() == Some(libc::ENOBUFS) {
                self.walks.lose();
            }
        })?;
        let now = SystemTime::now();
        // The message with the sender comes before the events.
        let owners = self.owners.as_mut().map(nflog::NflogListener::take_so_far);
        for report in owners.transpose().unwrap_or_default().unwrap_or_default() {
            self.walks.hear(&report, now);
        }
        let ended: Vec<Walk> = events.into_iter().flat_map(|event| self.walks.take(event, now)).collect();
        self.walks.catch_up();
        Ok(ended.iter().map(|walk| walked(walk, known)).collect())
    }

    fn end(&mut self, now: Option<SystemTime>, known: &mut KnownRules<'_>) -> Vec<Block> {
        self.walks.end(now).iter().map(|walk| walked(walk, known)).collect()
    }

    fn has_open(&self) -> bool {
        !self.walks.is_empty()
    }
}

fn walked(walk: &Walk, known: &mut KnownRules<'_>) -> Block {
    known.describe(|rules| of_walk(walk, rules))
}

fn refused(error: io::Error, other: fn(io::Error) -> TraceFailure) -> TraceFailure {
    match process::holds(process::NET_ADMIN) {
        Some(false) => TraceFailure::Rights(error),
        Some(true) | None => other(error),
    }
}

pub(super) struct KnownRules<'a> {
    run: &'a Run,
    pub(super) read: Result<LiveRules, backend::Error>,
}

pub(super) struct LiveRules {
    kernel: Kernel,
    pub(super) index: RuleIndex,
    routes: BTreeSet<Object>,
    pod: PodContext,
}

impl<'a> KnownRules<'a> {
    pub(super) fn read(run: &'a Run) -> Self {
        Self { run, read: read(run) }
    }

    /// Describes a packet. Where it met a rule that did not exist when the rules were read, reads them again and retries.
    pub(super) fn describe(
        &mut self,
        describe: impl Fn(Option<&dyn Rules>) -> Result<Block, Box<Block>>,
    ) -> Block {
        let described = |known: &Self| describe(known.read.as_ref().ok().map(|read| read as &dyn Rules));
        let mut block = described(self).unwrap_or_else(|block| match self.is_old() {
            true => {
                self.read = read(self.run);
                described(self).unwrap_or_else(|block| *block)
            }
            false => *block,
        });
        let sender = block.uid.zip(block.gid);
        let ours = sender.and_then(|sender| OwnerIds::here().ours(sender).filter(|ours| *ours != sender));
        (block.uid_here, block.gid_here) = ours.unzip();
        block
    }

    fn is_old(&mut self) -> bool {
        match &mut self.read {
            // The rules of iptables (legacy) have no number for their changes, and reading them takes a program each time.
            Ok(read) => read.index.is_old(&mut read.kernel).unwrap_or(true),
            Err(_) => true,
        }
    }
}

fn read(run: &Run) -> Result<LiveRules, backend::Error> {
    let mut kernel = run.open_for(run.every_owner())?;
    let index = RuleIndex::read(&mut kernel, named)?;
    let routes = kernel.routing()?;
    // Without addresses fewer walks are complete; what the kernel reports is shown all the same.
    let pod = PodContext::new(System::HERE.addresses().unwrap_or_default(), None);
    Ok(LiveRules { kernel, index, routes, pod })
}

impl Rules for LiveRules {
    fn view(&self, family: Family) -> &View {
        self.index.view(family)
    }

    fn routing(&self, family: Family) -> Routing {
        live_routing(&self.routes, family, &self.pod)
    }

    fn chain(&self, of: Family, family: u8, table: &str, chain: &str) -> Option<usize> {
        self.index.chain(of, family, table, chain)
    }

    fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At> {
        self.index.rule(of, family, table, chain, handle)
    }
}
