//! Common parts of the programs' command lines: sections of help, errors in one style, completions and manual pages.
//!
//! `sidecar-init` reads calls by its own tables and uses the parts; the other programs describe themselves to clap, and
//! [`program`] does the rest.

#![forbid(unsafe_code)]

pub mod columns;
pub mod complete;
pub mod errors;
pub mod manual;
pub mod output;
pub mod program;
pub mod sections;
pub mod shell;
pub mod topics;
