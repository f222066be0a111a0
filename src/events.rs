//! The log events of a run, for the front end that writes them. No part makes a span: a subscriber that keeps spans sets up
//! tables first, which takes longer than all else that logging does.

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter, subscriber::set_global_default};

pub(crate) trait Log: Send + Sync + 'static {
    /// The most detailed level of events with this target.
    fn level(&self, target: &str) -> LevelFilter;

    fn max_level(&self) -> LevelFilter;

    fn write(&self, event: &Event<'_>);
}

/// Logs from now on; once in a process.
pub(crate) fn log_to(log: impl Log) {
    set_global_default(LogSubscriber(log)).expect("logging is started once");
}

pub(crate) struct LogSubscriber<L>(pub(crate) L);

impl<L: Log> Subscriber for LogSubscriber<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.0.level(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.max_level())
    }

    fn event(&self, event: &Event<'_>) {
        self.0.write(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
