//! Where the arrows of a drawn picture are and what they are about, so that a front end can make them answer.

use super::drawing::Area;
use super::layout::drawing;
use super::model::Picture;
use crate::explain::VerdictKind;
use rules::PortRange;

/// An arrow of a picture that is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnRow {
    /// The number of its part, and its own number there.
    pub at: (usize, usize),
    pub part: &'static str,
    /// The packets that it is about.
    pub packets: String,
    pub option: Option<String>,
    /// The kind of the verdict, and the listeners' ports.
    pub end: (VerdictKind, Option<PortRange>),
    /// Whether the packet that is asked about takes it.
    pub lit: bool,
    /// From the top of the picture, in its own pixels.
    pub top: u32,
    pub height: u32,
}

/// A picture's size in its own pixels, and its arrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnRows {
    pub width: u32,
    pub height: u32,
    pub rows: Vec<DrawnRow>,
}

impl Picture {
    /// The arrows of [`Picture::svg`].
    pub fn rows(&self) -> DrawnRows {
        let drawing = drawing(self);
        let row = |&(at, Area { y: top, height, .. }): &((usize, usize), Area)| {
            let panel = &self.panels[at.0];
            let flow = &panel.flows[at.1];
            DrawnRow {
                at,
                part: panel.part.title(),
                packets: flow.label.text(|text| text.len() <= MAX_LABEL),
                option: flow.option.clone(),
                end: flow.end(),
                lit: self.path.as_ref().is_some_and(|path| path.at == at),
                top,
                height,
            }
        };
        DrawnRows {
            width: drawing.width,
            height: drawing.height,
            rows: drawing.rows.iter().map(row).collect(),
        }
    }

    /// What holds for all of the traffic.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the proxy is called.
    pub fn proxy(&self) -> &'static str {
        self.proxy
    }
}

/// As many letters of a label are read in one go, in a list of arrows or by a screen reader.
pub(super) const MAX_LABEL: usize = 120;
