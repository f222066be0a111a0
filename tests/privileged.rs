//! The tests that need root: they make network namespaces, and set rules in them.
//!
//! One program, because each one more links the whole project again.

mod support;

/// Rules reach the kernel completely, catch the packets that they should, survive failures, and go.
mod apply {
    mod ambient;
    mod clean;
    mod drift;
    mod faults;
    mod flows;
    mod groups;
    mod gvisor;
    mod ipv6;
    mod kernel;
    mod lock;
    mod native;
    mod ownerless;
    mod parallel;
    mod programs;
    mod removal;
    pub(crate) mod rerun;
    mod settled;
    mod side_by_side;
    pub(crate) mod stage;
}

/// The command line: arguments, outputs, terminals, the sandbox.
mod cli {
    mod contract;
    mod recording;
    mod sandbox;
    mod terminal;
}

/// The CNI plugin, its installation, and the container runtimes that call it.
mod cni {
    mod install;
    mod plugin;
    mod runtimes;
}

/// Answers about a namespace.
mod diagnose {
    mod live;
    mod one_answer;
    mod status;
    mod trace;
    mod verify;
}

/// Documents keep what they promise.
mod house {
    mod readme;
    #[expect(dead_code, reason = "the checks that need no root use all of it")]
    mod repository;
}

/// Each mesh against its own program and its real proxy.
mod meshes {
    mod ambient;
    mod commands;
    mod envoy;
    mod kuma;
    mod linkerd;
}

mod oracle;

mod sessions;

/// Several programs in one network namespace: nothing is set beside another one's capture, one takes the place of another
/// without a moment in which neither captures, and each is removed without the others.
mod takeover {
    mod inherited;
    mod killed;
    mod life;
    pub(crate) mod meshes;
    mod moves;
    pub(crate) mod packets;
    mod scene;
    pub(crate) mod states;
    pub(crate) mod upstream;
    mod watched;
}
