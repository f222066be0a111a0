//! Warnings of the engine and of the mesh, collected for the log entry of the call.

use crate::events::{Log, log_to};
use std::{
    fmt::{Debug, Write},
    sync::{Mutex, PoisonError},
};
use tracing::{
    Event,
    field::{Field, Visit},
    level_filters::LevelFilter,
};

static COLLECTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(super) fn collect() {
    log_to(Collector);
}

pub(super) fn collected() -> Vec<String> {
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Collector;

impl Log for Collector {
    fn level(&self, _: &str) -> LevelFilter {
        self.max_level()
    }

    fn max_level(&self) -> LevelFilter {
        LevelFilter::WARN
    }

    fn write(&self, event: &Event<'_>) {
        let mut text = WarningText(String::new());
        event.record(&mut text);
        COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
    }
}

/// The message, then the other fields.
struct WarningText(String);

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a text takes whatever is written to it");
    }
}
