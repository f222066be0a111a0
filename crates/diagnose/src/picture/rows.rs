//! All traffic as a document, and the places of its rows in a drawn picture, so that a front end can make them answer.

use super::drawing::Area;
use super::flow::PictureFlow;
use super::layout::drawing;
use super::model::Picture;
use crate::basis::{Basis, BasisReport};
use crate::explain::VerdictKind;
use crate::packets::Packets;
use rules::simulate::Verdict;
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
    /// Who gets the packets: the proxy's program, `application`, `network` or `virtual machine`.
    pub recipient: Cow<'static, str>,
    /// The listener's port, the first of a range; null without a listener.
    pub port: Option<u16>,
    /// The last port, if a range of listeners shares the traffic.
    pub last_port: Option<u16>,
    /// The option that decides; null if none does.
    pub option: Option<String>,
    /// The name of the rules that decide, as in comments and log lines; null where not one kind of a mesh's rules does.
    pub rule: Option<Cow<'static, str>>,
    /// The kinds of packets in it, as data.
    pub kinds: Vec<Packets>,
}

/// An arrow of a picture that is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnRow {
    /// The number of its part, and its own number there.
    pub at: (usize, usize),
    pub part: &'static str,
    pub row: TrafficRowReport,
    /// The packet that is asked about takes it.
    pub lit: bool,
    /// From the top of the picture, in its own pixels.
    pub top: u32,
    pub height: u32,
}

/// In the picture's own pixels.
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

    pub fn report(&self, basis: &Basis) -> TrafficReport {
        TrafficReport { basis: basis.report(), notes: self.notes.clone(), rows: self.rows_of(|_| true) }
    }

    /// The rows of these arrows; none where no rule does anything.
    pub(crate) fn rows_where(&self, is_shown: impl Fn(&PictureFlow) -> bool) -> Vec<TrafficRowReport> {
        let mut flows = self.panels.iter().flat_map(|panel| &panel.flows);
        if flows.any(|flow| flow.verdict != Verdict::Pass || flow.option.is_some()) {
            self.rows_of(is_shown)
        } else {
            Vec::new()
        }
    }

    fn rows_of(&self, is_shown: impl Fn(&PictureFlow) -> bool) -> Vec<TrafficRowReport> {
        let places =
            self.shown_panels().flat_map(|(panel, shown)| (0..shown.flows.len()).map(move |at| (panel, at)));
        places
            .filter(|(panel, at)| is_shown(&self.panels[*panel].flows[*at]))
            .map(|at| self.row(at))
            .collect()
    }

    pub(crate) fn has_unknown(&self) -> bool {
        self.panels.iter().flat_map(|panel| &panel.flows).any(|flow| flow.verdict == Verdict::Unknown)
    }

    fn row(&self, at: (usize, usize)) -> TrafficRowReport {
        self.row_with(at, |text| text.len() <= MAX_LABEL)
    }

    /// A row with as many items of its list as fit.
    pub(super) fn row_with(
        &self,
        (panel, at): (usize, usize),
        fits: impl Fn(&str) -> bool,
    ) -> TrafficRowReport {
        let panel = &self.panels[panel];
        let flow = &panel.flows[at];
        let (verdict, ports) = flow.end();
        let (port, last_port) = VerdictKind::bounds(ports);
        TrafficRowReport {
            part: panel.part.word().into(),
            text: flow.label.text(fits),
            verdict,
            recipient: self.recipient(flow).into(),
            port,
            last_port,
            option: flow.option.clone(),
            rule: flow.reason().map(|reason| reason.name().into()),
            kinds: flow.rows.iter().map(|row| row.packets.clone()).collect(),
        }
    }

    /// Sentences about all of the traffic.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// As many letters of a label are read in one go, in a list of arrows or by a screen reader.
pub(super) const MAX_LABEL: usize = 120;
