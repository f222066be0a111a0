//! The explanation as text.

use super::{Explained, InjectionVerdict};
use diagnose::Style;
use mesh::visible;
use std::fmt::Write;

/// A paragraph for each object, with its colours as escape sequences.
pub fn text(explained: &[Explained]) -> String {
    let mut out = String::new();
    for (index, one) in explained.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        // Writing to a text can't fail.
        paragraph(&mut out, one).unwrap_or_default();
    }
    out
}

impl InjectionVerdict {
    pub fn words(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::NotCalled | Self::Skipped => "not injected",
            Self::Refused => "refused",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Injected => Style::Captured,
            Self::NotCalled | Self::Skipped => Style::Passing,
            Self::Refused => Style::Dropped,
        }
    }
}

fn paragraph(out: &mut String, one: &Explained) -> std::fmt::Result {
    let verdict = one.verdict.style().paint(one.verdict.words());
    let title = Style::Strong.paint(visible(&one.title));
    writeln!(out, "{title}: {verdict}, because {}", visible(&one.because))?;
    for problem in &one.problems {
        writeln!(out, "{}", line("problem", problem))?;
    }
    for webhook in &one.webhooks {
        let name = &webhook.name;
        match (webhook.called, &webhook.misses[..]) {
            (true, _) => writeln!(out, "{}", line("webhook", &format!("{name} is called")))?,
            (false, []) => writeln!(out, "{}", line("webhook", &format!("{name} would be called")))?,
            (false, misses) => {
                let is_not = line("webhook", &format!("{name} is not: {}", misses.join(", and ")));
                writeln!(out, "{}", Style::Quiet.paint(is_not))?;
            }
        }
    }
    let because = &*one.decision.because;
    let decision = if one.webhooks.iter().any(|webhook| webhook.called) {
        format!("{}: {because}", if one.decision.inject { "yes" } else { "no" })
    } else {
        let (would, because) = match (one.problems.is_empty(), one.decision.inject) {
            (false, _) => ("would be refused", "it has the problems above"),
            (true, true) => ("would be injected", because),
            (true, false) => ("would not be injected", because),
        };
        format!("if one were called, it {would}: {because}")
    };
    writeln!(out, "{}", line("decision", &decision))?;
    match &one.init {
        Some(init) => {
            writeln!(out, "{}", line("init", &format!("{}: {}", init.name, command(&init.arguments))))?;
        }
        None if one.verdict == InjectionVerdict::Injected => {
            writeln!(out, "{}", line("init", "none: nothing is captured"))?;
        }
        None => {}
    }
    for added in &one.added {
        let text = format!("{} in {}, from {}", added.name, added.place, added.image);
        writeln!(out, "{}", line("container", &text))?;
    }
    for warning in &one.warnings {
        writeln!(out, "{}", line("warning", warning))?;
    }
    for assumption in &one.assumptions {
        writeln!(out, "{}", Style::Quiet.paint(line("note", assumption)))?;
    }
    // Each does it alone.
    for (index, remedy) in one.remedies.iter().enumerate() {
        writeln!(out, "{}", line(if index == 0 { "to change" } else { "or" }, remedy))?;
    }
    Ok(())
}

/// A line under a title. Its text may quote names of the manifest.
fn line(label: &str, text: &str) -> String {
    format!("  {label:<11} {}", visible(text))
}

/// Words as a shell takes them.
pub fn command(words: &[String]) -> String {
    words.iter().map(|word| mesh::quoted(word)).collect::<Vec<_>>().join(" ")
}
