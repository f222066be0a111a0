//! Changes of lists and mappings in lines of their own, and in brackets: what goes, what is put in, and where.

use super::edit::{Editor, Fate, Part};
use super::place::{Edit, above, behind, column, indent, is_first, line_end, line_start, next_line};
use std::ops::Range;

/// What is put in, by the number of the part behind which it is; by none, before the first.
pub(super) type Added = (Option<usize>, Vec<String>);

impl Editor<'_> {
    pub(super) fn push(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.edits.push(Edit { range, text: text.into() });
    }

    /// The column of entries or items, by those that stand first in their lines.
    pub(super) fn column_of(&self, mut marks: impl Iterator<Item = usize>) -> usize {
        let first = marks.next().unwrap_or_default();
        let at = if is_first(self.text, first) { first } else { marks.next().unwrap_or(first) };
        column(self.text, at)
    }

    /// Puts lines in at the start of a line, or at the end of the text.
    pub(super) fn put_lines(&mut self, at: usize, column: usize, text: &str) {
        let has_end = self.text[..at].ends_with('\n') || at == line_start(self.text, at);
        let (space, newline) = (" ".repeat(column), self.look.newline);
        let lines =
            if has_end { format!("{space}{text}{newline}") } else { format!("{newline}{space}{text}") };
        self.push(at..at, lines);
    }

    /// Puts lines in behind a value and behind the comments below it that are moved in at least so far.
    pub(super) fn put_behind(&mut self, end: usize, least: usize, column: usize, text: &str) {
        self.put_lines(behind(self.text, end, least), column, text);
    }

    /// The lines of an entry or an item: with the comments right above, and those below that are moved in further. `None`
    /// where it begins within a line.
    pub(super) fn lines_of(&self, mark: usize, end: usize) -> Option<Range<usize>> {
        let own = column(self.text, mark);
        is_first(self.text, mark).then(|| above(self.text, mark)..behind(self.text, end, own + 1))
    }

    /// Takes the lines out of what goes. Comments above it stay; nobody knows what else they are about.
    pub(super) fn remove_lines(&mut self, parts: &[Part]) -> Option<()> {
        let text = self.text;
        let first_kept = parts.iter().position(|part| part.fate == Fate::Stays)?;
        let mut parts = parts;
        if first_kept > 0 && !is_first(text, parts[0].mark) {
            // What follows takes the place of the first one, behind a dash.
            let next = self.line_behind(parts[first_kept - 1].end);
            let space = text[next..].len() - text[next..].trim_start_matches(' ').len();
            self.push(parts[0].mark..next + space, "");
            parts = &parts[first_kept..];
        }
        for part in parts {
            match part.fate {
                Fate::Stays => {}
                Fate::Goes => self.push(line_start(text, part.mark)..self.line_behind(part.end), ""),
                Fate::Moves => {
                    let lines = self.lines_of(part.mark, part.end)?;
                    self.push(lines, "");
                }
            }
        }
        Some(())
    }

    /// Where the line behind a value begins.
    pub(super) fn line_behind(&self, end: usize) -> usize {
        if self.text[..end].ends_with('\n') { end } else { next_line(self.text, end) }
    }

    /// Changes a list in lines. `least` is how far comments below its last item are moved in at least.
    pub(super) fn change_lines(
        &mut self,
        parts: &[Part],
        column: usize,
        least: usize,
        added: &[Added],
    ) -> Option<()> {
        self.remove_lines(parts)?;
        for (after, texts) in added {
            for text in texts {
                match after {
                    Some(at) => {
                        let least = if at + 1 == parts.len() { least } else { column + 1 };
                        self.put_behind(parts[*at].end, least, column, text);
                    }
                    None => {
                        let first = parts.first()?.mark;
                        if is_first(self.text, first) {
                            self.put_lines(above(self.text, first), column, text);
                        } else {
                            let line = self.look.line(column);
                            self.push(first..first, format!("{text}{line}"));
                        }
                    }
                }
            }
        }
        Some(())
    }

    /// How far the lines are moved in, where each part in brackets has one of its own.
    pub(super) fn in_flow(&self, parts: &[Part]) -> Option<String> {
        let mark = parts.first()?.mark;
        is_first(self.text, mark).then(|| indent(self.text, mark).to_owned())
    }

    /// Changes a list or a mapping in brackets, of which something stays.
    pub(super) fn change_flow(&mut self, parts: &[Part], close: usize, added: &[Added]) {
        let lines = self.in_flow(parts).map(|indent| format!("{}{indent}", self.look.newline));
        let between = lines.as_ref().map_or_else(|| ", ".to_owned(), |line| format!(",{line}"));
        let stays = |at: &usize| parts[*at].fate == Fate::Stays;
        for at in (0..parts.len()).filter(|at| !stays(at)) {
            match (at + 1..parts.len()).find(stays) {
                Some(_) => self.push(parts[at].mark..parts[at + 1].mark, ""),
                None => self.push(parts[at - 1].end..parts[at].end, ""),
            }
        }
        for (after, texts) in added.iter().filter(|(_, texts)| !texts.is_empty()) {
            let text = texts.join(&between);
            let from = after.map_or(0, |at| at + 1);
            if let Some(next) = (from..parts.len()).find(stays) {
                self.push(parts[next].mark..parts[next].mark, format!("{text}{between}"));
            } else if let Some(last) = (0..parts.len()).rfind(stays) {
                self.append(parts, last, close, &text, lines.as_deref());
            }
        }
    }

    /// Puts a text in behind the last part that stays. A comma may stand there already, and comments.
    fn append(&mut self, parts: &[Part], last: usize, close: usize, text: &str, lines: Option<&str>) {
        let end = parts[last].end;
        let comma = (last + 1 == parts.len()).then(|| self.comma(end, close)).flatten();
        let line_end = line_end(self.text, comma.unwrap_or(end)).min(close);
        let (separator, tail) = (lines.unwrap_or(" "), if comma.is_some() { "," } else { "" });
        let rest = self.text[comma.unwrap_or(end)..line_end].trim();
        let has_comment = rest.starts_with('#') && lines.is_some() && last + 1 == parts.len();
        match (comma, has_comment) {
            (Some(_), true) => self.push(line_end..line_end, format!("{separator}{text}{tail}")),
            (Some(comma), false) => self.push(comma..comma, format!("{separator}{text}{tail}")),
            (None, true) => {
                self.push(end..end, ",");
                self.push(line_end..line_end, format!("{separator}{text}"));
            }
            (None, false) => self.push(end..end, format!(",{separator}{text}")),
        }
    }

    /// Where the comma ends that stands behind the last part.
    fn comma(&self, end: usize, close: usize) -> Option<usize> {
        let mut at = end;
        loop {
            let rest = &self.text[at..close];
            let bare = rest.trim_start();
            at = close - bare.len();
            if bare.starts_with(',') {
                return Some(at + 1);
            }
            if !bare.starts_with('#') {
                return None;
            }
            at += bare.find('\n')?;
        }
    }
}
