//! Every scenario of the catalogue: the preview of its call is the text beside it.
//!
//! `UPDATE_GOLDENS=1` writes the texts instead of comparing them.

use crate::support::catalogue;
use crate::support::program::{Outcome, Run, bare};

use catalogue::{Case, scenarios};
use std::{fs, path::Path};

/// Standard output and standard error of the scenario's preview.
fn preview(case: &Case, more: &[&str]) -> (String, String) {
    let mut command = bare(&[]);
    command.envs(case.variables()).args(case.command()).arg("--dry-run").args(case.flags()).args(more);
    let Outcome { stdout, stderr, .. } = command.outcome().with(0, case.about());
    (stdout, stderr)
}

/// Writes or compares the text of one family; no text means no file.
fn check(folder: &Path, file: &str, text: Option<&str>) {
    let path = folder.join(file);
    match text {
        Some(text) => testkit::golden(path, text),
        None => assert!(!path.exists(), "{} is not printed any more; remove it", path.display()),
    }
}

#[test]
fn previews_are_the_texts_of_the_catalogue() {
    for folder in scenarios(|_| true) {
        let case = Case::read(&folder);
        let (stdout, stderr) = preview(&case, &["--backend=iptables"]);
        let rest = stdout.strip_prefix("# iptables-restore\n").expect("the header of IPv4");
        let (v4, v6) = match rest.split_once("# ip6tables-restore\n") {
            Some((v4, v6)) => (v4, Some(v6)),
            None => (rest, None),
        };
        check(&folder, "v4.rules", Some(v4));
        check(&folder, "v6.rules", v6);
        let (script, _) = preview(&case, &["--backend=nftables"]);
        let script = script.strip_prefix("# nft -f\n").expect("the header of nft");
        check(&folder, "table.nft", Some(script));
        // Without the right to read rules, a preview says that it can't look for Docker's.
        let stderr: String = stderr.lines().filter(|line| !line.contains("Docker")).collect();
        let warnings = case.warnings();
        for warning in &warnings {
            assert!(stderr.contains(warning), "{}: no {warning:?} in {stderr}", folder.display());
        }
        assert_eq!(stderr.is_empty(), warnings.is_empty(), "{}: {stderr}", folder.display());
    }
}

#[test]
fn the_catalogue_lists_every_scenario_once() {
    let readme = fs::read_to_string(catalogue::folder().join("README.md")).expect("README.md");
    let (_, list) = readme.split_once("\n## Scenarios\n").expect("the list of scenarios");
    let links = list.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut links: Vec<&str> = links.collect();
    links.sort_unstable();
    let folders = scenarios(|_| true);
    for folder in &folders {
        assert!(!Case::read(folder).about().is_empty(), "{} says what it shows", folder.display());
    }
    let names = folders.iter().map(|folder| folder.file_name().expect("a name").to_string_lossy());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    assert_eq!(links, names);
}
