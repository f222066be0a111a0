//! The colours of pictures, on light pages and on dark ones.
//!
//! Blue for captured traffic, grey for traffic that passes, and a red that differs from both by its lightness: they
//! stay apart for
//! eyes that miss a kind of cones.
//! Tests hold their contrast with whatever lies behind them.

/// A class of the style sheet, the property that it colours, and the colours on light and on dark pages.
pub(super) type Colour = (&'static str, &'static str, &'static str, &'static str);

/// Colours of text. Lines have those of the same name.
pub(super) const TEXT: [Colour; 5] = [
    ("plain", "fill", "#1b2530", "#e8edf3"),
    ("quiet", "fill", "#515c68", "#aab6c2"),
    ("captured", "fill", "#0a58b8", "#74b3ff"),
    ("passing", "fill", "#68696b", "#9aa3ad"),
    ("dropped", "fill", "#5c0a2e", "#ffd0d0"),
];

/// Colours behind text.
pub(super) const BEHIND: [Colour; 5] = [
    ("page", "fill", "#ffffff", "#10151b"),
    ("pod", "fill", "#f3f6fa", "#19212a"),
    ("place", "fill", "#e6ebf1", "#2a343f"),
    ("proxy", "fill", "#d9e7fa", "#1d3657"),
    ("lit", "fill", "#fff3c9", "#3b3516"),
];

pub(super) const BORDERS: [Colour; 4] = [
    ("pod", "stroke", "#8593a3", "#5d6c7c"),
    ("place", "stroke", "#8593a3", "#6f7f90"),
    ("proxy", "stroke", "#0a58b8", "#74b3ff"),
    ("lit", "stroke", "#b58900", "#d0a520"),
];
