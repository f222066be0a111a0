//! Words that nothing for users has: those of `tests/house/words.txt`, in documents, help texts, messages, schemas, pictures and the
//! page. The terms of the field are shorter, and known.

use crate::{
    repository::{File, files, none, read},
    tokens::{self, without_tests},
};
use proc_macro2::{TokenStream, TokenTree};

struct Entry {
    word: String,
    instead: String,
    right: Vec<String>,
}

impl Entry {
    fn read(line: &str) -> Self {
        let mut parts = line.split('|').map(|part| part.trim().to_owned());
        let (word, instead) = (parts.next().expect("a word"), parts.next().expect("what is written instead"));
        let right = parts.next().unwrap_or_default();
        let right: Vec<String> =
            right.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()).map(str::to_owned).collect();
        assert!(right.iter().all(|phrase| phrase.contains(&word)), "{line}: a phrase without the word");
        Self { word, instead, right }
    }
}

/// The places of a phrase in a text, both in lower case, where it is no part of other words.
fn places<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(phrase)
        .map(|(at, _)| at)
        .filter(move |at| !text[..*at].ends_with(is_part) && !text[at + phrase.len()..].starts_with(is_part))
}

fn found(text: &str, entries: &[Entry]) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let mut found = Vec::new();
    for Entry { word, instead, right } in entries {
        let right: Vec<(usize, usize)> =
            right.iter().flat_map(|phrase| places(&text, phrase).map(|at| (at, at + phrase.len()))).collect();
        let wrong = places(&text, word)
            .filter(|at| !right.iter().any(|(start, end)| start <= at && at + word.len() <= *end));
        found.extend(wrong.map(|at| {
            let start = text[..at].char_indices().rev().nth(40).map_or(0, |(at, _)| at);
            let around: String = text[start..].chars().take(80 + word.len()).collect();
            format!("{word:?} ({instead}): .. {around} ..")
        }));
    }
    found
}

/// The strings of code, without those that only developers read: of tests, of attributes, of `expect`.
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

fn read_by_users(file: &File) -> String {
    if file.path.ends_with(".js") {
        let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.collect::<Vec<_>>().join("\n")
    } else if file.path.ends_with(".rs") {
        let mut found = Vec::new();
        strings(tokens::read(&file.path, &file.text), &mut found);
        found.join("\n")
    } else {
        file.text.clone()
    }
}

const FOR_USERS: [&str; 7] = [
    "*.md",
    "*.svg",
    "docs/*.txt",
    "docs/schemas/*.json|rules/scenarios/*.json|rules/scenarios/*.cases",
    "crates/playground/page/*.html",
    "crates/playground/page/*.js",
    "*.rs",
];

#[test]
fn users_read_the_terms_of_the_field() {
    let list = read("tests/house/words.txt").lines().filter(|line| !line.starts_with('#'));
    let entries: Vec<Entry> = list.map(Entry::read).collect();
    let of_developers = |file: &File| file.path.ends_with(".rs") && file.is_test();
    let for_users = FOR_USERS.into_iter().flat_map(files).filter(|file| !of_developers(file));
    let wrong = for_users.flat_map(|file| {
        found(&read_by_users(file), &entries).into_iter().map(|line| format!("{}: {line}", file.path))
    });
    none(wrong, "write the words in brackets (tests/house/words.txt)");
}

#[test]
fn words_are_found_and_right_phrases_are_not() {
    let entries = ["is no | | there is no, is no longer", "told | "].map(Entry::read);
    let count = |text: &str| found(text, &entries).len();
    assert_eq!(count("It is no YAML. There is no file; it is no longer there."), 1);
    assert_eq!(count("Told by\n  another, untold, told-by, is\nno list"), 2);
}

#[test]
fn strings_of_tests_and_comments_are_not_read() {
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
