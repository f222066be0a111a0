//! Layout of a picture: shapes and texts with their positions, which tests compare, and text widths.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Quiet,
    Captured,
    Passing,
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Page,
    Pod,
    Place,
    /// Proxy, or the agent beside it.
    Proxy,
    /// Background of the path of the queried packet.
    Lit,
}

/// Styles of lines, distinguishable without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    /// Solid and thick, with a full tip.
    Captured,
    /// Dashed, with an open tip.
    Passing,
    /// Dotted, with a cross at its end.
    Dropped,
    /// Dotted, without a tip.
    Unknown,
    /// Thin: traffic that the proxy forwards.
    HandedOn,
}

/// Rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// Start of the text, or its middle if it is centred.
    pub(super) x: u32,
    /// Baseline.
    pub(super) y: u32,
    pub(super) centred: bool,
    pub(super) font: Font,
    pub(super) pieces: Vec<(Ink, String)>,
}

impl Text {
    #[cfg(test)]
    pub(super) fn area(&self) -> Area {
        let Font { size, .. } = self.font;
        let width: u32 = self.pieces.iter().map(|(_, text)| self.font.width(text)).sum();
        let x = if self.centred { self.x.saturating_sub(width / 2) } else { self.x };
        // Letters of DejaVu Sans reach 0.76 of the size above the baseline, and 0.24 below it.
        Area { x, y: self.y - size * 4 / 5, width, height: size }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) stroke: Stroke,
    pub(super) quiet: bool,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) y: u32,
    pub(super) end: LineEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// Continues behind a box.
    Open,
    Tip,
    /// Returns to its box of origin, with its tip there.
    Turn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DrawingItem {
    Box(Fill, Area),
    Line(Line),
    Text(Text),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) items: Vec<DrawingItem>,
    /// Area of each arrow with its text, by panel and arrow index.
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

/// Widths of printable ASCII in thousandths of the font's size: DejaVu Sans, the widest font that browsers fall back to.
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295,
    295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838,
    500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];
/// Width of any other character.
const OTHER: u16 = 1000;

/// Font with its size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Font {
    pub(super) size: u32,
    pub(super) bold: bool,
}

impl Font {
    /// Maximum width in pixels.
    pub(super) fn width(self, text: &str) -> u32 {
        let width = |c: char| {
            let index = u32::from(c).checked_sub(32).and_then(|index| usize::try_from(index).ok());
            u32::from(index.and_then(|index| WIDTHS.get(index)).copied().unwrap_or(OTHER))
        };
        let thousandths: u32 = text.chars().map(width).sum::<u32>() * self.size;
        // Bold letters are wider, by 14% in the words of pictures.
        let thousandths = if self.bold { thousandths * 116 / 100 } else { thousandths };
        thousandths.div_ceil(1000)
    }

    pub(super) fn lines(self, text: &str, width: u32) -> Vec<String> {
        lines(text, |line| self.width(line) <= width)
    }
}

/// Text in lines that fit. Long words are broken, after a slash, a comma or an underscore if possible.
pub(super) fn lines(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        if let (Some(joined), Some(line)) = (joined.filter(|text| fits(text)), lines.last_mut()) {
            *line = joined;
            continue;
        }
        let mut rest = word;
        while !fits(rest) {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let Some(fit) = ends.take_while(|end| fits(&rest[..*end])).last() else { break };
            let nice = rest[..fit].rfind(['/', ',', '_']).map_or(fit, |at| at + 1);
            lines.push(rest[..nice].to_owned());
            rest = &rest[nice..];
        }
        lines.push(rest.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Font = Font { size: 10, bold: false };

    fn check(text: &str, width: u32, expected: &[&str]) {
        assert_eq!(PLAIN.lines(text, width), expected, "{text:?}");
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_long_words_at_separators() {
        check("one two three", 50, &["one two", "three"]);
        check("traffic.example/excludeNetworks", 100, &["traffic.example/", "excludeNetworks"]);
        check("", 10, &[""]);
        assert!(Font { bold: true, ..PLAIN }.width("captured") > PLAIN.width("captured"));
    }

    #[test]
    fn no_line_is_wider_than_the_limit() {
        let text = "a0123456789".repeat(20);
        for line in PLAIN.lines(&text, 70) {
            assert!(PLAIN.width(&line) <= 70, "{line}");
        }
    }
}
