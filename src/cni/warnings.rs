//! What the engine and the policy warn of, kept for the line that the log gets.

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, PoisonError},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt, util::SubscriberInitExt};

static COLLECTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts to collect.
pub(super) fn collect() {
    tracing_subscriber::registry().with(Collector).init();
}

pub(super) fn collected() -> Vec<String> {
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Collector;

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            let mut text = Text(String::new());
            event.record(&mut text);
            COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
        }
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::WARN)
    }
}

/// The message, then the other fields.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a text takes whatever is written to it");
    }
}
