//! Pictures of traffic: a model of parts, each with arrows in the order in which rules decide, drawn as SVG ([`Picture::svg`])
//! or as text ([`Picture::text`]). Tests hold each arrow against the simulator's walks through the rules of the same
//! configuration. The path of a packet in question is highlighted.

mod by_rules;
mod drawing;
mod layout;
mod model;
mod rows;
mod svg;
#[cfg(test)]
mod tests;
mod words;

pub use crate::traffic::TrafficPart;
pub use by_rules::{of, of_rules};
pub use model::{Panel, Picture, PictureFlow, of_skipped};
pub(crate) use rows::row_lines;
pub use rows::{DrawnRows, TrafficReport, TrafficRowReport};
