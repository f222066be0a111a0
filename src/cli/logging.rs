//! Log lines: where they go, which, and in which form.

use super::{paint, run::Logging};
use nix::libc::O_NONBLOCK;
use policy::sources::Source;
use policy::{Problem, Setting};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    sync::Mutex,
};
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, fmt::MakeWriter, layer::SubscriberExt, util::SubscriberInitExt,
};

/// One place that lines go to.
enum Sink {
    /// For people, who may see colours; `json` is for programs.
    Stderr {
        json: bool,
    },
    Stdout,
    File(File),
}

/// All places that lines go to.
struct Sinks(Mutex<Vec<Sink>>);

/// What standard output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stdout {
    /// The command's answer, which no line may come into.
    Answer,
    /// Whatever `--log_target` says.
    Any,
}

/// Starts logging.
///
/// # Errors
/// When a log file can't be opened.
pub(super) fn start(logging: &Logging, stdout: Stdout) -> Result<(), Problem> {
    let mut sinks = Vec::new();
    for target in &logging.targets {
        sinks.push(match target.as_str() {
            "stderr" => Sink::Stderr { json: logging.json },
            "stdout" if stdout == Stdout::Answer => Sink::Stderr { json: logging.json },
            "stdout" => Sink::Stdout,
            path => Sink::File(open(path).map_err(|error| {
                let source = Source::Flag(Setting::LogTarget.row().long);
                Problem::with_item(
                    &source,
                    path,
                    format!("can't be written: {error}; expected stderr, stdout or a path"),
                )
            })?),
        });
    }
    if sinks.is_empty() {
        sinks.push(Sink::Stderr { json: logging.json });
    }
    let sinks = Sinks(Mutex::new(sinks));
    let filter = Targets::new().with_default(logging.level).with_targets(logging.scopes.iter().cloned());
    let lines = fmt::layer().with_ansi(false).with_writer(sinks);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match logging.json {
        true => lines.json().flatten_event(true).with_filter(filter).boxed(),
        false => lines.with_filter(filter).boxed(),
    };
    tracing_subscriber::registry().with(lines).init();
    Ok(())
}

/// A pipe that nobody reads is an error, not a reason to wait.
fn open(path: &str) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).custom_flags(O_NONBLOCK).open(path)
}

impl<'a> MakeWriter<'a> for Sinks {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl io::Write for &Sinks {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut sinks = self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        for sink in sinks.iter_mut() {
            match sink {
                Sink::Stderr { json: true } => io::stderr().write_all(line)?,
                Sink::Stderr { json: false } => {
                    let line = paint::log_line(&String::from_utf8_lossy(line));
                    anstream::stderr().write_all(line.as_bytes())?;
                }
                Sink::Stdout => io::stdout().write_all(line)?,
                Sink::File(file) => file.write_all(line)?,
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
