//! The preview of every catalogue scenario's call matches the scenario's files. `UPDATE_GOLDENS=1` writes them instead.

use crate::support::catalogue::{Case, FILES, folder, scenarios, table, tables};
use crate::support::program::{Outcome, Run, binary};

use std::{collections::BTreeMap, env, fs};

fn preview(case: &Case, more: &[&str]) -> (String, String) {
    let mut command = binary(&[]);
    command
        .env_remove("PATH")
        .envs(case.variables())
        .args(case.command())
        .arg("--dry-run")
        .args(case.flags())
        .args(more);
    let Outcome { stdout, stderr, .. } = command.outcome().with(0, case.name());
    (stdout, stderr)
}

fn texts(case: &Case) -> [Option<String>; 3] {
    let (rules, stderr) = preview(case, &["--backend=iptables"]);
    let rest = rules.strip_prefix("# iptables-restore\n").expect("the header of IPv4");
    let (v4, v6) = match rest.split_once("# ip6tables-restore\n") {
        Some((v4, v6)) => (v4, Some(v6)),
        None => (rest, None),
    };
    let (script, _) = preview(case, &["--backend=nftables"]);
    let script = script.strip_prefix("# nft -f\n").expect("the header of nft");
    // Without permission to read rules, a preview warns that it can't check for Docker's.
    let stderr: String = stderr.lines().filter(|line| !line.contains("Docker")).collect();
    let warnings = case.warnings();
    for warning in &warnings {
        assert!(stderr.contains(warning), "{}: no {warning:?} in {stderr}", case.name());
    }
    assert_eq!(stderr.is_empty(), warnings.is_empty(), "{}: {stderr}", case.name());
    [Some(v4), v6, Some(script)].map(|text| text.map(str::to_owned))
}

fn check_file(case: &Case, file: &str, text: Option<&str>) {
    let path = folder().join(case.name()).join(file);
    match text {
        Some(text) => testkit::golden(path, text),
        None => assert!(!path.exists(), "{} is no longer printed; remove it", path.display()),
    }
}

fn check_case(case: &Case, file: &str, text: Option<&str>) {
    let written = case.text(file);
    assert_eq!(written.is_some(), text.is_some(), "{}, {file}", case.name());
    let [then, now] = [written.as_deref(), text].map(|text| text.unwrap_or_default().split('\n'));
    let difference = then.clone().zip(now.clone()).find(|(then, now)| then != now);
    assert_eq!(difference, None, "{}, {file}; UPDATE_GOLDENS=1 writes the table", case.name());
    assert_eq!(then.count(), now.count(), "the lines of {}, {file}", case.name());
}

#[test]
fn previews_match_the_catalogue() {
    let writes = env::var_os("UPDATE_GOLDENS").is_some();
    let mut printed = BTreeMap::new();
    for case in scenarios(|_| true) {
        for (file, text) in FILES.into_iter().zip(texts(&case)) {
            match case.has_folder() {
                true => check_file(&case, file, text.as_deref()),
                false if writes => {}
                false => check_case(&case, file, text.as_deref()),
            }
            printed.insert(format!("{}/{file}", case.name()), text);
        }
    }
    // The folders that tables refer to are written first.
    for path in tables() {
        let text = table(&path, |case, file| printed[&format!("{}/{file}", case.name())].clone());
        testkit::golden(&path, &text);
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
        assert!(!case.about().is_empty(), "{} has a description", case.name());
    }
    let folders = cases.iter().filter(|case| case.has_folder()).map(|case| case.name().to_owned());
    let names = tables().into_iter().map(|path| path.file_name().expect("a name").display().to_string());
    let mut names: Vec<String> = folders.chain(names).collect();
    names.sort_unstable();
    assert_eq!(links, names);
}
