//! Log lines of what runs for long: on standard error, as text or as JSON.

use clap::Args;
use std::io;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

/// Which lines, and in which form. Names are the init container's.
#[derive(Args, Clone, Debug)]
pub(crate) struct Logging {
    /// Write log lines as JSON
    #[arg(long = "log_as_json", alias = "log-as-json")]
    json: bool,
    /// The least important lines that are written: error, warn, info, debug, trace, or off
    #[arg(
        long = "log_output_level",
        alias = "log-output-level",
        value_name = "LEVEL",
        default_value_t = LevelFilter::INFO
    )]
    level: LevelFilter,
}

/// Starts logging. A panic becomes a line too.
pub(crate) fn start(flags: &Logging) -> Level {
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
    Level(level)
}

/// Which lines are written, as long as the process runs.
#[derive(Clone, Debug)]
pub(crate) struct Level(reload::Handle<Targets, Registry>);

impl Level {
    /// Changes it.
    pub(crate) fn set(&self, level: LevelFilter) {
        if self.0.reload(filter(level)).is_err() {
            tracing::warn!(%level, "the level of log lines can't be changed");
        }
    }
}

/// Of other crates only what went wrong: their details may tell what a request carries.
fn filter(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        // A refusal comes with each try, and is told by whoever watches.
        .with_target("kube_runtime::watcher", level.min(LevelFilter::ERROR))
        .with_target(env!("CARGO_CRATE_NAME"), level)
}
