//! The tests that need no rights.
//!
//! One program, because each one more links the whole project again.

/// What these share with the tests that need root.
#[expect(dead_code, reason = "the tests that need root use all of it")]
mod support {
    pub(crate) mod catalogue;
    pub(crate) mod configurations;
    pub(crate) mod flags;
    pub(crate) mod program;
    pub(crate) mod random;

    pub(crate) use testkit::folder;
}

mod additions;
mod delivery;
mod diff;
mod explain;
mod goldens;
mod headers;
mod injection;
mod layers;
mod life;
mod lint;
mod pictures;
mod pods;
mod round_trip;
mod tidy;
mod typed;
mod words;
