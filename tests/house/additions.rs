//! The lists of ARCHITECTURE.md, "How to add", held against the code: what they name is there, and where the code says
//! by itself which files an addition of a kind needs, they name exactly those.

use mesh::Mesh;
use std::{collections::BTreeSet, fs, path::Path};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files that a list names, by its heading.
fn listed(heading: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = text.split_once("## How to add").expect("the section").1;
    let section = section.split("\n## ").next().expect("an end");
    let list = section.split("\n### ").find(|part| part.starts_with(heading));
    let list = list.unwrap_or_else(|| panic!("no list {heading:?}"));
    let files = list.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next());
    let files: BTreeSet<String> = files.map(str::to_owned).collect();
    assert!(!files.is_empty(), "{heading} names no file");
    for file in &files {
        assert!(root().join(file).is_file(), "{heading}: there is no {file}");
    }
    files
}

fn sources(below: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(below)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&path).expect("UTF-8")));
        }
    }
    found
}

/// The files that say one of these words outside of comments and of their own tests.
fn saying(words: &[&str], below: &[&str]) -> BTreeSet<String> {
    let says = |text: &str| {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let mut code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        code.any(|line| words.iter().any(|word| line.contains(word)))
    };
    let files = below.iter().flat_map(|folder| sources(folder)).filter(|(_, text)| says(text));
    files.map(|(path, _)| path).collect()
}

#[test]
fn a_flag() {
    // A switch that makes rules touches what a flag can touch.
    let mut saying = saying(
        &["DropInvalid", "config.drop_invalid"],
        &["rules/src", "crates/mesh/src", "crates/diagnose/src", "src"],
    );
    // Another mesh has one of the same name.
    saying.retain(|file| !file.starts_with("crates/mesh/src/kuma/") && !file.ends_with("/tests.rs"));
    assert_eq!(listed("A flag"), saying);
}

#[test]
fn every_flag_is_read() {
    let table =
        sources("crates/mesh/src").into_iter().find(|(path, _)| path == "crates/mesh/src/settings/table.rs");
    let (_, table) = table.expect("the table");
    let rows =
        table.split("\nsettings! {").nth(1).expect("the rows").split("\nimpl ").next().expect("an end");
    let mut topic = "";
    let mut count = 0;
    for line in rows.lines() {
        if let Some(name) = line.strip_suffix(" {").map(str::trim) {
            topic = name;
        }
        let Some((name, _)) = line.strip_prefix("        ").and_then(|line| line.split_once(": \"")) else {
            continue;
        };
        count += 1;
        let read = saying(&[&format!("Setting::{name}")], &["crates/mesh/src", "crates/diagnose/src", "src"]);
        assert!(!read.is_empty() || topic == "Compatibility", "nobody reads {name}");
    }
    assert!(count > 60, "only {count} rows found");
}

#[test]
fn a_match() {
    let used = saying(
        &["Match::Connmark", "    Connmark("],
        &["rules/src", "crates/mesh/src", "crates/diagnose/src", "src"],
    );
    // A field of the same name, the marks that predecessors look at, and a short word for policies.
    let values = ["rules/src/field/mod.rs", "rules/src/predecessor.rs", "crates/mesh/src/writing.rs"];
    let listed = listed("A match");
    assert_eq!(listed, &used - &values.map(str::to_owned).into());
    assert!(listed.len() <= 5, "{listed:?}");
}

#[test]
fn a_target() {
    let words = ["Target::", "Action::", "Self::", "    "].map(|before| format!("{before}SetConnmark"));
    let mut used = saying(
        &words.each_ref().map(String::as_str),
        &["rules/src", "crates/mesh/src", "crates/diagnose/src", "src"],
    );
    // A policy that uses it.
    used.remove("crates/mesh/src/ambient/rules.rs");
    let listed = listed("A target");
    assert_eq!(listed, used);
    assert!(listed.len() <= 8, "{listed:?}");
}

#[test]
fn a_backend() {
    let words = ["BackendName::Nftables", "Self::Nftables", "Contents::Nftables", "Step::Nftables"];
    let mut used = saying(&words, &["src"]);
    used.extend(saying(&["differences.nftables"], &["src/engine"]));
    let listed = listed("A backend");
    assert_eq!(listed, used);
    assert!(listed.len() <= 8, "{listed:?}");
}

#[test]
fn a_front_end() {
    assert_eq!(listed("A front end"), ["src/main.rs".to_owned()].into());
    let main = fs::read_to_string(root().join("src/main.rs")).expect("the binary");
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("the library");
    for module in ["cli", "cni"] {
        let is_of_binary_alone = main.contains(&format!("mod {module};")) && !library.contains(module);
        assert!(is_of_binary_alone, "{module} is a front end");
    }
}

#[test]
fn a_mesh() {
    let listed = listed("A mesh");
    assert!(listed.contains("crates/mesh/src/lib.rs") && listed.contains("crates/mesh/src/mesh.rs"));
    let list = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/mesh/src/mesh.rs"))
        .expect("the list");
    // What it asks of a folder, it asks of each.
    for mesh in Mesh::ALL {
        let other_lists =
            saying(&[&format!("crate::{mesh}::OWNERSHIP")], &["crates/mesh/src/mesh", "crates/diagnose/src"]);
        assert!(
            list.contains(&format!(" {mesh} \"{mesh}\";")) && other_lists.is_empty(),
            "{mesh}: {other_lists:?}"
        );
    }
    // Neither the vocabulary nor the engine speaks of a mesh.
    let speaking = saying(
        &["istio::", "mesh::", "diagnose::"],
        &["rules/src", "src/engine", "src/backend", "crates/sys/src"],
    );
    assert_eq!(speaking, BTreeSet::new());
}
