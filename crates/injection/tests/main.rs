//! Tests of this crate in one program.

mod any_words;
mod arguments;
mod built_in;
mod cluster_lint;
mod configuration;
mod explain;
mod go_template;
mod manifests;
mod merge;
mod offline;
mod offline_laws;
mod offline_notes;
mod patch;
mod pipeline;
mod sidecar;
mod support;
mod tag;
