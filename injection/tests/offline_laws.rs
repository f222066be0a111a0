//! Laws of changing text: whatever a document looks like, and whatever becomes of its value, the new text has the new value,
//! and every line that has no part in it stays.

#[path = "support/random.rs"]
mod random;

use proptest::prelude::*;
use random::Random;
use serde_json::{Value, json};

/// Whether a line has a part in a value that is changed: it is within it, or holds it in brackets.
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

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let tree = random.tree();
    let written = random.write(&tree);
    let text = &written.text;
    let read = |text: &str| {
        policy::pod::values("file", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    };
    let edited = |text: &str, new: &[Value]| {
        injection::offline::edit("file", text, new).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    };
    let old = read(text);
    assert_eq!(old, [tree, json!({"left": ["as", "it is"]})], "{text}");
    assert_eq!(edited(text, &old).text, *text, "nothing is changed");

    let mut new = old.clone();
    let touched = random.change(&mut new[0]);
    let done = edited(text, &new);
    let told = || format!("seed {seed}, {touched:?}\n{text}\n-- became\n{}", done.text);
    assert_eq!(read(&done.text), new, "{}", told());
    assert_eq!(done.anew, [0; 0], "{}", told());
    // Behind a dash, the next entry takes the place of one that is gone.
    let bare = |line: &str| match touched.gone.is_empty() {
        true => line.to_owned(),
        false => line.trim_start_matches([' ', '-']).to_owned(),
    };
    let mut lines = done.text.lines();
    // An empty line may belong to a text in lines before it.
    let others =
        written.lines.iter().filter(|(line, owners)| !line.is_empty() && !has_part(owners, &touched.lines));
    for (line, _) in others {
        assert!(lines.any(|other| bare(other) == bare(line)), "{line:?} is lost: {}", told());
    }
    let comments = written.lines.iter().filter(|(_, owners)| !has_part(owners, &touched.gone));
    for (_, comment) in comments.filter_map(|(line, _)| line.rsplit_once("# comment ")) {
        let comment = format!("# comment {comment}");
        assert!(done.text.lines().any(|line| line.ends_with(&comment)), "{comment} is lost: {}", told());
    }
    // What was put in can be taken out again.
    assert_eq!(read(&edited(&done.text, &old).text), old, "{}", told());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_untouched_line_stays(seed: u64) {
        check(seed);
    }
}
