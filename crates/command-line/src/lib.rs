//! Common parts of the programs' command lines: help sections, errors in one style, completions and manual pages.
//!
//! `sidecar-init` parses calls with its own tables and uses some parts; the other programs are clap commands, run by
//! [`program`].

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
