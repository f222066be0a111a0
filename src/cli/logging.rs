//! Log lines: their sinks, levels and formats.

use super::run::{Logging, Run};
use crate::events::{EventText, Log, log_to};
use anstream::adapter::strip_str;
use command_line::columns;
use diagnose::{Style, fold, trace::utc};
use mesh::sources::{Raw, Source};
use mesh::{InputProblem, Problems, Setting};
use nix::libc::O_NONBLOCK;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt::Debug, os::unix::fs::OpenOptionsExt, time::SystemTime};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

enum Sink {
    /// Possibly coloured, unless lines are JSON.
    Stderr,
    Stdout,
    File(File),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stdout {
    /// Reserved for the command's output, without log lines.
    Answer,
    Any,
}

/// True if events are printed as sentences, not as log lines.
static IS_PLAIN: AtomicBool = AtomicBool::new(false);

/// Prints sentences instead of log lines from now on, unless a flag or variable requests a log, or `changes` is true and standard
/// error is not a terminal: a container's changes are logged with their time.
pub(super) fn prefer_sentences(raw: &Raw, changes: bool) {
    let log = [Setting::LogOutputLevel, Setting::LogAsJson, Setting::LogTarget];
    let asks_for_log = log.into_iter().any(|setting| raw.get(setting).is_some());
    IS_PLAIN.store(!asks_for_log && (!changes || io::stderr().is_terminal()), Ordering::Relaxed);
}

pub(super) fn is_plain() -> bool {
    IS_PLAIN.load(Ordering::Relaxed)
}

/// Prints a sentence about a finished change, if sentences replace log lines.
pub(super) fn sentence(text: &str) {
    // A failed write keeps the exit code.
    let _ = anstream::stderr()
        .write_all(fold(&format!("{text}\n"), 2, columns::of_line(&io::stderr())).as_bytes());
}

pub(super) fn start_logging(raw: &Raw, run: &Run, stdout: Stdout) -> Result<(), Problems> {
    let Logging { level, scopes, json, targets } = &run.logging;
    let (mut sinks, mut append) = (Vec::new(), OpenOptions::new());
    append.create(true).append(true).custom_flags(O_NONBLOCK);
    // If standard output is reserved, its log lines go to standard error, which gets each line once.
    let mut to_stderr = targets.is_empty();
    for target in targets {
        match target.as_str() {
            "stderr" => to_stderr = true,
            "stdout" if stdout == Stdout::Answer => to_stderr = true,
            "stdout" => sinks.push(Sink::Stdout),
            // A pipe without a reader is an error, not a reason to wait.
            path => sinks.push(Sink::File(append.open(path).map_err(|error| {
                let source = Source::Flag(Setting::LogTarget.row().long);
                let text = format!("can't be written: {error}; expected stderr, stdout or a path");
                Problems(vec![InputProblem::with_item(&source, path, text)])
            })?)),
        }
    }
    if to_stderr {
        sinks.push(Sink::Stderr);
    }
    log_to(Log { level: *level, scopes: scopes.clone(), write: lines(*json, sinks) });
    for (name, value) in raw.service_links() {
        tracing::debug!(target: "config", "{name}={value} is a Service link set by Kubernetes; ignored");
    }
    Ok(())
}

fn lines(json: bool, sinks: Vec<Sink>) -> impl Fn(&Event<'_>) + Send + Sync {
    move |event| {
        // The final sentence covers the backend's steps.
        if is_plain() && event.metadata().target() == "backend" && *event.metadata().level() > Level::WARN {
            return;
        }
        let line = match json {
            true => self::json(event),
            false if is_plain() => plain(event),
            false => text(event),
        };
        for sink in &sinks {
            if let Err(error) = sink.write(&line) {
                let _ = writeln!(io::stderr(), "a log line can't be written: {error}");
            }
        }
    }
}

impl Sink {
    fn write(&self, line: &str) -> io::Result<()> {
        let plain = || strip_str(line).to_string();
        match self {
            // Most lines have no colour and need no terminal detection.
            Self::Stderr if line.contains('\u{1b}') => anstream::stderr().write_all(line.as_bytes()),
            Self::Stderr => io::stderr().write_all(line.as_bytes()),
            Self::Stdout => io::stdout().write_all(plain().as_bytes()),
            Self::File(file) => (&*file).write_all(plain().as_bytes()),
        }
    }
}

fn text(event: &Event<'_>) -> String {
    let metadata = event.metadata();
    let (time, level) = (utc(SystemTime::now()), format!("{:>5} ", metadata.level()));
    let level = match *metadata.level() {
        Level::ERROR => Style::Dropped.paint(level),
        Level::WARN => Style::Passing.paint(level),
        Level::INFO => level,
        _ => Style::Quiet.paint(level),
    };
    let mut text = EventText { text: format!("{time} {level}{}:", metadata.target()), is_sentence: false };
    event.record(&mut text);
    text.text.push('\n');
    text.text
}

fn plain(event: &Event<'_>) -> String {
    let (word, style) = match *event.metadata().level() {
        Level::ERROR => ("error:", Style::Dropped),
        Level::WARN => ("warning:", Style::Passing),
        _ => ("note:", Style::Quiet),
    };
    let mut text = EventText { is_sentence: true, ..EventText::default() };
    event.record(&mut text);
    fold(&format!("{}{}\n", style.paint(word), text.text), 2, columns::of_line(&io::stderr()))
}

fn json(event: &Event<'_>) -> String {
    let metadata = event.metadata();
    let mut fields = EventFields(Vec::new());
    fields.0.push(("timestamp", utc(SystemTime::now()).into()));
    fields.0.push(("level", metadata.level().as_str().into()));
    event.record(&mut fields);
    fields.0.push(("target", metadata.target().into()));
    let fields: Vec<String> = fields.0.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}\n", fields.join(","))
}

