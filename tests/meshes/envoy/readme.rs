//! The commands for manual use in `docker/README.md` work.

use crate::support::program::Run;
use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// A separate stage: all processes and namespaces end with this shell.
const STAGE: &str = "mount -t tmpfs tmpfs /run && mount -t proc proc /proc && exec sh -euc \"$1\"";
/// Waits for the log lines, which are written a moment later.
const LOOK: &str = "for i in $(seq 300); do \
    ! grep -q ^outbound /run/log || ! grep -q ^inbound /run/log || ! grep -q ^127.0.0.6 /run/log || break; sleep 0.1; \
    done; cat /run/log >&3";

#[test]
#[ignore = "needs Envoy"]
fn envoy_by_hand() {
    let readme = fs::read_to_string(Path::new(ROOT).join("docker/README.md")).expect("docker/README.md");
    let section = readme.split_once("\n## Envoy\n").expect("the section").1;
    let (_, block) = section.split_once("```sh\n").expect("the commands");
    let (commands, rest) = block.split_once("```").expect("their end");
    let script =
        format!("exec 3>&1 >/run/log 2>&1\ntrap 'cat /run/log >&2' EXIT\n{commands}\ntrap - EXIT\n{LOOK}");
    let folder = Path::new(crate::support::program::BINARY).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap_or_default());
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"])
        .args(["timeout", "--signal=KILL", "120", "sh", "-euc", STAGE, "sh", &script])
        .env("PATH", path)
        .current_dir(ROOT)
        .stdin(Stdio::null())
        .outcome();
    let printed = &output.stdout;
    let failed = &output.stderr;
    assert!(output.succeeded(), "{output:?}");
    // The shown lines up to their variable part.
    let shown = rest.split_once("```text\n").expect("the output").1;
    let shown = shown.split("```").next().expect("an end").lines();
    let starts: Vec<&str> = shown.filter_map(|line| line.split(['[', ':']).next()).collect();
    assert_eq!(starts.len(), 3, "{starts:?}");
    for start in starts {
        assert!(
            printed.lines().any(|line| line.starts_with(start)),
            "no line {start:?} in:\n{printed}\n{failed}"
        );
    }
}
