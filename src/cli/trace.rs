//! `sidecar-init trace`: packets as they meet rules.

use super::data;
use super::run::{self, Format};
use super::{Exit, logging::Stdout, report, start_logging};
use nix::libc;
use policy::istio::{Reason, defaults::LOG_GROUP};
use policy::sources::{Raw, Reader, duration};
use policy::trace::{Event, Filter};
use policy::{Problem, Problems, Setting};
use sidecar_init::sys::{
    nflog::Listener,
    process,
    wait::{Requests, Woken},
};
use std::{
    io::{self, Write},
    time::{Duration, Instant, SystemTime},
};

/// What to show, and until when.
struct Wish {
    filter: Filter,
    count: Option<u64>,
    time: Option<Duration>,
    format: Format,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("listening to NFLOG group {LOG_GROUP} needs CAP_NET_ADMIN")]
    Rights(#[source] io::Error),
    #[error("NFLOG group {LOG_GROUP} can't be listened to; another program may do so (ulogd, another trace)")]
    Listen(#[source] io::Error),
    #[error("reports can't be read or shown any more")]
    Show(#[from] io::Error),
}

/// Runs the command.
pub(super) fn run(raw: &Raw, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let mut reader = Reader::new(raw, problems);
    let (run, logging) = run::read(&mut reader);
    let names: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    let name = |text: &str| names.contains(&text).then(|| text.to_owned());
    let protocol = |text: &str| ["tcp", "udp", "icmp", "icmpv6"].contains(&text).then(|| text.to_owned());
    let where_to = "an address, a network, a port, or ADDRESS:PORT";
    let filter = Filter {
        rule: reader.one_of(Setting::TraceRule, &format!("a rule's name: {}", names.join(", ")), name),
        protocol: reader.one_of(Setting::TraceProtocol, "tcp, udp, icmp or icmpv6", protocol),
        destination: reader.one_of(Setting::TraceDestination, where_to, |text| text.parse().ok()),
    };
    let positive = |text: &str| text.parse().ok().filter(|&count| count > 0);
    let count = reader.one_of(Setting::TraceCount, "a number from 1", positive);
    let time = reader.one_of(Setting::TraceTime, "a duration, such as 30s or 1m30s", duration::parse);
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Answer)?;
    Ok(match show(&Wish { filter, count, time, format: run.format }) {
        Ok(()) => Exit::Done,
        Err(Failure::Show(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(failure) => report::failure(&failure, Exit::Failed),
    })
}

fn show(wish: &Wish) -> Result<(), Failure> {
    let end = wish.time.and_then(|time| Instant::now().checked_add(time));
    let requests = Requests::take()?;
    let mut listener =
        Listener::open(LOG_GROUP).map_err(|error| match process::holds(process::NET_ADMIN) {
            Some(false) => Failure::Rights(error),
            Some(true) | None => Failure::Listen(error),
        })?;
    tracing::info!(
        target: "trace",
        "listening to NFLOG group {LOG_GROUP}, where rules report that were set with --iptables-trace-logging"
    );
    let mut shown = 0;
    while requests.wait(&listener, end)? == Woken::Ready {
        let reports = match listener.take() {
            Ok(reports) => reports,
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                tracing::warn!(target: "trace", "reports were lost: they come faster than they are read");
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        for report in reports {
            let event = Event::of(&report, SystemTime::now());
            if !wish.filter.takes(&event) {
                continue;
            }
            print(&event, wish.format)?;
            shown += 1;
            if wish.count == Some(shown) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Prints a line at once: somebody may be looking.
fn print(event: &Event, format: Format) -> io::Result<()> {
    let line = match format {
        Format::Text => format!("{event}\n"),
        Format::Data(encoding) => data::one_of_many(encoding, event),
    };
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}
