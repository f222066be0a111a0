//! Properties of editing: for any document and any new value, the result has the new value, comments outside of changes stay, and
//! other documents stay identical.

use crate::support::random::Random;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::scope;

/// True if a line belongs to a changed value: within it, or in the same brackets.
fn has_part(owners: &[String], changed: &[String]) -> bool {
    let within = |inner: &str, outer: &str| {
        inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    owners.iter().any(|owner| {
        let bracket = owner.strip_suffix("/*");
        changed.iter().any(|path| {
            within(bracket.unwrap_or(owner), path) || bracket.is_some_and(|bracket| within(path, bracket))
        })
    })
}

/// Checks a random document; true if it could be edited.
fn check(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let tree = random.tree();
    let written = random.write(&tree);
    let text = &written.text;
    let read =
        |text: &str| mesh::pod::values("file", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let edited = |text: &str, new: &[Value]| {
        injection::offline::edit("file", text, new).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    };
    let old = read(text);
    assert_eq!(old, [tree, json!({"left": ["as", "it is"]})], "{text}");
    assert_eq!(edited(text, &old).text, *text, "nothing is changed");

    let mut new = old.clone();
    let touched = random.change(&mut new[0]);
    let done = edited(text, &new);
    let context = || format!("seed {seed}, {touched:?}\n{text}\n-- became\n{}", done.text);
    assert_eq!(read(&done.text), new, "{}", context());
    let unchanged = text.rfind("---   # another").expect("the other document");
    assert!(done.text.ends_with(&text[unchanged..]), "{}", context());
    assert_eq!(read(&edited(&done.text, &old).text), old, "{}", context());
    if !done.rewritten.is_empty() {
        return false;
    }
    let changed: Vec<String> = touched.lines.iter().chain(&touched.gone).cloned().collect();
    let others = written.lines.iter().filter(|(_, owners)| !has_part(owners, &changed));
    for (_, comment) in others.filter_map(|(line, _)| line.rsplit_once("# comment ")) {
        let comment = format!("# comment {comment}");
        assert!(done.text.lines().any(|line| line.ends_with(&comment)), "{comment} is lost: {}", context());
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(250, 64), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn documents_have_their_new_values_and_keep_their_comments(seed: u64) {
        check(seed);
    }
}

#[test]
fn documents_are_hardly_ever_written_again() {
    let seeds = scope::of((0..1_000).chain([2_022_402_672_290_214_159]).collect(), 250);
    let (tried, rewritten) = (seeds.len(), seeds.into_iter().filter(|seed| !check(*seed)).count());
    assert!(rewritten <= 10, "{rewritten} of {tried} lose their comments");
}
