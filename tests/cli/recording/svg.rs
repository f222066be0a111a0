//! A terminal as SVG, in the reader's theme. Every run of text has its place and its width on the grid, so that columns
//! align in any font.

use std::fmt::Write;

/// Pixels.
const SIZE: usize = 14;
const LINE: usize = 19;
const MARGIN: usize = 16;

/// The width of a column, in tenths of a pixel.
const COLUMN: usize = 84;

/// The colours of text and page: light, then dark. Text has a contrast of at least 4.5 to the page.
const COLOURS: [(&str, &str, &str); 6] = [
    ("text", "#1b2530", "#e8edf3"),
    ("blue", "#0a58b8", "#74b3ff"),
    ("yellow", "#8a4f00", "#f0b13c"),
    ("red", "#a3103f", "#ff9db3"),
    ("dim", "#515c68", "#aab6c2"),
    ("page", "#f6f8fa", "#10151b"),
];

/// Text of one style.
struct Run {
    text: String,
    classes: Vec<&'static str>,
}

/// A line of the terminal.
pub(super) struct Line(Vec<Run>);

impl Line {
    pub(super) fn command(prompt: &str, command: &str) -> Line {
        let prompt = Run { text: format!("{prompt} "), classes: vec!["dim"] };
        Line(vec![prompt, Run { text: command.to_owned(), classes: vec!["text", "bold"] }])
    }

    pub(super) fn remark(text: &str) -> Line {
        Line(vec![Run { text: text.to_owned(), classes: vec!["dim"] }])
    }

    /// Reads the styles of a line that a program has printed. Styles end with their line.
    pub(super) fn read(line: &str) -> Line {
        let mut runs = Vec::new();
        let (mut colour, mut bold) = ("text", false);
        for (number, piece) in line.split("\u{1b}[").enumerate() {
            let text = match piece.split_once('m') {
                Some((codes, text)) if number > 0 => {
                    for code in codes.split(';') {
                        match code {
                            "0" | "" => (colour, bold) = ("text", false),
                            "1" => bold = true,
                            "2" => colour = "dim",
                            "31" => colour = "red",
                            "33" => colour = "yellow",
                            "34" => colour = "blue",
                            _ => panic!("a style without a colour here: {code} in {line:?}"),
                        }
                    }
                    text
                }
                _ => {
                    assert_eq!(number, 0, "not a style: {piece:?}");
                    piece
                }
            };
            let classes = if bold { vec![colour, "bold"] } else { vec![colour] };
            runs.push(Run { text: text.to_owned(), classes });
        }
        runs.retain(|run| !run.text.is_empty());
        Line(runs)
    }

    fn text(&self) -> String {
        self.0.iter().map(|run| run.text.as_str()).collect()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Tenths of a pixel as pixels.
fn pixels(tenths: usize) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

pub(super) fn draw(columns: u16, lines: &[Line]) -> String {
    let width = (usize::from(columns) * COLUMN).div_ceil(10) + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let sheet = |theme: fn(&(&str, &'static str, &'static str)) -> &'static str| -> String {
        COLOURS.iter().map(|row| format!(".{}{{fill:{}}}", row.0, theme(row))).collect()
    };
    let description: Vec<String> = lines.iter().map(Line::text).collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\">\n\
         <title>A session in the sandbox of sidecar-init</title>\n\
         <desc>{}</desc>\n\
         <style>\n\
         text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}\n\
         .bold{{font-weight:bold}}\n{}\n@media(prefers-color-scheme:dark){{\n{}\n}}\n</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n",
        escaped(&description.join("\n")),
        sheet(|row| row.1),
        sheet(|row| row.2),
    );
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + number * LINE + SIZE;
        let mut column = 0;
        for run in &line.0 {
            let start = column + run.text.chars().take_while(|c| *c == ' ').count();
            column += run.text.chars().count();
            assert!(column <= usize::from(columns), "{:?} is wider than the terminal", line.text());
            let text = run.text.trim();
            let length = text.chars().count();
            if length > 0 {
                let _ = writeln!(
                    out,
                    "<text x=\"{}\" y=\"{y}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\" class=\"{}\">{}</text>",
                    pixels(MARGIN * 10 + start * COLUMN),
                    pixels(length * COLUMN),
                    run.classes.join(" "),
                    escaped(text).replace(' ', "\u{a0}")
                );
            }
        }
    }
    out + "</svg>\n"
}
