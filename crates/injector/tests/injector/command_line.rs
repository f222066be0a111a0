//! The command line: refusals, completions, the manual.

use testkit::command_line::Program;

const PROGRAM: Program = Program { path: env!("CARGO_BIN_EXE_sidecar-injector"), name: "sidecar-injector" };

#[test]
fn refusals_have_the_style_of_all_programs() {
    for (call, expected) in [
        ("foo", "unknown command foo (see --help)"),
        ("injct", "unknown command injct; did you mean inject?"),
        ("--bogus", "unknown flag --bogus (see --help)"),
        ("serve --self-signd", "unknown flag --self-signd; did you mean --self-signed?"),
        ("inject", "--filename: is required: --filename <FILE>"),
        ("explain -f x --format jsn", "--format: \"jsn\" is not text, json or yaml; did you mean json?"),
    ] {
        assert_eq!(PROGRAM.refused(call), format!("error: 1 problem in the input\n  {expected}\n"), "{call}");
    }
}

#[test]
fn shells_complete() {
    PROGRAM.completes(&[
        ("inj", &["inject"]),
        ("environment ", &["routes", "crd", "operator", "inspect", "help"]),
        ("completions ", &["bash", "zsh", "fish", "powershell"]),
        ("explain --format ", &["text", "json", "yaml"]),
        ("explain --format=j", &["json"]),
        ("inject --fil", &["--filename"]),
        ("inject -f pod", &["pod.yaml"]),
        ("serve ", &[]),
    ]);
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["sidecar-injector.1", "sidecar-injector-inject.1", "sidecar-injector-environment-routes.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for (name, text) in pages.iter().filter(|(_, text)| text.contains("\nOPTIONS\n")) {
        if ["completions.1", "man.1"].iter().all(|own| !name.ends_with(own)) {
            assert!(text.contains("\nEXIT STATUS\n") && text.contains("\nEXAMPLES\n"), "{name}: {text}");
        }
    }
}
