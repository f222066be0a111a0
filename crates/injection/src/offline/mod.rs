//! Manifests whose pods are injected in place.
//!
//! A manifest is parsed as data, which is injected. Then the content of each changed document is edited until it parses as the
//! new data; other documents keep their bytes.
//!
//! ```text
//! text ── mesh::pod::KubernetesObject ── its pods ── pipeline::inject ── new data
//!   └──── edit::split ─────────── text of one document ────────── edit ────────────── new text
//! ```

mod edit;
mod manifest;

pub use edit::{Edited, edit};
pub(crate) use manifest::AdmissionSubject;
pub use manifest::{Manifest, Note, RefusedManifest, Surroundings, manifest};

use diagnose::Style;
use similar::{ChangeTag, TextDiff};
use std::fmt::Write;

/// An injection's changes as a coloured unified diff for people and `patch`, with three context lines; empty without changes.
pub fn diff(name: &str, old: &str, new: &str) -> String {
    let mut out = String::new();
    if old == new {
        return out;
    }
    let mut line = |style: Option<Style>, text: &str| {
        let (text, end) = match text.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (text, "\n\\ No newline at end of file\n"),
        };
        let written = match style {
            Some(style) => write!(out, "{}{end}", style.paint(text)),
            None => write!(out, "{text}{end}"),
        };
        written.expect("text takes all");
    };
    line(Some(Style::Strong), &format!("--- {name}\n"));
    line(Some(Style::Strong), &format!("+++ {name}\n"));
    // `TextDiff::from_lines` would also break lines at a lone carriage return, unlike `patch`.
    let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<&str>>());
    let difference = TextDiff::from_slices(&old, &new);
    for hunk in difference.unified_diff().iter_hunks() {
        line(Some(Style::Quiet), &format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            let (style, sign) = match change.tag() {
                ChangeTag::Insert => (Some(Style::Captured), '+'),
                ChangeTag::Delete => (Some(Style::Passing), '-'),
                ChangeTag::Equal => (None, ' '),
            };
            line(style, &format!("{sign}{}", change.value()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_have_the_format_of_patch() {
        let check = |old: &str, new: &str, expected: &str| {
            assert_eq!(diagnose::plain(&diff("a.yaml", old, new)), expected);
        };
        check("a\n", "a\n", "");
        check("a\nb\n", "a\nc\n", "--- a.yaml\n+++ a.yaml\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        check("a\rb\r\n", "a\rc\r\n", "--- a.yaml\n+++ a.yaml\n@@ -1 +1 @@\n-a\rb\r\n+a\rc\r\n");
        check(
            "a",
            "a\nb",
            "--- a.yaml\n+++ a.yaml\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n",
        );
    }
}
