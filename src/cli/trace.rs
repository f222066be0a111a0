//! `sidecar-init trace`: packets, the rules that they match, and their verdicts.

use super::report::{self, Format};
use super::run::{self, Run};
use super::{Exit, RunResult, host::System};
use command_line::output::print_part;
use diagnose::explain::{PodContext, VerdictKind};
use diagnose::trace::{
    Block, Filter, Groups, Rules, TraceChains, Walks, of_reports, of_walk, reports_anything,
};
use mesh::sources::{Raw, SettingReader, duration};
use mesh::{Host, InputProblem, RuleReason, Setting, istio::defaults::LOG_GROUP, recognition::named};
use nix::libc;
use rules::simulate::{At, Routing, View};
use rules::{Family, routing::Object};
use sidecar_init::backend::nftables::tracing::{Aim, FIRST, LAST, TABLE, Tracing};
use sidecar_init::backend::{self, Kernel};
use sidecar_init::sys::wait::{Requests, Woken};
use sidecar_init::sys::{nflog, process};
use sidecar_init::{backend::nftables::Refusal, engine::RuleIndex, observe, sys::user::OwnerIds};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};
use std::{collections::BTreeSet, io};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

struct TraceOptions {
    filter: Filter,
    /// `None` without `--enable`; true traces every TCP packet.
    enable: Option<bool>,
    count: Option<u64>,
    time: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
enum TraceFailure {
    #[error("reading the kernel's reports requires CAP_NET_ADMIN")]
    Rights(#[source] io::Error),
    #[error("cannot read NFLOG group {LOG_GROUP}; another program may read it (ulogd, another trace)")]
    Listen(#[source] io::Error),
    #[error("cannot read the kernel's traces")]
    ListenToTraces(#[source] io::Error),
    #[error("another trace --enable is running in this namespace; stop it first")]
    AnotherTrace,
    #[error("cannot enable tracing")]
    Enable(#[source] Refusal),
    #[error(
        "these are rules of iptables (legacy), which --enable can't trace; set them with \
         --iptables-trace-logging, and run trace without --enable"
    )]
    Legacy,
    #[error("reports can't be read or shown")]
    Show(#[from] io::Error),
}

pub(super) fn run(raw: &Raw, problems: Vec<InputProblem>) -> RunResult {
    let (run, mut options) = run::begin(raw, problems, run::ANSWER, options)?;
    options.filter.mesh = run.names_mesh.then_some(run.mesh);
    match show(&run, &options) {
        Err(TraceFailure::Show(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        shown => Ok(shown.map(|()| Exit::Done)?),
    }
}

fn options(reader: &mut SettingReader<'_>) -> TraceOptions {
    let names: Vec<&str> = RuleReason::all().map(RuleReason::name).collect();
    let name = |text: &str| names.contains(&text).then(|| text.to_owned());
    let protocol = |text: &str| number(text).map(|_| text.to_owned());
    let where_to = "an address, a network, a port, or ADDRESS:PORT";
    let filter = Filter {
        mesh: None,
        rule: reader.one_of(Setting::TraceRule, &format!("a rule's name: {}", names.join(", ")), name),
        protocol: reader.one_of(Setting::TraceProtocol, "tcp, udp, icmp or icmpv6", protocol),
        verdict: run::one_of(
            reader,
            Setting::TraceVerdict,
            &[VerdictKind::Captured, VerdictKind::NotCaptured, VerdictKind::Dropped],
        ),
        destination: reader.one_of(Setting::TraceDestination, where_to, |text| text.parse().ok()),
    };
    let positive = |text: &str| text.parse().ok().filter(|&count| count > 0);
    let count = reader.one_of(Setting::TraceCount, "a number from 1", positive);
    let time = reader.one_of(Setting::TraceTime, "a duration, such as 30s or 1m30s", duration::parse);
    let (enable, every) = (reader.switch(Setting::TraceEnable), reader.switch(Setting::TraceEvery));
    if every && !enable {
        reader.blame(Setting::TraceEvery, "requires --enable; give both");
    }
    TraceOptions { filter, enable: enable.then_some(every), count, time }
}

fn number(name: &str) -> Option<u8> {
    let numbers = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58)];
    numbers.into_iter().find(|(of, _)| *of == name).map(|(_, number)| number)
}

fn show(run: &Run, options: &TraceOptions) -> Result<(), TraceFailure> {
    let end = options.time.and_then(|time| Instant::now().checked_add(time));
    let requests = Requests::take()?;
    let mut known = KnownRules { run, read: read(run) };
    let mut source: Box<dyn TraceSource> = match options.enable {
        Some(every) => Box::new(Enabled::start(&known, &options.filter, every)?),
        None if Enabled::is_needed(&known) => {
            tracing::info!(target: "trace", "no rule logs to NFLOG; using kernel tracing, as with --enable");
            Box::new(Enabled::start(&known, &options.filter, false)?)
        }
        None => Box::new(Reports::start(&known)?),
    };
    let mut shown = 0;
    loop {
        // No report is marked as a packet's last.
        let look = source.has_open().then(|| Instant::now() + POLL_INTERVAL);
        let until = [look, end].into_iter().flatten().min();
        let woken = requests.wait(&source.fd(), until)?;
        let is_over = woken == Woken::Asked || end.is_some_and(|end| end <= Instant::now());
        let mut blocks = Vec::new();
        if woken == Woken::Ready {
            match source.take(&mut known) {
                Ok(more) => blocks.extend(more),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    tracing::warn!(target: "trace", "reports were lost: they arrive faster than they are read");
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        blocks.extend(source.end((!is_over).then(SystemTime::now), &mut known));
        for block in blocks.iter().filter(|block| options.filter.takes(block)) {
            print_part(&match run.format {
                Format::Text => block.text(report::line_width()),
                Format::Data(encoding) => report::one_of_many(encoding, block),
            })?;
            shown += 1;
            if options.count == Some(shown) {
                return Ok(());
            }
        }
        if is_over {
            return Ok(());
        }
    }
}

trait TraceSource {
    fn fd(&self) -> BorrowedFd<'_>;

    /// Reads pending reports; returns the packets that they complete.
    fn take(&mut self, known: &mut KnownRules<'_>) -> io::Result<Vec<Block>>;

    /// Packets without recent reports; all packets if `now` is `None`.
    fn end(&mut self, now: Option<SystemTime>, known: &mut KnownRules<'_>) -> Vec<Block>;

    fn has_open(&self) -> bool;
}

struct Reports {
    listener: nflog::NflogListener,
    groups: Groups,
}

impl Reports {
    fn start(known: &KnownRules<'_>) -> Result<Self, TraceFailure> {
        let listener =
            nflog::NflogListener::open(LOG_GROUP).map_err(|error| refused(error, TraceFailure::Listen))?;
        tracing::info!(
            target: "trace",
            "reading NFLOG group {LOG_GROUP}, with reports of rules set with --iptables-trace-logging"
        );
        match &known.read {
            Ok(read) if reports(read) => {}
            Ok(_) => tracing::warn!(
                target: "trace",
                "no rule logs to NFLOG, and rules of iptables (legacy) can't be traced: set the rules with \
                 --iptables-trace-logging"
            ),
            Err(error) => tracing::warn!(
                target: "trace",
                "could not read the rules: {error}"
            ),
        }
        Ok(Self { listener, groups: Groups::default() })
    }
}

impl TraceSource for Reports {
    fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn take(&mut self, known: &mut KnownRules<'_>) -> io::Result<Vec<Block>> {
        let reports = self.listener.take()?;
        let now = SystemTime::now();
        let ended: Vec<_> = reports.into_iter().filter_map(|report| self.groups.take(report, now)).collect();
        Ok(ended.iter().map(|reports| known.describe(|rules| of_reports(reports, now, rules))).collect())
    }

    fn end(&mut self, now: Option<SystemTime>, known: &mut KnownRules<'_>) -> Vec<Block> {
        let (ended, now) = (self.groups.end(now), SystemTime::now());
        ended.iter().map(|reports| known.describe(|rules| of_reports(reports, now, rules))).collect()
    }

    fn has_open(&self) -> bool {
        !self.groups.is_empty()
    }
}

fn reports(read: &LiveRules) -> bool {
    Family::BOTH.iter().any(|family| reports_anything(read.index.view(*family)))
}

struct Enabled {
    listener: nflog::NftraceListener,
    owners: Option<nflog::NflogListener>,
    walks: Walks,
    // Dropped last: the kernel then stops tracing.
    _tracing: Tracing,
}

impl Enabled {
    /// True if no rule reports, so only tracing shows packets. iptables (legacy) rules alone can't be traced.
    fn is_needed(known: &KnownRules<'_>) -> bool {
        known
            .read
            .as_ref()
            .is_ok_and(|read| !reports(read) && (read.index.has_nf_tables || !read.index.has_legacy))
    }

    fn start(known: &KnownRules<'_>, filter: &Filter, every_packet: bool) -> Result<Self, TraceFailure> {
        match &known.read {
            Ok(read) if read.index.has_legacy && !read.index.has_nf_tables => {
                return Err(TraceFailure::Legacy);
            }
            Ok(read) if read.index.has_legacy => tracing::warn!(
                target: "trace",
                "rules of iptables (legacy) exist too; they are not traced"
            ),
            Ok(read) if !read.index.has_nf_tables => {
                tracing::warn!(target: "trace", "no rules exist here: packets pass unchanged");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(target: "trace", "the existing rules can't be read: {error}"),
        }
        let listener =
            nflog::NftraceListener::open().map_err(|error| refused(error, TraceFailure::ListenToTraces))?;
        // A trace lacks the packet's sender. Reports to a second group include it.
        let (group, owners) = (LOG_GROUP + 1..LOG_GROUP + 9)
            .find_map(|group| Some((group, nflog::NflogListener::open(group).ok()?)))
            .unzip();
        let protocol = filter.protocol.as_deref().and_then(number);
        let (network, port) = filter.destination.map(|to| (to.network, to.port)).unwrap_or_default();
        let aim = Aim { protocol, network, port, every_packet };
        let started = Tracing::start(&aim, group).map_err(|refusal| match refusal {
            Refusal::Conflict(source) if source.kind() == io::ErrorKind::AlreadyExists => {
                TraceFailure::AnotherTrace
            }
            other => TraceFailure::Enable(other),
        })?;
        tracing::info!(
            target: "trace",
            "tracing packets with the table inet {TABLE}, removed on exit"
        );
        let chains = TraceChains { table: TABLE, first: FIRST, last: LAST };
        Ok(Self { listener, owners, walks: Walks::new(chains), _tracing: started })
    }
}

impl TraceSource for Enabled {
    fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

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
        let ended: Vec<_> = events.into_iter().flat_map(|event| self.walks.take(event, now)).collect();
        self.walks.catch_up();
        Ok(ended.iter().map(|walk| known.describe(|rules| of_walk(walk, rules))).collect())
    }

    fn end(&mut self, now: Option<SystemTime>, known: &mut KnownRules<'_>) -> Vec<Block> {
        self.walks.end(now).iter().map(|walk| known.describe(|rules| of_walk(walk, rules))).collect()
    }

    fn has_open(&self) -> bool {
        !self.walks.is_empty()
    }
}

fn refused(error: io::Error, other: fn(io::Error) -> TraceFailure) -> TraceFailure {
    match process::holds(process::NET_ADMIN) {
        Some(false) => TraceFailure::Rights(error),
        Some(true) | None => other(error),
    }
}

struct KnownRules<'a> {
    run: &'a Run,
    read: Result<LiveRules, backend::Error>,
}

struct LiveRules {
    kernel: Kernel,
    index: RuleIndex,
    routes: BTreeSet<Object>,
    pod: PodContext,
}

impl KnownRules<'_> {
    /// Describes a packet. If it matched a rule that did not exist when the rules were read, reads them again and retries.
    fn describe(&mut self, describe: impl Fn(Option<&dyn Rules>) -> Result<Block, Box<Block>>) -> Block {
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
            // iptables (legacy) rules have no generation, and reading them starts a program.
            Ok(read) => read.index.is_old(&mut read.kernel).unwrap_or(true),
            Err(_) => true,
        }
    }
}

fn read(run: &Run) -> Result<LiveRules, backend::Error> {
    let mut kernel = run.open_for(run.every_owner())?;
    let index = RuleIndex::read(&mut kernel, named)?;
    let routes = kernel.routing()?;
    // Without addresses, fewer walks are complete, but the kernel's reports are still shown.
    let pod = PodContext::new(System::HERE.addresses().unwrap_or_default(), None);
    Ok(LiveRules { kernel, index, routes, pod })
}

impl Rules for LiveRules {
    fn view(&self, family: Family) -> &View {
        self.index.view(family)
    }

    fn routing(&self, family: Family) -> Routing {
        observe::routing(&self.routes, family, &self.pod.addresses)
    }

    fn chain(&self, of: Family, family: u8, table: &str, chain: &str) -> Option<usize> {
        self.index.chain(of, family, table, chain)
    }

    fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At> {
        self.index.rule(of, family, table, chain, handle)
    }
}
