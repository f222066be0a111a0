//! Log lines of long-running programs: on standard error, as text or as JSON.

use std::{io, panic};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, reload};

/// Starts the log of a program whose crates are `own`. Panics are logged too.
pub fn start(json: bool, level: LevelFilter, own: &'static [&'static str]) -> LogLevelHandle {
    let (filter, handle) = reload::Layer::new(filter(level, own));
    let lines = fmt::layer().with_ansi(false).with_writer(io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match json {
        true => lines.json().flatten_event(true).with_filter(filter).boxed(),
        false => lines.with_filter(filter).boxed(),
    };
    tracing_subscriber::registry().with(lines).init();
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let owned = || payload.downcast_ref::<String>().map(String::as_str);
        let text = payload.downcast_ref::<&str>().copied().or_else(owned).unwrap_or_default();
        tracing::error!(place, text, "internal error; please report it");
    }));
    LogLevelHandle { handle, own }
}

#[derive(Clone, Debug)]
pub struct LogLevelHandle {
    handle: reload::Handle<Targets, Registry>,
    own: &'static [&'static str],
}

impl LogLevelHandle {
    pub fn set(&self, level: LevelFilter) {
        if self.handle.reload(filter(level, self.own)).is_err() {
            tracing::warn!(%level, "the log level can't be changed");
        }
    }
}

/// Other crates log only warnings and errors: their details may contain parts of requests.
fn filter(level: LevelFilter, own: &[&'static str]) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        // The watches log each refusal once; this target would log every retry.
        .with_target("kube_runtime::watcher", level.min(LevelFilter::ERROR))
        // Callers report their requests' errors.
        .with_target("kube_client::client::builder", LevelFilter::OFF)
        .with_targets(own.iter().map(|target| (*target, level)))
}
