//! Tests that need root: they create network namespaces and set rules in them, in one program, because each additional one links
//! the whole project again.

mod support;

/// Rules are set completely, capture the right packets, survive failures, and are removed.
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

mod cli {
    mod contract;
    mod recording;
    mod sandbox;
    mod terminal;
}

mod cni {
    mod install;
    mod plugin;
    mod runtimes;
}

mod diagnose {
    mod live;
    mod one_answer;
    mod status;
    mod trace;
    mod verify;
}

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

/// Several programs in one network namespace: none sets rules while another captures, a replacement never interrupts capture, and
/// each is removed separately.
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
