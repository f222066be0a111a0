//! A place in a text of YAML that moves on over marks, space, comments and quotes.

use std::ops::Range;

/// The place.
pub(super) struct Cursor<'a> {
    text: &'a str,
    end: usize,
    /// In bytes.
    pub(super) at: usize,
    /// In how many brackets it is.
    pub(super) in_flow: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a part of the text.
    pub(super) fn new(text: &'a str, part: Range<usize>) -> Self {
        Self { text, end: part.end, at: part.start, in_flow: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..self.end]
    }

    /// Over space, ends of lines and comments.
    pub(super) fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += space;
            let is_comment = self.rest().starts_with('#')
                && self.text[..self.at]
                    .chars()
                    .next_back()
                    .is_none_or(|before| before.is_whitespace() || before == '\u{feff}');
            if is_comment {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if space == 0 {
                return;
            }
        }
    }

    /// Over a mark, if it is the next.
    pub(super) fn take(&mut self, mark: &str) -> bool {
        let is = self.rest().starts_with(mark);
        if is {
            self.at += mark.len();
        }
        is
    }

    /// The same for a mark that only counts before a space.
    pub(super) fn take_before_space(&mut self, mark: &str) -> bool {
        let is = self.rest().strip_prefix(mark).is_some_and(|rest| rest.starts_with(char::is_whitespace));
        if is {
            self.at += mark.len();
        }
        is
    }

    /// Over anchor and tag; where the anchor is.
    pub(super) fn properties(&mut self, in_flow: bool) -> Option<Range<usize>> {
        let mut anchor = None;
        loop {
            let before = self.at;
            self.skip();
            let sign = self.rest().chars().next();
            if !matches!(sign, Some('&' | '!')) {
                self.at = before;
                return anchor;
            }
            let is_end = |c: char| c.is_whitespace() || (in_flow && ",[]{}".contains(c));
            let start = self.at;
            self.at += self.rest().find(is_end).unwrap_or(self.rest().len());
            if sign == Some('&') {
                anchor = Some(start..self.at);
            }
        }
    }

    /// Over a text in quotes.
    pub(super) fn quoted(&mut self) -> Option<()> {
        let rest = self.rest();
        let quote = rest.chars().next()?;
        let mut inner = rest[1..].char_indices().peekable();
        while let Some((at, c)) = inner.next() {
            match c {
                '\\' if quote == '"' => {
                    inner.next();
                }
                c if c == quote && quote == '\'' && inner.peek().is_some_and(|(_, next)| *next == '\'') => {
                    inner.next();
                }
                c if c == quote => {
                    self.at += 1 + at + 1;
                    return Some(());
                }
                _ => {}
            }
        }
        None
    }

    /// Over a text in lines of its own, from `|` or `>` on: it ends with a line.
    pub(super) fn lines(&mut self, place: Range<usize>) -> Option<()> {
        if !self.rest().starts_with(['|', '>']) {
            return None;
        }
        let Range { start, end } = place;
        let trimmed = self.text[..end].trim_end_matches([' ', '\t']).len();
        let header = self.at + self.rest().find('\n').map_or(self.rest().len(), |at| at + 1);
        // What is trimmed is the next line's indentation, unless the text ends without a line's end.
        let end = if self.text[..trimmed].ends_with('\n') { trimmed } else { end };
        self.at = end.max(start.min(end)).max(header.min(self.end));
        Some(())
    }

    /// To the first value of a document.
    pub(super) fn open_document(&mut self, explicit: bool) -> Option<()> {
        loop {
            self.skip();
            if self.at_line_start() && self.take("...") {
                continue;
            }
            // A directive, such as %YAML.
            if explicit && self.at_line_start() && self.rest().starts_with('%') {
                self.at += self.rest().find('\n')?;
                continue;
            }
            break;
        }
        (!explicit || self.take("---")).then_some(())
    }

    fn at_line_start(&self) -> bool {
        self.at == 0 || self.text[..self.at].ends_with(['\n', '\u{feff}'])
    }
}
