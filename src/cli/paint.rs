//! Colours for texts of the engine and the policy: differences, findings, log lines.
//!
//! The printing functions remove them where no terminal shows them. JSON, rules and log files have none.

use diagnose::{Style, fold};

/// A unified diff of rules: what is there too much in one colour, what is missing in another. Reasons are dim. Lines
/// have so many columns, where their words allow it.
pub(super) fn diff(text: &str, width: usize) -> String {
    text.split_inclusive('\n').map(|line| fold(&diff_line(line), 4, width)).collect()
}

fn diff_line(line: &str) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let style = match text.as_bytes() {
        [b'@', b'@', ..] => Style::Strong,
        [b'-', ..] => Style::Passing,
        [b'+', ..] => Style::Captured,
        _ => return line.to_owned(),
    };
    match text.split_once("  # ") {
        Some((text, reason)) => {
            format!("{}  {}{end}", style.paint(text), Style::Quiet.paint(format!("# {reason}")))
        }
        None => format!("{}{end}", style.paint(text)),
    }
}

pub(super) fn log_line(line: &str) -> String {
    // The level follows the time.
    let levels = [
        (" WARN ", Style::Passing),
        ("ERROR ", Style::Dropped),
        ("DEBUG ", Style::Quiet),
        ("TRACE ", Style::Quiet),
    ];
    let found = levels.iter().find_map(|(word, style)| {
        let at = line.find(word).filter(|at| !line[..*at].trim_end().contains(' '))?;
        Some((at, word, style))
    });
    match found {
        Some((at, word, style)) => {
            let rest = &line[at + word.len()..];
            format!("{}{}{rest}", &line[..at], style.paint(word))
        }
        None => line.to_owned(),
    }
}

pub(super) fn error(text: &str, width: usize) -> String {
    let head = "error: ";
    let folded = diff(text, width);
    match folded.strip_prefix(head) {
        Some(rest) => format!("{}{rest}", Style::Dropped.paint(head)),
        None => folded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::plain;

    #[test]
    fn the_first_line_of_an_error_is_no_longer_than_the_others() {
        let shown = error("error: one two three four\n", 12);
        assert_ne!(plain(&shown), shown);
        assert!(plain(&shown).lines().all(|line| line.len() <= 12), "{shown}");
    }

    #[test]
    fn nothing_but_colours_is_added() {
        for text in [
            "@@ IPv4 nat OUTPUT (iptables-nft)\n -A OUTPUT -j X\n-A  # extra\n+A  # missing\n",
            "error: the rules differ\n-A OUTPUT\n+A OUTPUT",
        ] {
            assert_eq!(plain(&error(text, usize::MAX)), text);
            assert_ne!(error(text, usize::MAX), text);
        }
        let line = "2026-11-22T05:35:17.9Z  WARN lint: an ERROR in words\n";
        assert_eq!(plain(&log_line(line)), line);
        assert!(log_line(line).contains("WARN") && log_line(line) != line);
        let info = "2026-11-22T05:35:17.9Z  INFO lint: a WARN in words\n";
        assert_eq!(log_line(info), info);
    }
}
