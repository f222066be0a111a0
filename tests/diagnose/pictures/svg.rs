//! Pictures as their readers get them: every scenario's SVG, taken apart and measured.
//!
//! Widths are guessed here in another way than the program measures them, by kinds of letters of the widest usual font.

use crate::diagnose::pictures::colours::{Theme, contrast, style};
use crate::support::catalogue::{Case, scenarios};
use crate::support::program::{Run, bare};

/// What WCAG 2 asks of text (success criterion 1.4.3).
const READABLE: f64 = 4.5;

struct Box {
    class: String,
    area: Area,
}

#[derive(Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

struct Text {
    area: Area,
    /// Classes and words of its pieces.
    pieces: Vec<(String, String)>,
}

impl Area {
    fn meets(&self, other: &Self) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }

    fn holds(&self, other: &Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.x + other.width <= self.x + self.width
            && other.y + other.height <= self.y + self.height
    }
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let start = element.find(&format!(" {name}=\""))? + name.len() + 3;
    element[start..].split('"').next()
}

fn number(element: &str, name: &str) -> f64 {
    let text = attribute(element, name).unwrap_or_else(|| panic!("no {name} in {element}"));
    text.parse().unwrap_or_else(|_| panic!("{name} in {element}"))
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Boxes and texts in the order of drawing; one element stands on each line.
fn parts(svg: &str) -> (Vec<Box>, Vec<Text>) {
    let (mut boxes, mut texts) = (Vec::new(), Vec::new());
    for line in svg.lines() {
        if line.starts_with("<rect ") {
            let area = Area {
                x: number(line, "x"),
                y: number(line, "y"),
                width: number(line, "width"),
                height: number(line, "height"),
            };
            boxes.push(Box { class: attribute(line, "class").expect("a class").to_owned(), area });
        } else if line.starts_with("<text ") {
            texts.push(text(line));
        }
    }
    (boxes, texts)
}

/// The width of a letter of size 1, by its kind.
fn width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | '/' | '(' | ')' | '-' | '\'' | 'f' | 't' | 'r' | 'I' => {
            0.36
        }
        'm' | 'w' | 'M' | 'W' | 'O' | 'Q' | 'D' | 'N' | 'H' | 'G' | '>' | '=' => 0.85,
        _ => 0.6,
    }
}

fn text(line: &str) -> Text {
    let (head, rest) = line.split_once('>').expect("an element");
    let body = rest.strip_suffix("</text>").expect("an end");
    let pieces: Vec<(String, String)> = match attribute(head, "class") {
        Some(class) => vec![(class.to_owned(), unescaped(body))],
        None => body
            .split("<tspan class=\"")
            .skip(1)
            .map(|piece| {
                let (class, words) = piece.split_once("\">").expect("a class");
                (class.to_owned(), unescaped(words.trim_end_matches("</tspan>")))
            })
            .collect(),
    };
    let size = number(head, "font-size");
    let bold = pieces.iter().any(|(class, _)| class.contains("t-bold"));
    let width = pieces.iter().flat_map(|(_, words)| words.chars()).map(width).sum::<f64>();
    let width = width * size * if bold { 1.13 } else { 1.0 };
    let x = number(head, "x") - if attribute(head, "text-anchor").is_some() { width / 2.0 } else { 0.0 };
    Text { area: Area { x, y: number(head, "y") - size * 0.8, width, height: size }, pieces }
}

fn check(name: &str, svg: &str) {
    assert!(svg.len() < 40_000, "{name}: {} bytes", svg.len());
    for part in ["role=\"img\"", "<title>", "<desc>", "prefers-color-scheme:dark"] {
        assert!(svg.contains(part), "{name}: no {part}");
    }
    let links = svg.replacen("http://www.w3.org/2000/svg", "", 1);
    for word in ["href", "http", "url(", "@import", "<script", "<image", "<foreignObject", " id="] {
        assert!(!links.contains(word), "{name} speaks of {word}");
    }
    let (boxes, texts) = parts(svg);
    let page = Area { x: 0.0, y: 0.0, width: number(svg, "width"), height: number(svg, "height") };
    assert_eq!(attribute(svg, "viewBox"), Some(format!("0 0 {} {}", page.width, page.height).as_str()));
    // Narrow enough for a laptop's screen.
    assert!(page.width <= 1280.0, "{name} is {} wide", page.width);
    assert!(boxes.len() >= 5 && texts.len() >= 7 && svg.matches("<path ").count() >= 2, "{name} is empty");
    // Some renderers drop a space there.
    assert!(
        !svg.contains("\"> ") && !svg.contains(" </tspan>"),
        "{name}: a piece of text begins or ends with a space"
    );
    for (at, text) in texts.iter().enumerate() {
        let words = &text.pieces;
        assert!(page.holds(&text.area), "{name}: {words:?} leaves the page");
        for other in &texts[at + 1..] {
            assert!(!text.area.meets(&other.area), "{name}: {words:?} lies on {:?}", other.pieces);
        }
        for edge in boxes.iter().filter(|edge| edge.area.meets(&text.area)) {
            assert!(edge.area.holds(&text.area), "{name}: {words:?} crosses the border of {}", edge.class);
        }
        let behind = boxes.iter().rfind(|behind| behind.area.holds(&text.area)).expect("the page");
        for theme in [Theme::Light, Theme::Dark] {
            for (class, words) in words {
                let (ink, ground) =
                    (style(svg, class, "fill", theme), style(svg, &behind.class, "fill", theme));
                let contrast = contrast(&ink, &ground);
                assert!(contrast >= READABLE, "{name}: {words:?} on {} has {contrast:.2}", behind.class);
            }
        }
    }
}

fn svg(case: &Case, command: &[&str], packet: Option<&str>) -> String {
    bare(command)
        .envs(case.variables())
        .args(["--format", "svg"])
        // Variables alone describe no rules; a default does, where the case has no flag of its own.
        .arg("--istio-inbound-tproxy-route-table=133")
        .args(case.flags())
        .args(packet)
        .outcome()
        .success()
        .stdout
}

#[test]
fn pictures_of_all_scenarios_can_be_read() {
    for case in scenarios(|mesh| mesh.is_none()) {
        let name = case.name();
        check(name, &svg(&case, &["render"], None));
        let lit = svg(&case, &["explain", "--source", "10.0.0.1"], Some("10.96.0.10:443"));
        check(name, &lit);
        assert_eq!(lit.matches("class=\"t-lit\"").count(), 1, "{name} shows one way");
        assert!(number(&lit, "height") <= 300.0, "{name} shows more than the packet's part");
    }
}

#[test]
fn faults_are_found() {
    let svg = svg(&scenarios(|mesh| mesh.is_none())[0], &["render"], None);
    for (from, to) in [
        ("Where the pod", "Where the pod ".repeat(9)),
        ("<text x=\"166\"", "<text x=\"400\"".to_owned()),
        (".t-plain{fill:#1b2530}", ".t-plain{fill:#a0a0a0}".to_owned()),
    ] {
        let spoilt = svg.replace(from, &to);
        assert_ne!(spoilt, svg);
        let found = std::panic::catch_unwind(|| check("spoilt", &spoilt));
        assert!(found.is_err(), "{from} as {to}");
    }
}
