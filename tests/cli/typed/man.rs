//! The manual: a page for each command, formatted and checked by mandoc.

use crate::cli::typed::program::{commands, flags};
use crate::support::session::PROGRAM;

#[test]
fn pages_match_help() {
    let pages = PROGRAM.manual();
    let commands = commands();
    let name = |command: &String| format!("sidecar-init-{}.1", command.replace(' ', "-"));
    let mut expected: Vec<String> = commands.iter().map(name).collect();
    expected.extend(["sidecar-init.1".to_owned(), "sidecar-init-cni.1".to_owned()]);
    expected.sort();
    assert_eq!(pages.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected);
    for command in &commands {
        let (name, shown) = pages.iter().find(|(page, _)| *page == name(command)).expect("a page");
        for (flag, value) in flags(command) {
            let form = match value {
                Some(value) => format!("--{flag} <{value}>\n"),
                None => format!("--{flag}[=<BOOL>]\n"),
            };
            assert!(shown.contains(&form), "{name} lacks {form:?}:\n{shown}");
        }
        for section in ["\nSYNOPSIS\n", "\nEXIT STATUS\n", "\nEXAMPLES\n", "\nOPTIONS\n"] {
            assert!(shown.contains(section), "{name} lacks {section:?}:\n{shown}");
        }
    }
}
