//! Manifests whose pods are injected where they are written.

mod align;
mod cursor;
mod edit;
mod lines;
mod place;
mod render;
mod replace;
mod text;
mod written;

pub use text::{Edited, edit};
