//! Finds words and constructions from `tests/house/words.txt` in documents, messages, schemas, pictures, the page and comments.
//! Standard terms are shorter and better known.

use crate::{
    repository::{File, files, none, read},
    tokens::{self, without_tests},
};
use proc_macro2::{TokenStream, TokenTree};
use std::ops::Range;

struct Entry {
    word: String,
    instead: String,
    right: Vec<String>,
}

impl Entry {
    fn read(line: &str) -> Self {
        let mut parts = line.split('|').map(|part| part.trim().to_owned());
        let (word, instead) = (parts.next().expect("a word"), parts.next().expect("a replacement"));
        let right = parts.next().unwrap_or_default();
        let right: Vec<String> =
            right.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()).map(str::to_owned).collect();
        assert!(right.iter().all(|phrase| phrase.contains(&word)), "{line}: a phrase without the word");
        Self { word, instead, right }
    }
}

/// Positions of a phrase in a lower-case text, as whole words; ` .. ` in it matches one to four words.
fn places(text: &str, phrase: &str) -> Vec<Range<usize>> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let whole =
        |at: Range<usize>| !text[..at.start].ends_with(is_part) && !text[at.end..].starts_with(is_part);
    let of = |part: &str, from: usize| {
        let found = text[from..].match_indices(part);
        found
            .map(|(at, _)| from + at..from + at + part.len())
            .filter(|at| whole(at.clone()))
            .collect::<Vec<_>>()
    };
    let Some((first, last)) = phrase.split_once(" .. ") else { return of(phrase, 0) };
    let end = |start: &Range<usize>| {
        let ends = of(last, start.end);
        let end = ends
            .first()
            .filter(|end| (1..=4).contains(&text[start.end..end.start].split_whitespace().count()))?;
        Some(start.start..end.end)
    };
    of(first, 0).iter().filter_map(end).collect()
}

fn found(text: &str, entries: &[Entry]) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let mut found = Vec::new();
    for Entry { word, instead, right } in entries {
        let right: Vec<Range<usize>> = right.iter().flat_map(|phrase| places(&text, phrase)).collect();
        let is_right = |at: &Range<usize>| right.iter().any(|of| of.start <= at.start && at.end <= of.end);
        found.extend(places(&text, word).into_iter().filter(|at| !is_right(at)).map(|at| {
            let start = text[..at.start].char_indices().rev().nth(40).map_or(0, |(at, _)| at);
            let around: String = text[start..].chars().take(80 + word.len()).collect();
            format!("{word:?} ({instead}): .. {around} ..")
        }));
    }
    found
}

/// The strings in code, except in tests, in attributes and in `expect`.
fn strings(tokens: TokenStream, found: &mut Vec<String>) {
    let mut of_attributes = Vec::new();
    let tokens = without_tests(tokens, |attribute| {
        let text = attribute.to_string();
        if !["doc", "expect", "cfg_attr"].iter().any(|name| text.starts_with(name)) {
            strings(attribute, &mut of_attributes);
        }
    });
    found.append(&mut of_attributes);
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(name) if name == "expect" => {
                let _ = tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
            }
            TokenTree::Group(group) => strings(group.stream(), found),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') {
                    // A backslash at the end of a line continues the text on the next.
                    found.push(text.replace("\\\n", " ").replace("\\n", " "));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// The comments in code, each run of lines as one text.
fn comments(text: &str) -> Vec<String> {
    let lines: Vec<Option<&str>> = text.lines().map(|line| line.trim_start().strip_prefix("//")).collect();
    let text = |line: &Option<&'_ str>| line.map(|line| line.trim_start_matches(['/', '!']).to_owned());
    lines
        .split(Option::is_none)
        .map(|run| run.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
        .collect()
}

/// The checked texts of a file: for a test, only its comments.
fn texts(file: &File) -> Vec<String> {
    match file.path.ends_with(".rs") {
        true => {
            let mut found = Vec::new();
            if !file.is_test() {
                strings(tokens::read(&file.path, &file.text), &mut found);
            }
            found.extend(comments(&file.text));
            found
        }
        false if file.path.ends_with(".js") => {
            let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
            vec![code.collect::<Vec<_>>().join("\n")]
        }
        false => vec![file.text.clone()],
    }
}

const READ: [&str; 7] = [
    "*.md",
    "*.svg",
    "docs/*.txt",
    "docs/schemas/*.json|rules/scenarios/*.json|rules/scenarios/*.cases",
    "crates/playground/page/*.html",
    "crates/playground/page/*.js",
    "*.rs",
];

#[test]
fn texts_have_the_terms_of_the_field() {
    let list = read("tests/house/words.txt").lines().filter(|line| !line.starts_with('#'));
    let entries: Vec<Entry> = list.map(Entry::read).collect();
    let wrong = READ.into_iter().flat_map(files).flat_map(|file| {
        let of_text = |text: String| found(&text, &entries);
        texts(file).into_iter().flat_map(of_text).map(|line| format!("{}: {line}", file.path))
    });
    none(wrong, "write the words in brackets (tests/house/words.txt)");
}

#[test]
fn words_are_found_and_right_phrases_are_not() {
    let entries = ["is no | | there is no, is no longer", "told | ", "leaves .. alone | "].map(Entry::read);
    let count = |text: &str| found(text, &entries).len();
    assert_eq!(count("It is no YAML. There is no file; it is no longer there."), 1);
    assert_eq!(count("Told by\n  another, untold, told-by, is\nno list"), 2);
    assert_eq!(count("leaves port\n15090 alone; leaves alone; leaves one two three four five alone"), 1);
}

#[test]
fn strings_of_tests_are_not_read() {
    let code = r##"
        //! "Zero"
        /// "One"
        #[error("two {0}")]
        struct Error(u8);
        #[expect(unused, reason = "three")]
        const A: &str = "four \
                         more"; // "five"
        #[cfg(test)]
        mod tests { const B: &str = "six"; }
        const C: &str = r#"seven"#;
        fn d() { e().expect("eight") }
    "##;
    let mut found = Vec::new();
    strings(tokens::read("code", code), &mut found);
    let found: Vec<String> =
        found.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(found, ["\"two {0}\"", "\"four more\"", "r#\"seven\"#"]);
}
