//! The scenario catalogue: calls and their rules. A folder has its call's rules; a table of cases has the differences from a
//! folder's rules. `rules/scenarios/README.md` describes both.

use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A scenario's files: iptables rules per family, `nft` rules for both.
pub const FILES: [&str; 3] = ["v4.rules", "v6.rules", "table.nft"];

pub fn folder() -> PathBuf {
    let above =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("rules/scenarios"));
    above.into_iter().find(|folder| folder.is_dir()).expect("the catalogue")
}

/// Scenarios of the selected meshes, by name. `None` is Istio's sidecar.
pub fn scenarios(of: impl Fn(Option<&str>) -> bool) -> Vec<Case> {
    let mut cases: Vec<Case> = tables().iter().flat_map(|table| cases(table)).collect();
    cases.extend(entries().into_iter().filter(|path| path.is_dir()).map(Case::of_folder));
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(cases.len() > 150, "the catalogue has shrunk");
    cases.retain(|case| of(case.mesh()));
    cases
}

pub fn tables() -> Vec<PathBuf> {
    let is_table = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "cases");
    entries().into_iter().filter(is_table).collect()
}

fn entries() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the catalogue");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

pub struct Case {
    name: String,
    call: Map<String, Value>,
    folder: PathBuf,
    /// Changes to the folder's files, by name; empty for the folder's own scenario.
    changes: BTreeMap<String, String>,
}

impl Case {
    pub fn named(name: &str) -> Self {
        let found = scenarios(|_| true).into_iter().find(|case| case.name == name);
        found.unwrap_or_else(|| panic!("no scenario is called {name}"))
    }

    fn of_folder(folder: PathBuf) -> Self {
        let call = serde_json::from_str(&read(&folder.join("case.json")));
        let call = call.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let name = stem(&folder).to_owned();
        Self { name, call, folder, changes: BTreeMap::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn has_folder(&self) -> bool {
        self.folder.ends_with(&self.name)
    }

    /// Content of one of the [`FILES`]; `None` if the call sets no such rules.
    pub fn text(&self, file: &str) -> Option<String> {
        let whole = fs::read_to_string(self.folder.join(file)).ok()?;
        let changes = self.changes.get(file).map_or("", String::as_str);
        let changed = applied(&whole, changes);
        Some(
            changed
                .unwrap_or_else(|line| panic!("{}, {file}: {line:?} is not in {}", self.name, self.base())),
        )
    }

    fn base(&self) -> &str {
        stem(&self.folder)
    }

    pub fn about(&self) -> &str {
        self.call["about"].as_str().expect("about")
    }

    /// Mesh of the scenario; `None` for Istio's sidecar.
    pub fn mesh(&self) -> Option<&str> {
        self.call.get("mesh").map(|mesh| mesh.as_str().expect("a string"))
    }

    /// The command that sets the rules: the drop-in for Istio, `apply` for other meshes.
    pub fn command(&self) -> Vec<String> {
        match self.mesh() {
            Some(mesh) => vec!["apply".to_owned(), format!("--mesh={mesh}")],
            None => vec!["istio-iptables".to_owned()],
        }
    }

    pub fn flags(&self) -> Vec<String> {
        let mut flags = self.strings("args");
        for (flag, key) in [("--pod-ips", "pod_ips"), ("--dns-servers", "dns_servers")] {
            flags.extend([flag.to_owned(), self.strings(key).join(",")]);
        }
        flags
    }

    pub fn variables(&self) -> Vec<(String, String)> {
        let variables = self.call.get("env").and_then(Value::as_object).into_iter().flatten();
        variables.map(|(name, value)| (name.clone(), value.as_str().expect("a string").to_owned())).collect()
    }

    /// Substrings of the call's standard error.
    pub fn warnings(&self) -> Vec<String> {
        self.strings("warnings")
    }

    fn strings(&self, key: &str) -> Vec<String> {
        let items = self.call.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
    }
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).expect("a name")
}

/// Content of a table with the changes that produce `texts` for each case and file.
pub fn table(path: &Path, texts: impl Fn(&Case, &str) -> Option<String>) -> String {
    let read = read(path);
    let heads = read.split("\n=== ").map(|part| part.split("\n--- ").next().unwrap_or_default().trim_end());
    let mut heads = heads.map(str::to_owned);
    let mut table = heads.next().unwrap_or_default() + "\n";
    for (head, case) in heads.zip(cases(path)) {
        table += &format!("\n=== {head}\n");
        let mut changes: Vec<(String, String)> = Vec::new();
        for file in FILES {
            let whole = fs::read_to_string(case.folder.join(file)).ok();
            let text = texts(&case, file);
            assert_eq!(text.is_some(), whole.is_some(), "{}: {} has other families", case.name, case.base());
            let these = difference(&whole.unwrap_or_default(), &text.unwrap_or_default());
            match changes.last_mut() {
                // The changes of both families are often the same.
                Some((files, those)) if *those == these => *files += &format!(", {file}"),
                _ => changes.push((file.to_owned(), these)),
            }
        }
        changes.retain(|(_, lines)| !lines.is_empty());
        table.extend(changes.iter().map(|(files, lines)| format!("--- {files}\n{lines}")));
    }
    table
}

fn cases(path: &Path) -> Vec<Case> {
    let text = read(path);
    let mut parts = text.split("\n=== ");
    let usual =
        parts.next().and_then(|preamble| preamble.lines().find_map(|line| line.strip_prefix("base: ")));
    let usual = usual.unwrap_or_else(|| panic!("{} names no base", path.display()));
    let case = |part: &str| {
        let mut sections = part.split("\n--- ");
        let mut head = sections.next().unwrap_or_default().lines();
        let name = head.next().unwrap_or_default().to_owned();
        let mut call: Map<String, Value> = head.filter_map(|line| setting(line.trim_end())).collect();
        call.insert("mesh".to_owned(), stem(path).into());
        let base = call.remove("base");
        let folder = folder().join(base.as_ref().and_then(Value::as_str).unwrap_or(usual));
        let mut changes = BTreeMap::new();
        for (files, lines) in sections.filter_map(|section| section.split_once('\n')) {
            changes.extend(files.split(", ").map(|file| (file.to_owned(), lines.trim_end().to_owned())));
        }
        Case { name, call, folder, changes }
    };
    parts.map(case).collect()
}

/// A field of a call: a list or a map as JSON, or a plain string.
fn setting(line: &str) -> Option<(String, Value)> {
    let (key, value) = line.split_once(": ")?;
    let read = if value.starts_with(['[', '{']) {
        serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}"))
    } else {
        value.into()
    };
    Some((key.to_owned(), read))
}

