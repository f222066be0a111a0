//! Limits each part's line count: a commit must explain a higher limit, and fewer lines lower the limit.

use crate::repository::{self, File, ROOT, files, none};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

const TABLE: &str = "tests/house/ceiling.txt";

type Lines = [usize; 2];

fn part(path: &str) -> &str {
    let slashes = if path.starts_with("crates/") { 1 } else { 0 };
    let end = path.match_indices('/').nth(slashes).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

fn count(file: &File) -> Lines {
    let mut lines = [0, 0];
    for (line, is_test) in file.text.split('\n').zip(repository::tests(&file.text)) {
        lines[usize::from(is_test || file.is_test())] += usize::from(!line.trim().is_empty());
    }
    lines
}

fn wrong(part: &str, kind: &str, lines: usize, ceiling: usize) -> Option<String> {
    let spare = (lines / 50).max(50);
    if lines > ceiling {
        Some(format!(
            "{part}: {lines} lines of {kind}, ceiling {ceiling}: remove lines, or explain their benefit to users in the commit"
        ))
    } else if ceiling > lines + spare {
        Some(format!("{part}: {lines} lines of {kind}, ceiling {ceiling}: lower the ceiling"))
    } else {
        None
    }
}

#[test]
fn no_part_grows_beyond_its_ceiling() {
    let mut parts = BTreeMap::<&str, Lines>::new();
    for file in files("*.rs") {
        let [code, tests] = count(file);
        let lines = parts.entry(part(&file.path)).or_default();
        *lines = [lines[0] + code, lines[1] + tests];
    }
    let path = Path::new(ROOT).join(TABLE);
    let written = fs::read_to_string(&path).expect(TABLE);
    let (head, rows): (Vec<&str>, Vec<&str>) = written.lines().partition(|line| line.starts_with('#'));
    if env::var_os("UPDATE_GOLDENS").is_some() {
        let rows = parts.iter().map(|(part, [code, tests])| format!("{part} {code} {tests}\n"));
        fs::write(&path, head.join("\n") + "\n" + &rows.collect::<String>()).expect(TABLE);
        return;
    }
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let part = words.next().expect("a part").to_owned();
        let lines = [(); 2].map(|()| words.next().and_then(|word| word.parse().ok()).expect("lines"));
        (part, lines)
    };
    let ceilings: BTreeMap<String, Lines> = rows.into_iter().map(row).collect();
    let names: BTreeSet<&str> = parts.keys().copied().chain(ceilings.keys().map(String::as_str)).collect();
    let compared = names.into_iter().flat_map(|part| {
        let [lines, ceilings] =
            [parts.get(part), ceilings.get(part)].map(|lines| lines.copied().unwrap_or_default());
        [(0, "code"), (1, "tests")]
            .into_iter()
            .filter_map(move |(at, kind)| wrong(part, kind, lines[at], ceilings[at]))
    });
    none(compared, &format!("{TABLE} holds the size of each part; UPDATE_GOLDENS=1 writes it"));
}

/// Wider or denser lines would only reduce the counts.
#[test]
fn lines_are_formatted_by_the_same_rules() {
    let rules = repository::read("rustfmt.toml");
    assert_eq!(
        rules, "max_width = 110\nuse_small_heuristics = \"Max\"\n",
        "keep rustfmt.toml, and shorten the code"
    );
    let skips = |line: &str| {
        ["#[rustfmt::skip", "#![rustfmt::skip"].iter().any(|start| line.trim_start().starts_with(start))
    };
    let unformatted = files("*.rs").into_iter().filter(|file| file.text.lines().any(skips));
    none(unformatted.map(|file| file.path.clone()), "let rustfmt format all code");
}
