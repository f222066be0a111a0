//! Tests that need no privileges, in one program, because each additional one links the whole project again.

/// Helpers shared with the tests that need root.
#[expect(dead_code, reason = "the tests that need root use all of it")]
mod support {
    pub(crate) mod memory;
    pub(crate) mod program;
    pub(crate) mod random;
    pub(crate) mod rows;
    pub(crate) mod session;

    pub(crate) use testkit::{folder, scenarios as catalogue, scope};
}

mod apply {
    mod memory;
}

/// The command line: typed calls, and hostile strings.
mod cli {
    mod calls;
    mod hostile;
    pub(crate) mod typed;
}

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

mod meshes {
    mod goldens;
}
