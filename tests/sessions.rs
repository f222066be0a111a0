//! Sessions of the program, each file in a separate network namespace.

use crate::support::rows::rows;
use crate::support::session;
use nix::sched::{CloneFlags, unshare};
use std::{panic::resume_unwind, thread};

fn check(name: &'static str) {
    let apart = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("tests run as root");
        session::check(name);
    };
    thread::spawn(apart).join().unwrap_or_else(|panic| resume_unwind(panic));
}

rows! {
    ambient: check("ambient");
    calls: check("calls");
    cni: check("cni");
    here: check("here");
    kuma_init: check("kuma-init");
    linkerd_init: check("linkerd-init");
    live: check("live");
    machine: check("machine");
    namespaces: check("namespaces");
    others: check("others");
    sandbox: check("sandbox");
    status: check("status");
    validation: check("validation");
}
