//! Notes for the author of a manifest: the cases of `offline_notes.txt`, whose notes `UPDATE_GOLDENS=1` writes.

use crate::support::read;
use injection::Namespaces;
use injection::offline::{RefusedManifest, Surroundings, manifest};
use std::collections::BTreeMap;

/// Selectors of pods that are never or always injected. The policy has no effect: running the command is the opt-in.
const CONFIG: &str = "policy: disabled\nneverInjectSelector: [{matchLabels: {app: never}}]\n\
                      alwaysInjectSelector: [{matchLabels: {app: always}}]\n";

/// The number of injected objects of a manifest, or its problems, and its notes. Other documents stay unchanged.
fn noted(text: &str) -> String {
    let namespaces = Namespaces::new("shop", None, BTreeMap::new());
    let around = Surroundings { namespaces, ..Surroundings::default() };
    let (outcome, notes) = match manifest("file", text, &around, &read(CONFIG, "", "").expect("a good text"))
    {
        Ok(done) => {
            let documents = text.split("---\n").zip(done.text.split("---\n"));
            let changed = documents.filter(|(before, after)| before != after);
            assert!(changed.clone().all(|(_, after)| after.contains("istio-proxy")), "{}", done.text);
            (format!("{} injected\n", done.injected), done.notes)
        }
        Err(RefusedManifest { problems, notes }) => (format!("{problems}\n"), notes),
    };
    outcome + &notes.iter().map(|note| format!("{note}\n")).collect::<String>()
}

#[test]
fn notes_are_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/offline_notes.txt");
    testkit::sections::answers(file, ", notes", noted);
}
