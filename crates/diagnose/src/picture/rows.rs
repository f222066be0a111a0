//! All traffic as a document, and the places of its rows in a drawn picture, so that a front end can make them answer.

use super::drawing::Area;
use super::layout::drawing;
use super::model::Picture;
use crate::basis::{Basis, BasisReport};
use crate::explain::VerdictKind;
use crate::traffic::TrafficPart;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// All traffic, in rows: the first with a packet has its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficReport {
    /// The rules on which the answer is based.
    pub basis: BasisReport,
    /// Sentences about all of the traffic.
    pub notes: Vec<String>,
    /// The rows, part by part, in the order in which rules decide.
    pub rows: Vec<TrafficRowReport>,
}

/// Packets with one verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficRowReport {
    /// `inbound`, `machines` (from virtual machines), `outbound` or `within` (usual calls within the pod).
    pub part: Cow<'static, str>,
    /// The packets in words; of many items of a list, the first.
    pub text: String,
    pub verdict: VerdictKind,
    /// The listener's port, the first of a range; null without a listener.
    pub port: Option<u16>,
    /// The last port, if a range of listeners shares the traffic.
    pub last_port: Option<u16>,
    /// The option that decides; null if none does.
    pub option: Option<String>,
}

/// An arrow of a picture that is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnRow {
    /// The number of its part, and its own number there.
    pub at: (usize, usize),
    pub part: &'static str,
    pub row: TrafficRowReport,
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
        let row = |&(at, Area { y: top, height, .. }): &((usize, usize), Area)| DrawnRow {
            at,
            part: self.panels[at.0].part.title(),
            row: self.row(at),
            lit: self.path.as_ref().is_some_and(|path| path.at == at),
            top,
            height,
        };
        DrawnRows {
            width: drawing.width,
            height: drawing.height,
            rows: drawing.rows.iter().map(row).collect(),
        }
    }

    /// All rows as a document.
    pub fn report(&self, basis: &Basis) -> TrafficReport {
        let places =
            self.shown_panels().flat_map(|(panel, shown)| (0..shown.flows.len()).map(move |at| (panel, at)));
        TrafficReport {
            basis: basis.report(),
            notes: self.notes.clone(),
            rows: places.map(|at| self.row(at)).collect(),
        }
    }

    fn row(&self, (panel, at): (usize, usize)) -> TrafficRowReport {
        let panel = &self.panels[panel];
        let flow = &panel.flows[at];
        let (verdict, ports) = flow.end();
        let (port, last_port) = VerdictKind::bounds(ports);
        let part = match panel.part {
            TrafficPart::Inbound => "inbound",
            TrafficPart::Machines => "machines",
            TrafficPart::Outbound => "outbound",
            TrafficPart::Within => "within",
        };
        TrafficRowReport {
            part: part.into(),
            text: flow.label.text(|text| text.len() <= MAX_LABEL),
            verdict,
            port,
            last_port,
            option: flow.option.clone(),
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
