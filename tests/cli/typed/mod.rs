//! What people are told to type, and what types it for them: examples, help, completions in real shells, the manual.
//!
//! `scripts/setup --tests` installs the shells and mandoc. Where one is missing tests fail; they never skip.

mod completions;
mod examples;
mod help;
mod man;
pub(crate) mod program;
