//! Log events of a run, for the front end that writes them. No part creates spans: a subscriber with spans sets up tables first,
//! which takes longer than the rest of logging.

use std::fmt::Debug;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter, subscriber::set_global_default};

pub(crate) struct Log<W> {
    pub(crate) level: LevelFilter,
    /// A target has the level of its longest scope prefix; the later of equal scopes wins.
    pub(crate) scopes: Vec<(String, LevelFilter)>,
    pub(crate) write: W,
}

pub(crate) fn log_to(log: Log<impl Fn(&Event<'_>) + Send + Sync + 'static>) {
    set_global_default(log).expect("logging is started once");
}

impl<W: Fn(&Event<'_>) + Send + Sync + 'static> Subscriber for Log<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let scopes = self.scopes.iter().filter(|(scope, _)| metadata.target().starts_with(scope.as_str()));
        let level = scopes.max_by_key(|(scope, _)| scope.len()).map_or(self.level, |(_, level)| *level);
        metadata.is_event() && *metadata.level() <= level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.scopes.iter().map(|(_, level)| *level).fold(self.level, LevelFilter::max))
    }

    fn event(&self, event: &Event<'_>) {
        (self.write)(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
pub(crate) struct EventText {
    pub(crate) text: String,
    pub(crate) is_sentence: bool,
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "message" => format!(" {value:?}"),
            // A finding's code, as lint prints it.
            "code" if self.is_sentence => format!(" ({value:?})"),
            name => format!(" {name}={value:?}"),
        };
        // A message may quote external text with characters that control a terminal.
        for c in text.chars() {
            match mesh::is_obeyed(c) && !matches!(c, '\n' | '\t') {
                true => self.text.extend(c.escape_default()),
                false => self.text.push(c),
            }
        }
    }
}
