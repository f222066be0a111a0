//! Removes the provenance chain of the native table from listings: it has a time and a command, so it differs in every run.

pub(crate) fn without_note(listing: &str) -> String {
    const END: &str = "\n\t}\n";
    let cut = listing.find("\n\tchain made_by {").and_then(|start| {
        let length = listing[start..].find(END)? + END.len();
        Some(listing[..start].to_owned() + &listing[start + length..])
    });
    cut.unwrap_or_else(|| listing.to_owned())
}
