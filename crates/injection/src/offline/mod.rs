//! Manifests whose pods are injected in place.
//!
//! A manifest is parsed as data, which is injected. Then the content of each changed document is edited until it parses as the
//! new data; other documents keep their bytes.
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
