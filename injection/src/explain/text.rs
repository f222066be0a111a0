//! The explanation as text.

use super::{Explained, InjectionVerdict};
use diagnose::Style;
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
    writeln!(out, "{}: {verdict}, because {}", Style::Strong.paint(&one.title), one.because)?;
    for problem in &one.problems {
        writeln!(out, "  problem     {problem}")?;
    }
    for webhook in &one.webhooks {
        if webhook.called {
            writeln!(out, "  webhook     {} is called", webhook.name)?;
        } else {
            let misses = webhook.misses.join(", and ");
            writeln!(
                out,
                "{}",
                Style::Quiet.paint(format!("  webhook     {} is not: {misses}", webhook.name))
            )?;
        }
    }
    if one.verdict == InjectionVerdict::NotCalled {
        let because = &*one.decision.because;
        let (would, because) = match (one.problems.is_empty(), one.decision.inject) {
            (false, _) => ("would be refused", "it has the problems above"),
            (true, true) => ("would be injected", because),
            (true, false) => ("would not be injected", because),
        };
        writeln!(out, "  decision    if one were called, it {would}: {because}")?;
    } else {
        let answer = if one.decision.inject { "yes" } else { "no" };
        writeln!(out, "  decision    {answer}: {}", one.decision.because)?;
    }
    match &one.init {
        Some(init) => writeln!(out, "  init        {}: {}", init.name, command(&init.arguments))?,
        None if one.verdict == InjectionVerdict::Injected => {
            writeln!(out, "  init        none: nothing is captured")?;
        }
        None => {}
    }
    for added in &one.added {
        writeln!(out, "  container   {} in {}, from {}", added.name, added.place, added.image)?;
    }
    for warning in &one.warnings {
        writeln!(out, "  warning     {warning}")?;
    }
    for assumption in &one.assumptions {
        writeln!(out, "{}", Style::Quiet.paint(format!("  note        {assumption}")))?;
    }
    // Each does it alone.
    for (index, remedy) in one.remedies.iter().enumerate() {
        writeln!(out, "{}{remedy}", if index == 0 { "  to change   " } else { "  or          " })?;
    }
    Ok(())
}

/// Words as a shell takes them.
pub fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    let quoted = |word: &String| match word.is_empty() || !word.chars().all(plain) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
