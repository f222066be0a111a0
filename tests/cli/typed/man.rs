//! The manual: a page for each command, as mandoc finds them and shows them.

use crate::cli::typed::program::{commands, flags, output_of, stdout};
use crate::support::folder::Folder;
use std::fs;

#[test]
fn mandoc_finds_nothing_wrong_with_any_page() {
    let folder = Folder::new("typed");
    let pages = folder.join("share/man1");
    stdout(&["man", pages.to_str().expect("UTF-8")]);
    let mut names: Vec<String> = fs::read_dir(&pages)
        .expect("the folder is made")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    let mut expected: Vec<String> =
        commands().iter().map(|name| format!("sidecar-init-{}.1", name.replace(' ', "-"))).collect();
    expected.extend(["sidecar-init.1".to_owned(), "sidecar-init-cni.1".to_owned()]);
    expected.sort();
    assert_eq!(names, expected);
    let paths: Vec<&str> = names.iter().map(String::as_str).collect();
    let printed = output_of("mandoc", &[&["-T", "lint", "-W", "warning"], &paths[..]].concat(), &pages);
    // A page that is made from what stands in the program has no date of its own.
    let faults: Vec<&str> = printed.lines().filter(|line| !line.contains("missing date")).collect();
    assert_eq!(faults, [""; 0]);
}

#[test]
fn pages_tell_what_help_tells() {
    let folder = Folder::new("typed");
    stdout(&["man", folder.to_str().expect("UTF-8")]);
    for command in commands() {
        let name = format!("sidecar-init-{}.1", command.replace(' ', "-"));
        let shown = output_of("mandoc", &["-T", "ascii", "-O", "width=78", &name], &folder);
        // Bold and underlined letters are printed over each other.
        let shown: String = shown.split('\u{8}').fold(String::new(), |mut text, part| {
            text.pop();
            text + part
        });
        for (flag, value) in flags(&command) {
            let form = match value {
                Some(value) => format!("--{flag} {value}\n"),
                None => format!("--{flag}[=BOOL]\n"),
            };
            assert!(shown.contains(&form), "{name} lacks {form:?}:\n{shown}");
        }
        for section in ["\nSYNOPSIS\n", "\nEXIT STATUS\n", "\nEXAMPLES\n", "\nSEE ALSO\n"] {
            assert!(shown.contains(section), "{name} lacks {section:?}:\n{shown}");
        }
    }
}
