//! Manifests whose pods are injected where they are written.
//!
//! A manifest is read twice: as data, which says what is injected and what comes of it, and as text, whose every value knows
//! its bytes. What differs between the old data and the new becomes changes of the text. The outcome is read again, and has
//! to be the new data; a document of which that isn't true is written anew, and its author is told.
//!
//! ```text
//! text ── policy::pod::holders ── data, and where its pods are ── pipeline::inject ── new data
//!   └──── written ─────────────── the same with its bytes ──────── edit ───────────── new text
//! ```

mod align;
mod cursor;
mod diff;
mod edit;
mod lines;
mod manifest;
mod odd;
mod place;
mod render;
mod replace;
mod spot;
mod text;
mod written;

pub use diff::diff;
pub use manifest::{Manifest, Note, Refused, Surroundings, manifest};
pub(crate) use manifest::{as_texts, is_told};
pub use text::{Edited, edit};
