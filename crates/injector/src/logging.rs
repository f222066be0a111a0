//! Log lines of commands that run for long: on standard error, as text or as JSON.

use clap::Args;
use mesh::settings::levels::{IstioLogLevel, ScopeLevel, by_scope};
use std::io;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

/// Which lines, and in which form. Names are the init container's.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoggingFlags {
    /// Write log lines as JSON
    #[arg(long = "log_as_json", alias = "log-as-json")]
    json: bool,
    /// Log level: none, fatal, error, warn, info, debug or trace; of levels by scope, default and all are
    /// used
    #[arg(
        long = "log_output_level",
        alias = "log-output-level",
        value_name = "LEVELS",
        default_value = "default:info",
        value_parser = level,
        overrides_with = "level"
    )]
    level: LevelFilter,
}

/// Scopes are those of Istio's programs. There is one of them here, the default.
fn level(text: &str) -> Result<LevelFilter, String> {
    let (mut items, mut problems) = (Vec::new(), Vec::new());
    for item in text.split(',') {
        match item.parse::<ScopeLevel>() {
            Ok(level) => items.push(level),
            Err(problem) => problems.push(format!("{item:?} {problem}")),
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let (everything, _) = by_scope(items);
    Ok(match everything.unwrap_or(IstioLogLevel::Info) {
        IstioLogLevel::None => LevelFilter::OFF,
        IstioLogLevel::Error => LevelFilter::ERROR,
        IstioLogLevel::Warn => LevelFilter::WARN,
        IstioLogLevel::Info => LevelFilter::INFO,
        IstioLogLevel::Debug => LevelFilter::DEBUG,
        IstioLogLevel::Trace => LevelFilter::TRACE,
    })
}

/// A panic becomes a line too.
pub(crate) fn start(flags: &LoggingFlags) -> LogLevelHandle {
    let (filter, level) = reload::Layer::new(filter(flags.level));
    let lines = fmt::layer().with_ansi(false).with_writer(io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match flags.json {
        true => lines.json().flatten_event(true).with_filter(filter).boxed(),
        false => lines.with_filter(filter).boxed(),
    };
    tracing_subscriber::registry().with(lines).init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let owned = || payload.downcast_ref::<String>().map(String::as_str);
        let text = payload.downcast_ref::<&str>().copied().or_else(owned).unwrap_or_default();
        tracing::error!(place, text, "a defect; please report it");
    }));
    LogLevelHandle(level)
}

/// Changes the level of log lines while the process runs.
#[derive(Clone, Debug)]
pub(crate) struct LogLevelHandle(reload::Handle<Targets, Registry>);

impl LogLevelHandle {
    pub(crate) fn set(&self, level: LevelFilter) {
        if self.0.reload(filter(level)).is_err() {
            tracing::warn!(%level, "the level of log lines can't be changed");
        }
    }
}

/// Of other crates only what went wrong: their details may show what a request carries.
fn filter(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        // The watches log each refusal once; this target, with every try.
        .with_target("kube_runtime::watcher", level.min(LevelFilter::ERROR))
        // The caller of each request reports its errors.
        .with_target("kube_client::client::builder", LevelFilter::OFF)
        .with_target(env!("CARGO_CRATE_NAME"), level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        logging: LoggingFlags,
    }

    #[test]
    fn levels_are_those_of_istios_programs() {
        let level = |words: &[&str]| {
            let words = ["program"].iter().chain(words);
            Program::try_parse_from(words)
                .map(|program| program.logging.level)
                .map_err(|error| error.to_string())
        };
        for (words, expected) in [
            (&[][..], LevelFilter::INFO),
            (&["--log_output_level=warn"], LevelFilter::WARN),
            (&["--log_output_level", "default:debug,ads:none"], LevelFilter::DEBUG),
            (&["--log-output-level=ads:debug"], LevelFilter::INFO),
            (&["--log_output_level=default:info,all:none"], LevelFilter::OFF),
            (&["--log_output_level=all:none,default:info"], LevelFilter::OFF),
            (&["--log_output_level=info", "--log_output_level=fatal"], LevelFilter::ERROR),
        ] {
            assert_eq!(level(words), Ok(expected), "{words:?}");
        }
        let shown = level(&["--log_output_level=default:loud,info,ads:"]).expect_err("no levels");
        for text in ["\"default:loud\" names no log level", "\"ads:\"", "expected SCOPE:LEVEL"] {
            assert!(shown.contains(text), "{shown}");
        }
    }
}
