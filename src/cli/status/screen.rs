//! The output of `status --watch`: redrawn in place on a terminal, block after block elsewhere.

use super::super::{data, report, run::Format};
use command_line::columns;
use diagnose::Style;
use diagnose::trace::utc;
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write},
    panic,
    time::{Duration, SystemTime},
};

/// The terminal's other screen, and no cursor in it: what was on the first one is there again afterwards.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
const REDRAW: &[u8] = b"\x1b[H\x1b[J";

/// The output. On drop, the last status remains on the terminal.
pub(super) struct Screen {
    format: Format,
    interval: Duration,
    is_terminal: bool,
    last: String,
}

impl Screen {
    /// Takes the terminal, if there is one and the text is for people.
    pub(super) fn open(format: Format, interval: Duration) -> io::Result<Self> {
        let is_terminal = io::stdout().is_terminal() && format == Format::Text;
        if is_terminal {
            control(ENTER)?;
            // A panic may end the process without dropping anything.
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                let _ = control(LEAVE);
                report(panic);
            }));
        }
        Ok(Self { format, interval, is_terminal, last: String::new() })
    }

    /// Shows an answer: the text of it for so many columns, or its data.
    pub(super) fn show<T: Serialize>(
        &mut self,
        answer: &T,
        text: impl FnOnce(&T, usize) -> String,
    ) -> io::Result<()> {
        if let Format::Data(encoding) = self.format {
            return report::at_once(&data::one_of_many(encoding, answer));
        }
        let at = utc(SystemTime::now());
        let at = at.split('.').next().unwrap_or_default();
        let head = format!("{at}Z, every {:?}", self.interval);
        self.last = format!("{}\n{}", Style::Quiet.paint(head), text(answer, columns::of_terminal()));
        if self.is_terminal {
            control(REDRAW)?;
            return report::at_once(&within(&self.last, height()));
        }
        report::at_once(&format!("{}\n", self.last))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_terminal {
            // A terminal that can't be restored is gone.
            let _ = control(LEAVE).and_then(|()| report::at_once(&self.last));
        }
    }
}

/// The lines that there are.
fn height() -> usize {
    terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| usize::from(height.0))
}

/// The first lines, as many as there is room for.
fn within(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= height {
        return lines.join("\n");
    }
    let shown = height.saturating_sub(1);
    let more = format!(".. {} more lines, in a higher terminal", lines.len() - shown);
    format!("{}\n{}", lines[..shown].join("\n"), Style::Quiet.paint(more))
}

/// Writes control sequences, which are needed with and without colours.
fn control(sequence: &[u8]) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(sequence)?;
    out.flush()
}
