//! The engine, called as the front ends call it, without their lint.

use mesh::sources::{NullHost, Raw};
use mesh::{Capture, CapturePolicy, Mesh, OWNERS, Setting};
use rules::Ownership;
use sidecar_init::backend::{Kernel, iptables::Lock};
use sidecar_init::engine::{self, Choice, Options, Summary};

use super::namespace::Namespace;
use super::setting::Variant;

pub(crate) fn kernel(ownership: Ownership) -> Kernel {
    Kernel::open(Lock { wait: 60, ..Lock::default() }, ownership).expect("a namespace that can be changed")
}

pub(crate) fn capture(settings: impl IntoIterator<Item = (Setting, String)>) -> Capture {
    let raw = Raw::new(settings, |_| true, |_| None);
    let resolved = mesh::resolve(&raw, &NullHost, Vec::new());
    resolved.unwrap_or_else(|problems| panic!("{raw:?}: {problems}")).capture
}

pub(crate) fn apply(namespace: &Namespace, capture: &Capture, variant: Variant) -> Summary {
    let choice = Choice::named(variant.backend()).expect("the name of a choice");
    let policy: &dyn CapturePolicy = &**capture;
    let (desired, options) = (policy.desired(), Options::replacing(choice, OWNERS));
    let apply = || engine::apply(&mut kernel(capture.mesh().ownership()), &desired, &options);
    namespace.run(apply).expect("rules and routing are set")
}

pub(crate) fn clean(namespace: &Namespace, mesh: Mesh) -> usize {
    let owner = mesh.ownership();
    let cleaned = namespace.run(|| engine::clean(&mut kernel(owner), owner, OWNERS));
    cleaned.expect("cleaned").steps.len()
}
