//! Every scenario of the catalogue: the preview of its call is the text beside it.
//!
//! `UPDATE_GOLDENS=1` writes the texts instead of comparing them.

use crate::support::catalogue::{Case, FILES, folder, scenarios, table, tables};
use crate::support::program::{Outcome, Run, bare};

use std::{collections::BTreeMap, env, fs};

/// Standard output and standard error of the scenario's preview.
fn preview(case: &Case, more: &[&str]) -> (String, String) {
    let mut command = bare(&[]);
    command.envs(case.variables()).args(case.command()).arg("--dry-run").args(case.flags()).args(more);
    let Outcome { stdout, stderr, .. } = command.outcome().with(0, case.name());
    (stdout, stderr)
}

/// The texts of the scenario's files, as previews print them.
fn texts(case: &Case) -> [Option<String>; 3] {
    let (rules, stderr) = preview(case, &["--backend=iptables"]);
    let rest = rules.strip_prefix("# iptables-restore\n").expect("the header of IPv4");
    let (v4, v6) = match rest.split_once("# ip6tables-restore\n") {
        Some((v4, v6)) => (v4, Some(v6)),
        None => (rest, None),
    };
    let (script, _) = preview(case, &["--backend=nftables"]);
    let script = script.strip_prefix("# nft -f\n").expect("the header of nft");
    // Without the right to read rules, a preview says that it can't look for Docker's.
    let stderr: String = stderr.lines().filter(|line| !line.contains("Docker")).collect();
    let warnings = case.warnings();
    for warning in &warnings {
        assert!(stderr.contains(warning), "{}: no {warning:?} in {stderr}", case.name());
    }
    assert_eq!(stderr.is_empty(), warnings.is_empty(), "{}: {stderr}", case.name());
    [Some(v4), v6, Some(script)].map(|text| text.map(str::to_owned))
}

#[test]
fn previews_are_the_texts_of_the_catalogue() {
    let cases = scenarios(|_| true);
    let printed: BTreeMap<(&str, &str), Option<String>> = cases
        .iter()
        .flat_map(|case| FILES.into_iter().zip(texts(case)).map(|(file, text)| ((case.name(), file), text)))
        .collect();
    // Folders are written first: tables are compared with them.
    for (case, file) in
        cases.iter().filter(|case| case.has_folder()).flat_map(|case| FILES.map(|file| (case, file)))
    {
        let path = folder().join(case.name()).join(file);
        match &printed[&(case.name(), file)] {
            Some(text) => testkit::golden(path, text),
            None => assert!(!path.exists(), "{} is not printed any more; remove it", path.display()),
        }
    }
    if env::var_os("UPDATE_GOLDENS").is_none() {
        for case in &cases {
            for file in FILES {
                assert_eq!(case.text(file), printed[&(case.name(), file)], "{}, {file}", case.name());
            }
        }
    }
    for path in tables() {
        testkit::golden(&path, &table(&path, |case, file| printed[&(case.name(), file)].clone()));
    }
}

#[test]
fn the_catalogue_lists_every_folder_once() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("README.md");
    let (_, list) = readme.split_once("\n## Scenarios\n").expect("the list of scenarios");
    let links = list.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut links: Vec<String> = links.map(str::to_owned).collect();
    links.sort_unstable();
    let cases = scenarios(|_| true);
    for case in &cases {
        assert!(!case.about().is_empty(), "{} says what it shows", case.name());
    }
    let folders = cases.iter().filter(|case| case.has_folder()).map(|case| case.name().to_owned());
    let names = tables().into_iter().map(|path| path.file_name().expect("a name").display().to_string());
    let mut names: Vec<String> = folders.chain(names).collect();
    names.sort_unstable();
    assert_eq!(links, names);
}
