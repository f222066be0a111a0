//! `cni install`, `cni uninstall` and `cni repair` on a node made of two folders.

mod hostile;
mod http;
mod kills;
mod manifests;
mod node;
#[path = "../support/note.rs"]
mod note;
mod once;
mod programs;
mod repair;
mod rewriters;
mod watching;

#[path = "../kernel/support/namespace.rs"]
#[expect(dead_code, reason = "a part of it is enough here")]
mod namespace;
