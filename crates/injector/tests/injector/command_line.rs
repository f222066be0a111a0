//! Command line: completions and the manual.

use crate::PROGRAM;
use testkit::command_line::SHELLS;

#[test]
fn shells_complete() {
    for shell in SHELLS.map(|name| PROGRAM.shell(name)) {
        for (line, expected) in [
            ("inj", &["inject"][..]),
            ("environment ", &["routes", "crd", "operator", "inspect"]),
            ("completions ", &["bash", "zsh", "fish"]),
            ("explain --output ", &["text", "json", "yaml"]),
            ("explain --output=j", &["json"]),
            ("inject --fil", &["--filename"]),
            ("inject -f pod", &["pod.yaml"]),
            ("serve ", &[]),
        ] {
            shell.proposes(&format!("sidecar-injector {line}"), expected.iter().copied());
        }
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["sidecar-injector.1", "sidecar-injector-inject.1", "sidecar-injector-environment-routes.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for (name, text) in pages.iter().filter(|(_, text)| !text.contains("\nCOMMANDS\n")) {
        if ["completions.1", "man.1"].iter().all(|own| !name.ends_with(own)) {
            assert!(text.contains("\nEXIT STATUS\n") && text.contains("\nEXAMPLES\n"), "{name}: {text}");
        }
    }
}
