//! Manifests whose pods are injected where they are written.
//!
//! A manifest is read as data, which says what is injected and what comes of it. Then the text of each document that changes is
//! edited until it reads as the new data; the text of all others is not touched.
//!
//! ```text
//! text ── mesh::pod::KubernetesObject ── its pods ── pipeline::inject ── new data
//!   └──── edit::split ─────────── text of one document ────────── edit ────────────── new text
//! ```

mod diff;
mod edit;
mod manifest;
mod subject;

pub use diff::diff;
pub use edit::{Edited, edit};
pub use manifest::{Manifest, Note, RefusedManifest, Surroundings, manifest};
pub(crate) use subject::AdmissionSubject;
