//! Log lines: where they go, which, and in which form.

use super::run::{Logging, Mode};
use policy::sources::Source;
use policy::{Problem, Setting};
use std::{
    fs::{File, OpenOptions},
    io,
    sync::Mutex,
};
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, fmt::MakeWriter, layer::SubscriberExt, util::SubscriberInitExt,
};

/// One place that lines go to.
enum Sink {
    Stderr,
    Stdout,
    File(File),
}

/// All places that lines go to.
struct Sinks(Mutex<Vec<Sink>>);

/// Starts logging. A preview keeps standard output for the rules, whatever `--log_target` says.
///
/// # Errors
/// When a log file can't be opened.
pub(super) fn start(logging: &Logging, mode: Mode) -> Result<(), Problem> {
    let mut sinks = Vec::new();
    for target in &logging.targets {
        sinks.push(match target.as_str() {
            "stderr" => Sink::Stderr,
            "stdout" if matches!(mode, Mode::Preview(_)) => Sink::Stderr,
            "stdout" => Sink::Stdout,
            path => Sink::File(OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
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
        sinks.push(Sink::Stderr);
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
                Sink::Stderr => io::stderr().write_all(line)?,
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