struct EventFields(Vec<(&'static str, Value)>);

impl Visit for EventFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}").into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, thread};
    use tracing::level_filters::LevelFilter;

    fn logged(json: bool, scopes: &[(&str, LevelFilter)], work: impl FnOnce() + Send) -> Vec<String> {
        let place = thread::current().name().expect("tests have names").replace(':', "-");
        let path = std::env::temp_dir().join(format!("sidecar-init-log-{}-{place}", std::process::id()));
        let file = File::create(&path).expect("a folder to write to");
        let scopes = scopes.iter().map(|(scope, level)| ((*scope).to_owned(), *level)).collect();
        let log = Log { level: LevelFilter::INFO, scopes, write: lines(json, vec![Sink::File(file)]) };
        tracing::subscriber::with_default(log, work);
        let text = fs::read_to_string(&path).expect("the log");
        fs::remove_file(path).expect("the log");
        let is_time = |word: &str| word.starts_with("20") && word.contains('Z');
        let without_time = |line: &str| match json {
            true => line.split(',').filter(|word| !word.contains("timestamp")).collect::<Vec<_>>().join(","),
            false => line.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" "),
        };
        text.lines().map(without_time).collect()
    }

    fn say() {
        let (path, backend) = ("/a b", "nftables");
        tracing::info!(target: "iptables", backend, rules = 17_usize, changed = true, milliseconds = 1.5, "{} done", "all");
        tracing::warn!(target: "cni", error = %format_args!("no \u{1b}[31m such \u{9b}file"), path, "a\u{7} bell\r");
        tracing::debug!(target: "backend", "more");
        tracing::debug!(target: "backend_two", "still more");
    }

    #[test]
    fn log_lines_are_readable_text() {
        assert_eq!(
            logged(false, &[("backend", LevelFilter::DEBUG), ("backend_two", LevelFilter::WARN)], say),
            [
                " INFO iptables: all done backend=\"nftables\" rules=17 changed=true milliseconds=1.5",
                " WARN cni: a\\u{7} bell\\r error=no \\u{1b}[31m such \\u{9b}file path=\"/a b\"",
                "DEBUG backend: more",
            ]
        );
    }

    #[test]
    fn log_lines_are_json() {
        assert_eq!(
            logged(true, &[("iptables", LevelFilter::OFF)], say),
            [concat!(
                r#""level":"WARN","message":"a\u0007 bell\r","error":"no \u001b[31m such "#,
                "\u{9b}",
                r#"file","path":"/a b","target":"cni"}"#
            )]
        );
    }
}
