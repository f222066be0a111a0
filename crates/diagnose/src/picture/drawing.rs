//! A picture laid out: shapes and texts with their places, which can be compared with each other before they are drawn.

use super::letters::Font;

/// The meaning of a text's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    /// Text that a reader may skip.
    Quiet,
    Captured,
    Passing,
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Page,
    /// The frame around the pod.
    Pod,
    /// A place where arrows start or end.
    Place,
    /// The proxy, or the agent beside it.
    Proxy,
    /// Behind the path of the packet in question.
    Lit,
}

/// Styles of lines, which differ without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    /// Solid and thick, with a full tip.
    Captured,
    /// Dashed, with an open tip.
    Passing,
    /// Dotted, with a cross at its end.
    Dropped,
    /// Dotted, without an end.
    Unknown,
    /// Thin: traffic that the proxy sends on.
    HandedOn,
}

/// In pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// Where it starts, or its middle.
    pub(super) x: u32,
    /// Its base line.
    pub(super) y: u32,
    pub(super) centred: bool,
    pub(super) font: Font,
    pub(super) pieces: Vec<(Ink, String)>,
}

impl Text {
    /// The area that it takes, at most.
    #[cfg(test)]
    pub(super) fn area(&self) -> Area {
        let Font { size, .. } = self.font;
        let width: u32 = self.pieces.iter().map(|(_, text)| self.font.width(text)).sum();
        let x = if self.centred { self.x.saturating_sub(width / 2) } else { self.x };
        // Letters of DejaVu Sans reach 0.76 of the size above the base line, and 0.24 below it.
        Area { x, y: self.y - size * 4 / 5, width, height: size }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DrawingItem {
    Box(Fill, Area),
    /// A horizontal line; without a `tip` it goes on behind a box.
    Arrow {
        stroke: Stroke,
        quiet: bool,
        from: u32,
        to: u32,
        y: u32,
        tip: bool,
    },
    /// From a box at `x` as far as `to`, and back to the same box.
    Turn {
        stroke: Stroke,
        quiet: bool,
        x: u32,
        to: u32,
        y: u32,
    },
    Text(Text),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) width: u32,
    pub(super) height: u32,
    /// In the order in which they are drawn.
    pub(super) items: Vec<DrawingItem>,
    /// The area of each arrow with its text, by panel and place there.
    pub(super) rows: Vec<((usize, usize), Area)>,
}

impl Drawing {
    pub(super) fn text(
        &mut self,
        x: u32,
        y: u32,
        font: Font,
        pieces: impl IntoIterator<Item = (Ink, String)>,
    ) {
        let pieces = pieces.into_iter().collect();
        self.items.push(DrawingItem::Text(Text { x, y, centred: false, font, pieces }));
    }

    pub(super) fn centred(&mut self, x: u32, y: u32, font: Font, ink: Ink, text: &str) {
        let pieces = vec![(ink, text.to_owned())];
        self.items.push(DrawingItem::Text(Text { x, y, centred: true, font, pieces }));
    }
}
