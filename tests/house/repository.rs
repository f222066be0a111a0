//! The repository's files for this folder's checks.

use std::{fs, path::Path, process::Command, sync::LazyLock};

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

static FILES: LazyLock<Vec<File>> = LazyLock::new(list);

/// A repository file, by its path from the root. The content is empty if not UTF-8.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Lines of code with their numbers, without trailing comments and without test code.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = (1..).zip(self.text.lines()).zip(tests(&self.text));
        let kept = lines.filter(|(_, is_of_tests)| !is_of_tests).map(|(line, _)| line);
        kept.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
    }

    pub(crate) fn is_test(&self) -> bool {
        let (folders, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let is_of_tests = |folder: &str| {
            matches!(folder, "tests" | "benches" | "fuzz" | "testkit") || folder.ends_with("_tests")
        };
        folders.split('/').any(is_of_tests)
            || matches!(name, "tests.rs" | "test.rs")
            || name.ends_with("_tests.rs")
    }
}

/// Files that git tracks or would add, in path order.
fn list() -> Vec<File> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git is installed");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("paths in UTF-8");
    let mut paths: Vec<&str> = listed.split_terminator('\0').collect();
    paths.sort_unstable();
    paths.dedup();
    // A file may be deleted and not yet removed from git.
    let file = |path: &str| {
        let text = String::from_utf8(fs::read(Path::new(ROOT).join(path)).ok()?).unwrap_or_default();
        Some(File { path: path.to_owned(), text })
    };
    paths.into_iter().filter_map(file).collect()
}

/// Files that match a pattern: a path, in which `*` is any string. A pattern without a match fails, so that no check is lost when
/// a folder is moved.
pub(crate) fn files(pattern: &str) -> Vec<&'static File> {
    let found: Vec<_> = FILES.iter().filter(|file| matches(pattern, &file.path)).collect();
    assert!(!found.is_empty(), "{pattern:?} describes no file: correct the pattern in tests/house");
    found
}

pub(crate) fn read(path: &str) -> &'static str {
    &files(path)[0].text
}

/// Patterns are separated by `|`.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    pattern.split('|').any(|pattern| match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|path| {
            (0..=path.len()).any(|at| path.get(at..).is_some_and(|path| matches(rest, path)))
        }),
    })
}

#[track_caller]
pub(crate) fn none(found: impl IntoIterator<Item = String>, remedy: &str) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "{remedy}:\n{}", found.join("\n"));
}

/// Lines of a document's blocks with this mark; a line that ends with a backslash is joined with the next.
pub(crate) fn block_lines(document: &File, mark: &str) -> Vec<String> {
    let text = document.text.replace("\\\n", "");
    let mark = format!("```{mark}\n");
    let blocks = text.split(&mark).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

pub(crate) fn guides() -> impl Iterator<Item = &'static File> {
    files("README.md|docs/*.md").into_iter().filter(|file| file.path.matches('/').count() < 2)
}

pub(crate) fn is_of_the_program(line: &str) -> bool {
    line.starts_with("sidecar-init ") || line.contains("| sidecar-init ")
}

pub(crate) fn tests(text: &str) -> Vec<bool> {
    let (mut depth, mut is_pending, mut is_inside) = (0, false, false);
    let mut is_of_tests = |line: &str| {
        let start = line.trim_start().strip_prefix("#[cfg(");
        let start = start.map(|condition| condition.strip_prefix("all(").unwrap_or(condition));
        let names_tests = start
            .and_then(|condition| condition.strip_prefix("test"))
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        is_pending |= !is_inside && names_tests;
        if !is_pending && !is_inside {
            return false;
        }
        let opened = line.matches('{').count().cast_signed() - line.matches('}').count().cast_signed();
        if is_pending && line.contains('{') {
            (is_inside, is_pending, depth) = (true, false, opened);
        } else if is_pending {
            is_pending = !line.trim_end().ends_with(';');
        } else {
            depth += opened;
        }
        is_inside &= depth > 0;
        true
    };
    text.split('\n').map(|line| !line.trim().is_empty() && is_of_tests(line)).collect()
}

/// True if the word occurs, and not only as part of another.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let is_longer = word.starts_with(is_part) && line[..at].ends_with(is_part)
            || word.ends_with(is_part) && line[at + word.len()..].starts_with(is_part);
        !is_longer
    })
}
