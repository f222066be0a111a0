//! Numbers for Prometheus. One thread does everything, so they need no lock.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Write,
};

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Writes by kind, verb and outcome.
    writes: RefCell<BTreeMap<(String, &'static str, &'static str), u64>>,
    /// Disturbances of watches by resource and kind.
    disturbances: RefCell<BTreeMap<(&'static str, &'static str), u64>>,
    rounds: Cell<u64>,
    leading: Cell<bool>,
    ready: Cell<bool>,
}

impl Numbers {
    pub(super) fn wrote(&self, kind: &str, verb: &'static str, well: bool) {
        let outcome = if well { "done" } else { "failed" };
        *self.writes.borrow_mut().entry((kind.to_owned(), verb, outcome)).or_default() += 1;
    }

    pub(super) fn disturbed(&self, resource: &'static str, kind: &'static str) {
        *self.disturbances.borrow_mut().entry((resource, kind)).or_default() += 1;
    }

    /// A namespace was looked at.
    pub(super) fn looked(&self) {
        self.rounds.set(self.rounds.get() + 1);
    }

    pub(super) fn leads(&self, leads: bool) {
        self.leading.set(leads);
    }

    /// All that is watched is known.
    pub(super) fn ready(&self) {
        self.ready.set(true);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.get()
    }

    /// The text that Prometheus reads.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, u64)>| {
            let name = format!("sidecar_environment_{name}");
            let samples: String =
                samples.iter().map(|(labels, value)| format!("{name}{labels} {value}\n")).collect();
            write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
                .expect("a text takes whatever is written to it");
        };
        let writes = self.writes.borrow();
        let labelled = writes.iter().map(|((kind, verb, outcome), count)| {
            (format!("{{kind=\"{kind}\",verb=\"{verb}\",outcome=\"{outcome}\"}}"), *count)
        });
        family("writes_total", "counter", "Objects that were written.", labelled.collect());
        let disturbances = self.disturbances.borrow();
        let labelled = disturbances.iter().map(|((resource, kind), count)| {
            (format!("{{resource=\"{resource}\",kind=\"{kind}\"}}"), *count)
        });
        family("watch_errors_total", "counter", "Disturbances of watches.", labelled.collect());
        let plain = |value: u64| vec![(String::new(), value)];
        family("rounds_total", "counter", "How often a namespace was looked at.", plain(self.rounds.get()));
        family("leading", "gauge", "Whether this one leads.", plain(self.leading.get().into()));
        text
    }
}
