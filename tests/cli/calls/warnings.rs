//! Input that is odd but harmless: it works, and standard error says what was made of it.

use super::{POD, Preview, pipe, preview};
use crate::support::folder::Folder;
use crate::support::program::stdout_of;
use serde_json::Value;

#[test]
fn all_flags_for_compatibility_are_taken_in_silence() {
    let arguments = [
        "--log_caller=all",
        "--log_stacktrace_level=default:none",
        "--log_rotate=/nowhere/x",
        "--log_rotate_max_age=1",
        "--log_rotate_max_backups=1",
        "--log_rotate_max_size=1",
        "--vklog=9",
    ];
    let ended = preview::<_, &str>(&arguments, &[]);
    ended.rules();
    assert_eq!(ended.stderr, "");
}

#[test]
fn levels_choose_which_lines_there_are() {
    for (levels, expected) in [
        ("default:info", 1),
        ("default:error", 0),
        ("all:none", 0),
        ("none", 0),
        ("default:none,config:warn", 1),
        ("config:error", 0),
        ("other:error", 1),
        ("trace", 1),
    ] {
        let ended = preview::<_, &str>(&["-b", "0", "--log_output_level", levels], &[]);
        ended.rules();
        assert_eq!(ended.stderr.lines().count(), expected, "{levels}: {}", ended.stderr);
    }
}

#[test]
fn lines_never_mix_with_rules() {
    let plain = preview::<_, &str>(&["-b", "0"], &[]);
    let both = preview::<_, &str>(&["-b", "0", "--log_target", "stdout"], &[]);
    assert_eq!(both.rules(), plain.rules());
    assert!(both.stderr.contains("port 0 is dropped"), "{}", both.stderr);
    let named_twice = preview::<_, &str>(&["-b", "0", "--log_target", "stdout,stderr"], &[]);
    assert_eq!(named_twice.stderr.lines().count(), plain.stderr.lines().count(), "{}", named_twice.stderr);
}

#[test]
fn lines_never_mix_with_an_answer() {
    for command in [
        &["explain", "--format", "json", "--destination", "10.0.0.1:80"][..],
        &["render", "--format", "json"],
        &["lint", "--format", "json"],
    ] {
        let flags = ["-b", "0", "-i", "10.1.2.3/8", "--log_target", "stdout"];
        let text = stdout_of(&[command, &POD, &flags].concat());
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
}

/// It would wait for a reader for ever.
#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let folder = Folder::new("cli");
    let ended = preview::<_, &str>(&["--log_target", &pipe(&folder)], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("can't be written: "), "{}", ended.stderr);
}

#[test]
fn lines_can_go_to_a_file_and_to_standard_error() {
    let folder = Folder::new("cli");
    let file = folder.join("log");
    let targets = format!("{},stderr", file.display());
    let ended = preview::<_, &str>(&["-b", "0", "--log_target", &targets], &[]);
    ended.rules();
    assert_eq!(std::fs::read_to_string(&file).expect("the log"), ended.stderr);
    let nowhere = folder.join("missing/log");
    let ended = preview::<_, &str>(&["--log_target", nowhere.to_str().expect("UTF-8")], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(
        ended.stderr.contains("--log_target: ") && ended.stderr.contains("expected stderr, stdout or a path")
    );
}
