//! `sidecar-init trace`: packets as they meet rules, each with its end.

mod sources;

use super::run::{self, Format, Run};
use super::{Exit, data, logging::Stdout, report, start_logging};
use diagnose::{explain::VerdictKind, trace::Filter};
use mesh::sources::{Raw, SettingReader, duration};
use mesh::{InputProblem, Problems, RuleReason, Setting, istio::defaults::LOG_GROUP};
use nix::libc;
use sidecar_init::backend::nftables::Refusal;
use sidecar_init::sys::wait::{Requests, Woken};
use sources::{Enabled, KnownRules, Reports, TraceSource};
use std::io;
use std::time::{Duration, Instant, SystemTime};

/// Between checks for packets whose reports have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

struct TraceOptions {
    run: Run,
    filter: Filter,
    /// `None` without `--enable`; else true for every packet of TCP.
    enable: Option<bool>,
    count: Option<u64>,
    time: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
enum TraceFailure {
    #[error("listening to the kernel's reports needs CAP_NET_ADMIN")]
    Rights(#[source] io::Error),
    #[error("NFLOG group {LOG_GROUP} can't be listened to; another program may do so (ulogd, another trace)")]
    Listen(#[source] io::Error),
    #[error("the kernel's traces can't be listened to")]
    ListenToTraces(#[source] io::Error),
    #[error("another trace --enable is at work in this namespace; end it first")]
    AnotherTrace,
    #[error("packets can't be traced")]
    Enable(#[source] Refusal),
    #[error(
        "the rules here are of iptables (legacy), which the kernel does not trace this way; set them with \
         --iptables-trace-logging, and call trace without --enable"
    )]
    Legacy,
    #[error("reports can't be read or shown any more")]
    Show(#[from] io::Error),
}

pub(super) fn run(raw: &Raw, problems: Vec<InputProblem>) -> Result<Exit, Problems> {
    let mut reader = SettingReader::new(raw, problems);
    let (run, logging) = run::read(&mut reader);
    let names: Vec<&str> = RuleReason::all().map(RuleReason::name).collect();
    let name = |text: &str| names.contains(&text).then(|| text.to_owned());
    let protocol = |text: &str| number(text).map(|_| text.to_owned());
    let where_to = "an address, a network, a port, or ADDRESS:PORT";
    let filter = Filter {
        mesh: run.names_mesh.then_some(run.mesh),
        rule: reader.one_of(Setting::TraceRule, &format!("a rule's name: {}", names.join(", ")), name),
        protocol: reader.one_of(Setting::TraceProtocol, "tcp, udp, icmp or icmpv6", protocol),
        verdict: run::one_of(
            &mut reader,
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
        reader.blame(Setting::TraceEvery, "is about --enable; give both, or leave it out");
    }
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Answer)?;
    Ok(match show(&TraceOptions { run, filter, enable: enable.then_some(every), count, time }) {
        Ok(()) => Exit::Done,
        Err(TraceFailure::Show(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(failure) => report::failure(&failure, Exit::Failed),
    })
}

/// The number of a protocol, by the names that reports have.
fn number(name: &str) -> Option<u8> {
    [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58)]
        .into_iter()
        .find(|(of, _)| *of == name)
        .map(|(_, n)| n)
}

fn show(options: &TraceOptions) -> Result<(), TraceFailure> {
    let end = options.time.and_then(|time| Instant::now().checked_add(time));
    let requests = Requests::take()?;
    let mut known = KnownRules::read(&options.run);
    let mut source: Box<dyn TraceSource> = match options.enable {
        Some(every) => Box::new(Enabled::start(&known, &options.filter, every)?),
        None if Enabled::is_needed(&known) => {
            tracing::info!(target: "trace", "no rule here reports, so the kernel traces packets, as with --enable");
            Box::new(Enabled::start(&known, &options.filter, false)?)
        }
        None => Box::new(Reports::start(&known)?),
    };
    let mut shown = 0;
    loop {
        // No report marks the last one of a packet.
        let look = source.has_open().then(|| Instant::now() + POLL_INTERVAL);
        let until = [look, end].into_iter().flatten().min();
        let woken = requests.wait(&source, until)?;
        let is_over = woken == Woken::Asked || end.is_some_and(|end| end <= Instant::now());
        let mut blocks = Vec::new();
        if woken == Woken::Ready {
            match source.take(&mut known) {
                Ok(more) => blocks.extend(more),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    tracing::warn!(target: "trace", "reports were lost: they come faster than they are read");
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        blocks.extend(source.end((!is_over).then(SystemTime::now), &mut known));
        for block in blocks.iter().filter(|block| options.filter.takes(block)) {
            report::at_once(&match options.run.format {
                Format::Text => block.text(report::line_width()),
                Format::Data(encoding) => data::one_of_many(encoding, block),
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
