//! The tests that need no rights.
//!
//! One program, because each one more links the whole project again.

/// What these share with the tests that need root.
#[expect(dead_code, reason = "the tests that need root use all of it")]
mod support {
    pub(crate) mod memory;
    pub(crate) mod program;
    pub(crate) mod random;
    pub(crate) mod rows;
    pub(crate) mod session;

    pub(crate) use testkit::{folder, scenarios as catalogue, scope};
}

/// The engine on a backend in memory.
mod apply {
    mod memory;
}

/// The command line: what is typed, and hostile texts.
mod cli {
    mod calls;
    mod hostile;
    pub(crate) mod typed;
}

/// Answers about flags and manifests.
mod diagnose {
    mod pictures;
    mod pods;
    mod sessions;
}

/// Changes from one mesh to another, in memory.
mod takeover {
    mod changes;
    pub(crate) mod memory;
    #[expect(dead_code, reason = "the tests that need root use the rest")]
    pub(crate) mod meshes;
}

/// Every scenario of every mesh.
mod meshes {
    mod goldens;
}