/// Applies changes to a string. An unmarked line locates the string's next equal line; changes apply after it. The error is a
/// line not found.
fn applied<'a>(text: &'a str, changes: &'a str) -> Result<String, &'a str> {
    let mut lines = text.lines();
    let mut changed = Vec::new();
    for change in changes.lines() {
        let (mark, line) = (change.get(..1).unwrap_or(" "), change.get(2..).unwrap_or_default());
        match mark {
            "+" => changed.push(line),
            "-" => {
                lines.next().filter(|next| *next == line).ok_or(line)?;
            }
            _ => loop {
                let next = lines.next().ok_or(line)?;
                changed.push(next);
                if next == line {
                    break;
                }
            },
        }
    }
    changed.extend(lines);
    Ok(changed.into_iter().flat_map(|line| [line, "\n"]).collect())
}

fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // Length of the longest common subsequence from here on.
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for (at, line) in old.iter().enumerate().rev() {
        for (to, other) in new.iter().enumerate().rev() {
            common[at][to] = match line == other {
                true => common[at + 1][to + 1] + 1,
                false => common[at + 1][to].max(common[at][to + 1]),
            };
        }
    }
    let (mut at, mut to, mut shown) = (0, 0, 0);
    let mut changes = String::new();
    let mut say = |mark: &str, line: &str| {
        changes.push_str(format!("{mark} {line}").trim_end());
        changes.push('\n');
    };
    while at < old.len() || to < new.len() {
        if at < old.len() && to < new.len() && old[at] == new[to] {
            (at, to) = (at + 1, to + 1);
            continue;
        }
        for line in place(&old[shown..at]) {
            say(" ", line);
        }
        if to == new.len() || at < old.len() && common[at + 1][to] >= common[at][to + 1] {
            say("-", old[at]);
            at += 1;
        } else {
            say("+", new[to]);
            to += 1;
        }
        shown = at;
    }
    changes
}

/// Context locating the end of these lines: the heading of the last table or chain, and the last line; all lines if either also
/// occurs earlier.
fn place<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let Some((last, before)) = lines.split_last() else { return Vec::new() };
    let is_heading = |line: &&str| line.starts_with("* ") || line.ends_with(" {");
    let heading = before.iter().rposition(is_heading).filter(|_| !is_heading(last));
    let behind = heading.map_or(before, |heading| &before[heading + 1..]);
    let leads = heading.is_none_or(|heading| !before[..heading].contains(&before[heading]));
    match leads && !behind.contains(last) {
        true => heading.map(|heading| before[heading]).into_iter().chain([*last]).collect(),
        false => lines.to_vec(),
    }
}
