//! Words that nothing for users has: those of `tests/house/words.txt`, in documents, help texts, messages, schemas, pictures and the
//! page. The terms of the field are shorter, and known.

use proc_macro2::{TokenStream, TokenTree};
use std::{fs, path::Path, str::FromStr};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A word, and phrases with it that are right.
struct Entry {
    word: String,
    instead: String,
    right: Vec<String>,
}

fn entries() -> Vec<Entry> {
    let list = fs::read_to_string(root().join("tests/house/words.txt")).expect("the list");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let entry = |line: &str| {
        let mut parts = line.split('|').map(|part| part.trim().to_owned());
        let (word, instead) = (parts.next().expect("a word"), parts.next().expect("what is written instead"));
        let right = parts.next().unwrap_or_default();
        let right: Vec<String> =
            right.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()).map(str::to_owned).collect();
        assert!(right.iter().all(|phrase| phrase.contains(&word)), "{line}: a phrase without the word");
        Entry { word, instead, right }
    };
    lines.map(entry).collect()
}

/// The places of a phrase in a text, both in lower case, where it is no part of other words.
fn places<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(phrase)
        .map(|(at, _)| at)
        .filter(move |at| !text[..*at].ends_with(is_part) && !text[at + phrase.len()..].starts_with(is_part))
}

/// The words of the list in a text, with their surroundings.
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

#[test]
fn words_are_found_and_right_phrases_are_not() {
    let entry = |word: &str, right: &[&str]| Entry {
        word: word.to_owned(),
        instead: String::new(),
        right: right.iter().map(|phrase| (*phrase).to_owned()).collect(),
    };
    let entries = [entry("is no", &["there is no", "is no longer"]), entry("told", &[])];
    let count = |text: &str| found(text, &entries).len();
    assert_eq!(count("It is no YAML. There is no file; it is no longer there."), 1);
    assert_eq!(count("Told by\n  another, untold, told-by, is\nno list"), 2);
}

/// The strings of code, without those that only developers read: of tests, of attributes, of `expect`.
fn strings(tokens: TokenStream, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let is_inner =
                    |next: &TokenTree| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!');
                let _ = tokens.next_if(is_inner);
                let Some(TokenTree::Group(attribute)) =
                    tokens.next_if(|next| matches!(next, TokenTree::Group(_)))
                else {
                    continue;
                };
                let text = attribute.stream().to_string();
                if text.split_whitespace().collect::<String>() == "cfg(test)" {
                    // The module of tests, or what only tests use.
                    let end = |next: &TokenTree| match next {
                        TokenTree::Group(group) => group.delimiter() == proc_macro2::Delimiter::Brace,
                        TokenTree::Punct(punct) => punct.as_char() == ';',
                        _ => false,
                    };
                    let _ = tokens.by_ref().find(end);
                } else if !["doc", "expect", "cfg_attr"].iter().any(|name| text.starts_with(name)) {
                    strings(attribute.stream(), found);
                }
            }
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
            _ => {}
        }
    }
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
    strings(TokenStream::from_str(code).expect("Rust"), &mut found);
    let found: Vec<String> =
        found.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(found, ["\"two {0}\"", "\"four more\"", "r#\"seven\"#"]);
}

/// The files of the project below a folder.
fn files(below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(below).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, found);
            }
        } else {
            let path = path.strip_prefix(root()).expect("below the root");
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

/// Code that users have no strings of.
fn is_for_developers(path: &str) -> bool {
    let of_tests = path
        .split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples" | "fuzz" | "testkit"));
    of_tests || path.ends_with("_tests.rs")
}

/// What users read in a file; `None` if it is not for them.
fn read(path: &str) -> Option<String> {
    let (_, ending) = path.rsplit_once('.')?;
    let text = || fs::read_to_string(root().join(path)).expect("UTF-8");
    let is_of_page = path.starts_with("crates/playground/page/");
    match ending {
        "md" | "svg" => Some(text()),
        "txt" if path.starts_with("docs/") => Some(text()),
        "cases" => Some(text()),
        "json" if path.starts_with("docs/schemas/") || path.starts_with("rules/scenarios/") => Some(text()),
        "html" if is_of_page => Some(text()),
        "js" if is_of_page => {
            let text = text();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            Some(code.collect::<Vec<_>>().join("\n"))
        }
        "rs" if !is_for_developers(path) => {
            let tokens = TokenStream::from_str(&text()).unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut found = Vec::new();
            strings(tokens, &mut found);
            Some(found.join("\n"))
        }
        _ => None,
    }
}

#[test]
fn users_read_the_terms_of_the_field() {
    let entries = entries();
    let mut paths = Vec::new();
    files(root(), &mut paths);
    paths.sort();
    let texts: Vec<(String, String)> =
        paths.into_iter().filter_map(|path| read(&path).map(|text| (path, text))).collect();
    for ending in [".md", ".svg", ".txt", ".json", ".html", ".js", ".rs"] {
        assert!(texts.iter().any(|(path, _)| path.ends_with(ending)), "no {ending} was read");
    }
    let wrong: Vec<String> = texts
        .iter()
        .flat_map(|(path, text)| found(text, &entries).into_iter().map(move |line| format!("{path}: {line}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
