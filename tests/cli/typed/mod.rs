//! Typed commands: examples, help, completions in real shells, the manual. `scripts/setup --tests` installs the shells and
//! mandoc. Without them tests fail; they never skip.

mod completions;
mod examples;
mod help;
mod man;
pub(crate) mod program;
