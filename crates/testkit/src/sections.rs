//! Files with a section for each case: the lines after `-- NAME --` are the section NAME.

use std::{fs, path::Path};

pub fn read(file: impl AsRef<Path>) -> Vec<(String, String)> {
    let file = file.as_ref();
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (name(line), found.last_mut()) {
            (Some(name), _) => found.push((name.to_owned(), String::new())),
            (None, Some((_, text))) => text.push_str(line),
            (None, None) => panic!("{}: {line:?} is in no section", file.display()),
        }
    }
    found
}

/// Compares sections with a file's sections; `UPDATE_GOLDENS=1` writes the file first.
#[track_caller]
pub fn golden(file: impl AsRef<Path>, sections: impl IntoIterator<Item = (String, String)>) {
    let text = sections.into_iter().map(|(name, text)| format!("-- {name} --\n{text}"));
    super::golden(file, &text.collect::<String>());
}

/// Like [`golden`], compares each section's answer with the next section, whose name has this ending.
#[track_caller]
pub fn answers(file: impl AsRef<Path>, ending: &str, answer: impl Fn(&str) -> String) {
    let questions = read(&file).into_iter().filter(|(name, _)| !name.ends_with(ending));
    let found = questions.flat_map(|(name, question)| {
        let answer = (format!("{name}{ending}"), answer(&question));
        [(name, question), answer]
    });
    golden(&file, found.collect::<Vec<_>>());
}

pub(crate) fn name(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("-- ")?.strip_suffix(" --")
}
