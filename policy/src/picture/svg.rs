//! A picture as SVG: its text, line by line.

use super::Picture;

impl Picture {
    /// The picture as SVG, light and dark, without anything from elsewhere.
    pub fn svg(&self) -> String {
        let text = anstyle_free(&self.text(110));
        let lines = text.lines().enumerate().map(|(number, line)| {
            let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            format!("<text x=\"20\" y=\"{}\" xml:space=\"preserve\">{line}</text>\n", 30 + 18 * number)
        });
        let lines: String = lines.collect();
        let height = 40 + 18 * text.lines().count();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 960 {height}\" font-family=\"monospace\" \
             font-size=\"13\">\n<title>{}</title>\n{lines}</svg>\n",
            self.title.replace('&', "&amp;").replace('<', "&lt;")
        )
    }
}

fn anstyle_free(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    out + rest
}
