//! Colours of pictures: their contrast, and their difference for viewers with a colour vision deficiency.

use crate::cli::typed::program::stdout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Light,
    Dark,
}

fn style(svg: &str, class: &str, property: &str, theme: Theme) -> String {
    let sheet =
        svg.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).expect("a sheet").0;
    let (light, dark) = sheet.split_once("@media(prefers-color-scheme:dark){").expect("a dark theme");
    let rules = if theme == Theme::Light { light } else { dark };
    let start = format!(".{class}{{{property}:");
    let (_, rest) = rules.split_once(&start).unwrap_or_else(|| panic!("{theme:?}: nothing of {class}"));
    rest.split(['}', ';']).next().expect("an end").to_owned()
}

/// Red, green and blue light, from 0 to 1 (IEC 61966-2-1).
fn light(colour: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

/// WCAG 2 contrast ratio.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour| {
        let [red, green, blue] = light(colour);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Light as perceived without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
const EYES: [(&str, [[f64; 3]; 3]); 4] = [
    ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ),
];

/// A colour in CIELAB, where distances are perceptual.
fn seen(colour: &str, eyes: &[[f64; 3]; 3]) -> [f64; 3] {
    let light = light(colour);
    let [red, green, blue] =
        eyes.map(|row| row.iter().zip(light).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0));
    let x = 0.4124 * red + 0.3576 * green + 0.1805 * blue;
    let y = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    let z = 0.0193 * red + 0.1192 * green + 0.9505 * blue;
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let (x, y, z) = (f(x / 0.9505), f(y), f(z / 1.089));
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(one: &str, other: &str, eyes: &[[f64; 3]; 3]) -> f64 {
    let (one, other) = (seen(one, eyes), seen(other, eyes));
    one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// Minimum distance: 2.3 is just noticeable; traffic lights are some 100 apart for normal vision.
const APART: f64 = 20.0;

#[test]
fn arrow_colours_differ_for_any_colour_vision() {
    let arguments = ["explain", "--output", "svg", "--pod-ips", "10.44.0.7", "-i", "*"];
    let svg = stdout(&arguments);
    for theme in [Theme::Light, Theme::Dark] {
        let colour = |verdict: &str| style(&svg, &format!("t-{verdict}-line"), "stroke", theme);
        let [captured, passing, dropped] = ["captured", "passing", "dropped"].map(colour);
        for (one, other) in [(&captured, &passing), (&captured, &dropped), (&passing, &dropped)] {
            for (eyes, matrix) in &EYES {
                let distance = distance(one, other, matrix);
                assert!(distance >= APART, "{theme:?}, {eyes}: {one} and {other} are {distance:.0} apart");
            }
        }
        // Lines have contrast on every background (WCAG 2, success criterion 1.4.11).
        for ground in ["t-page", "t-pod", "t-lit"].map(|class| style(&svg, class, "fill", theme)) {
            for line in [&captured, &passing, &dropped] {
                assert!(contrast(line, &ground) >= 3.0, "{theme:?}: {line} on {ground}");
            }
        }
    }
}

/// WCAG 2, success criterion 1.4.3. The label of passing traffic is never inside the proxy.
#[test]
fn text_has_contrast_on_every_background() {
    let svg = stdout(&["explain", "--output", "svg", "--pod-ips", "10.44.0.7", "-i", "*"]);
    let grounds = ["t-page", "t-pod", "t-place", "t-lit", "t-proxy"];
    for theme in [Theme::Light, Theme::Dark] {
        for ink in ["t-plain", "t-quiet", "t-captured", "t-dropped", "t-passing"] {
            for ground in grounds.iter().filter(|ground| ink != "t-passing" || **ground != "t-proxy") {
                let [text, behind] = [ink, ground].map(|class| style(&svg, class, "fill", theme));
                assert!(contrast(&text, &behind) >= 4.5, "{theme:?}: {ink} on {ground}");
            }
        }
    }
}
