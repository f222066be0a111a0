//! Pictures of traffic: a model of parts, each with arrows in the order in which rules decide, drawn as SVG
//! ([`Picture::svg`]) or as text ([`Picture::text`]), optionally with the highlighted path of a packet. Tests compare each
//! arrow with the simulator's walks through the rules.

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
