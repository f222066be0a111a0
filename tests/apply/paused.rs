//! Changes through nf_tables that stop before each step: over netlink no program stands between, so the engine is called
//! here with a backend that waits.

use mesh::Mesh;
use mesh::istio::OWNERSHIP;
use mesh::settings::{self, Setting, SettingKind};
use mesh::sources::{NullHost, Raw};
use rules::desired::{Desired, StaleFlows};
use sidecar_init::backend::iptables::Lock;
use sidecar_init::backend::{Backend, CommitStep, Error, Kernel, Snapshot, Variant};
use sidecar_init::engine::{self, Choice, Options};

/// Applies by nf_tables in the network namespace of this thread, and calls `wait` before each step.
pub(crate) fn apply(flags: &[&str], wait: impl FnMut(&CommitStep)) {
    let lock = Lock { wait: 30, ..Lock::default() };
    let kernel = Kernel::open(lock, OWNERSHIP).expect("a kernel with netfilter");
    let options = Options::replacing(Choice::Nftables, mesh::OWNERS);
    let done = engine::apply(&mut Paused { kernel, wait }, &desired(flags), &options);
    done.expect("the change works");
}

fn desired(flags: &[&str]) -> Desired {
    let mut words = flags.iter();
    let mut given: Vec<(Setting, String)> = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
        let is_named = |short: Option<char>, long: &str| {
            name.strip_prefix("--") == Some(long) || short.is_some_and(|short| name == format!("-{short}"))
        };
        let row =
            settings::of(Mesh::default()).find(|row| is_named(row.short, row.long)).expect("a flag of ours");
        let value = match (value, row.kind) {
            (Some(value), _) => value,
            (None, SettingKind::Switch) => "true",
            (None, SettingKind::Value(_)) => words.next().expect("a value"),
        };
        given.push((row.setting, value.to_owned()));
    }
    let raw = Raw::new(given, |_| true, |_| None);
    mesh::resolve(&raw, &NullHost, Vec::new()).expect("flags of the test").capture.desired()
}

struct Paused<F> {
    kernel: Kernel,
    wait: F,
}

impl<F: FnMut(&CommitStep)> Backend for Paused<F> {
    fn hold(&mut self) -> Result<(), Error> {
        self.kernel.hold()
    }

    fn read(&mut self) -> Result<Snapshot, Error> {
        self.kernel.read()
    }

    fn commit(&mut self, step: &CommitStep) -> Result<(), Error> {
        (self.wait)(step);
        self.kernel.commit(step)
    }

    fn has_programs(&self, variant: Variant) -> bool {
        self.kernel.has_programs(variant)
    }

    fn forget_flows(&mut self, stale: &StaleFlows) -> Result<usize, Error> {
        self.kernel.forget_flows(stale)
    }
}
