//! `sidecar-init status`: capture here, the listeners, and the traffic so far.

use super::report::{self, Format};
use super::run::{self, Run};
use super::{Exit, RunResult};
use command_line::{columns, output::print_part};
use diagnose::finding::{FindingReport, reports};
use diagnose::{Style, overview::Overview, status::CaptureStatus, trace::utc};
use mesh::Setting;
use mesh::sources::{Raw, SettingReader, duration};
use rules::finding::Level;
use serde::Serialize;
use sidecar_init::observe::{NamespaceObserver, NodeObserver, ObserverSettings};
use sidecar_init::sys::wait::{Requests, Woken};
use sidecar_init::{backend, engine, sys::lookup::LookupPlaces, sys::process};
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::time::{Duration, Instant, SystemTime};

const INTERVAL: Duration = Duration::from_secs(2);
/// A shorter interval would keep the iptables programs busy.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub(super) enum StatusFailure {
    #[error("cannot read the rules of this network namespace")]
    Read(#[from] backend::Error),
    #[error("the network namespaces of this machine can't be listed")]
    List(#[source] io::Error),
    #[error("the status can't be shown")]
    Show(#[from] io::Error),
}

pub(super) fn run(raw: &Raw, problems: Vec<mesh::InputProblem>) -> RunResult {
    let (run, (interval, all, verbose, of_kernel)) = run::begin(raw, problems, run::ANSWER, own)?;
    if all && process::holds(process::SYS_ADMIN) == Some(false) {
        tracing::warn!(
            target: "status",
            "only network namespaces of your own processes are shown, and no other can be entered: run this as root"
        );
    }
    match (of_kernel, all) {
        (true, _) => kernel(&run),
        (false, true) => all_namespaces(&run, interval),
        (false, false) => this_namespace(&run, interval, verbose),
    }
}

fn own(reader: &mut SettingReader<'_>) -> (Option<Duration>, bool, bool, bool) {
    let raw = reader.raw;
    let watches = reader.switch(Setting::StatusWatch);
    let enough = |text: &str| duration::parse(text).filter(|time| *time >= MIN_INTERVAL);
    let interval =
        reader.one_of(Setting::StatusInterval, "a duration from 100ms, such as 500ms or 2s", enough);
    let all = reader.switch(Setting::StatusAll);
    let (verbose, of_kernel) = (reader.switch(Setting::StatusVerbose), reader.switch(Setting::StatusKernel));
    for (is_wrong, setting, text) in [
        (!watches, Setting::StatusInterval, "requires --watch; give both"),
        (all, Setting::NetworkNamespace, "contradicts --all, which reads every namespace; give one of them"),
        (
            of_kernel && (all || watches || verbose),
            Setting::StatusKernel,
            "can't be combined with --all, --watch or --verbose; give it alone",
        ),
    ] {
        if let Some(given) = raw.get(setting).filter(|given| is_wrong && !given.value.is_empty()) {
            reader.whole(&given.source, text);
        }
    }
    (watches.then(|| interval.unwrap_or(INTERVAL)), all, verbose, of_kernel)
}

pub(super) fn findings(run: &Run) -> Result<Vec<FindingReport>, StatusFailure> {
    Ok(NamespaceObserver::open(&view(run))?.look()?.findings)
}

fn view(run: &Run) -> ObserverSettings {
    ObserverSettings { lock: run.lock(), owner: run.named(), only: run.names_mesh.then_some(run.mesh) }
}

fn exit(fails: bool, is_in_place: bool) -> Exit {
    match (fails, is_in_place) {
        (true, _) => Exit::Failed,
        (false, false) => Exit::Drift,
        (false, true) => Exit::Done,
    }
}

fn kernel(run: &Run) -> RunResult {
    let kernel = run.open_for(run.every_owner()).map_err(StatusFailure::Read)?;
    let findings = reports(&engine::support(&kernel));
    let text = || diagnose::lint::text(&findings, columns::of_terminal());
    report::answer(run.format, &KernelReport { findings: &findings }, text)?;
    Ok(exit(findings.iter().any(|finding| finding.level == Level::Failure), true))
}

/// The support by the kernel and its programs, as data.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct KernelReport<'a> {
    /// All results.
    findings: &'a [FindingReport],
}

fn show<T: Serialize>(
    run: &Run,
    interval: Option<Duration>,
    mut look: impl FnMut() -> Result<T, StatusFailure>,
    text: impl Fn(&T, usize) -> String,
    exit: impl Fn(&T) -> Exit,
) -> RunResult {
    let Some(interval) = interval else {
        let found = look()?;
        report::answer(run.format, &found, || text(&found, columns::of_terminal()))?;
        return Ok(exit(&found));
    };
    match watch(run, interval, look, text) {
        Err(StatusFailure::Show(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        watched => Ok(watched.map(|()| Exit::Done)?),
    }
}

fn watch<T: Serialize>(
    run: &Run,
    interval: Duration,
    mut look: impl FnMut() -> Result<T, StatusFailure>,
    text: impl Fn(&T, usize) -> String,
) -> Result<(), StatusFailure> {
    let requests = Requests::take()?;
    let mut screen = Screen::open(run.format, interval)?;
    loop {
        screen.show(&look()?, &text)?;
        if requests.pause(Instant::now() + interval)? == Woken::Asked {
            return Ok(());
        }
    }
}

fn all_namespaces(run: &Run, interval: Option<Duration>) -> RunResult {
    let mut observer = NodeObserver::new(view(run), LookupPlaces::default());
    let look = || observer.look().map_err(StatusFailure::List);
    let text = |overview: &Overview, width| overview.text(width, SystemTime::now());
    show(run, interval, look, text, |overview| exit(overview.fails(), !overview.has_drifted()))
}

fn this_namespace(run: &Run, interval: Option<Duration>, verbose: bool) -> RunResult {
    let mut observer = NamespaceObserver::open(&view(run)).map_err(StatusFailure::Read)?;
    let mut last: Option<(CaptureStatus, Instant)> = None;
    let look = || {
        let (mut status, now) = (observer.look()?, Instant::now());
        if let Some((earlier, then)) = &last {
            status.rate(earlier, now.duration_since(*then).as_secs_f64());
        }
        last = Some((status.clone(), now));
        Ok(status)
    };
    let text = |status: &CaptureStatus, width| status.text(width, verbose);
    show(run, interval, look, text, |status| {
        exit(status.fails(), status.capturing == Some(true) && !status.has_changed())
    })
}

/// Switches to the terminal's other screen and hides the cursor. The first screen's content returns afterwards.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
const REDRAW: &[u8] = b"\x1b[H\x1b[J";

struct Screen {
    format: Format,
    interval: Duration,
    is_terminal: bool,
    last: String,
}

impl Screen {
    fn open(format: Format, interval: Duration) -> io::Result<Self> {
        let is_terminal = io::stdout().is_terminal() && format == Format::Text;
        if is_terminal {
            control(ENTER)?;
            // A panic may end the process without dropping anything.
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                let _ = control(LEAVE);
                report(panic);
            }));
        }
        Ok(Self { format, interval, is_terminal, last: String::new() })
    }

    fn show<T: Serialize>(&mut self, answer: &T, text: impl FnOnce(&T, usize) -> String) -> io::Result<()> {
        if let Format::Data(encoding) = self.format {
            return print_part(&report::one_of_many(encoding, answer));
        }
        let at = utc(SystemTime::now());
        let at = at.split('.').next().unwrap_or_default();
        let head = format!("{at}Z, every {:?}", self.interval);
        self.last = format!("{}\n{}", Style::Quiet.paint(head), text(answer, columns::of_terminal()));
        if self.is_terminal {
            control(REDRAW)?;
            return print_part(&within(&self.last, height()));
        }
        print_part(&format!("{}\n", self.last))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_terminal {
            // A terminal that can't be restored is gone.
            let _ = control(LEAVE).and_then(|()| print_part(&self.last));
        }
    }
}

fn height() -> usize {
    terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| usize::from(height.0))
}

fn within(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= height {
        return lines.join("\n");
    }
    let shown = height.saturating_sub(1);
    let more = format!(".. {} more lines, in a taller terminal", lines.len() - shown);
    format!("{}\n{}", lines[..shown].join("\n"), Style::Quiet.paint(more))
}

/// Writes control sequences, which are needed with and without colours.
fn control(sequence: &[u8]) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(sequence)?;
    out.flush()
}
