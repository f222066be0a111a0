//! Pictures of traffic: the ways of a pod's packets, and the options that decide.
//!
//! A picture is a model first: parts of the traffic, each with arrows in the order in which rules decide. It is drawn
//! as SVG ([`Picture::svg`]) or as text for a terminal ([`Picture::text`]). It comes from a configuration, and tests
//! hold each arrow against the simulator's walks through the rules that the same configuration makes. The path of a
//! packet in question is highlighted in it.

mod by_rules;
mod colours;
mod drawing;
mod flow;
mod label;
mod layout;
mod letters;
mod model;
mod panel;
mod rows;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod words;

pub use crate::traffic::TrafficPart;
pub use by_rules::{of, of_rules};
pub use flow::PictureFlow;
pub(crate) use label::grouped;
pub(crate) use model::option;
pub use model::{Picture, of_skipped};
pub use panel::Panel;
pub use rows::{DrawnRow, DrawnRows, TrafficReport, TrafficRowReport};
pub(crate) use text::rows_text;
