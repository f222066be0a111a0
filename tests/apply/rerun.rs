//! Runs without writes, as kernel monitors confirm; and a report that can't be printed.

use crate::support::program::{Outcome, PATH, binary};
use crate::support::wait;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, fs::File, thread};

use crate::apply::stage::{REDIRECT, call};
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, run};
use crate::support::setting::Variant;
use testkit::running::Running;

/// A program that writes every change in a namespace to a file.
pub(crate) struct Monitor {
    line: &'static str,
    _child: Running,
    report: std::path::PathBuf,
    _folder: Folder,
}

const KNOWN: [&str; 5] = [PROBE, "192.0.2.77", "valid_lft", "# new generation", "process"];
/// A table and an address that only the probe creates.
const PROBE: &str = "probe";
const PROBE_ADDRESS: &str = "192.0.2.77/32";

impl Monitor {
    pub(crate) fn start(namespace: &Namespace, name: &str, line: &'static str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let folder = Folder::new(&format!("rerun-{name}-{}", words[0]));
        let report = folder.join("report");
        let file = fs::File::create(&report).expect("a file can be made");
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("PATH", PATH).stdout(file).stderr(Stdio::null()).stdin(Stdio::null());
        let child = namespace.run(|| command.spawn()).expect("the monitor starts");
        let monitor = Self { line, _child: Running(child), report, _folder: folder };
        monitor.wait_until_reporting(namespace);
        fs::File::options().write(true).open(&monitor.report).and_then(|file| file.set_len(0)).expect("cut");
        monitor
    }

    fn wait_until_reporting(&self, namespace: &Namespace) {
        let (line, word) = (self.line, if self.line.starts_with("nft") { PROBE } else { "192.0.2.77" });
        wait::until(&format!("{line} reports"), || {
            let is_reported = self.reported().contains(word);
            if !is_reported {
                probe(namespace);
            }
            is_reported
        });
        // Wait until all changes of the probes are reported.
        let mut last = String::new();
        while last != self.reported() {
            last = self.reported();
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn reported(&self) -> String {
        let mut bytes = Vec::new();
        fs::File::open(&self.report).and_then(|mut file| file.read_to_end(&mut bytes)).expect("the report");
        // A file truncated under its writer starts with a hole.
        bytes.retain(|byte| *byte != 0);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Checks that the monitor reports only the changes of a new probe.
    pub(crate) fn assert_silent(self, namespace: &Namespace) {
        self.wait_until_reporting(namespace);
        let report = self.reported();
        let known = |line: &&str| KNOWN.iter().any(|word| line.contains(word));
        let strange: Vec<&str> = report.lines().filter(|line| !line.is_empty() && !known(line)).collect();
        assert!(strange.is_empty(), "{} reported {strange:?}", self.line);
        let generations = report.lines().filter(|line| line.contains("new generation")).count();
        let probes = report.lines().filter(|line| line.contains(PROBE)).count();
        assert!(generations <= probes, "{}: an empty change was committed\n{report}", self.line);
    }
}

fn probe(namespace: &Namespace) {
    for verb in ["add", "delete"] {
        namespace.stdout("nft", &[verb, "table", "inet", PROBE]);
        namespace.ip(&format!("addr {} {PROBE_ADDRESS} dev lo", if verb == "add" { "add" } else { "del" }));
    }
}

/// The change is kept; an error reports that its report can't be printed.
#[test]
fn unprintable_report_reverts_nothing() {
    let namespace = Namespace::new();
    let unprinted = |arguments: &[&str], state: &str| {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let arguments = [arguments, &["--output", "json"]].concat();
        let child = namespace.run(|| binary(&arguments).stdout(full).stderr(Stdio::piped()).spawn());
        let output = child.and_then(|child| child.wait_with_output()).expect("the binary runs");
        let printed = Outcome::from(output).with(1, state).stderr;
        assert!(printed.contains(&format!("can't be printed, but {state}")), "{printed}");
    };
    let check = call("diff", Variant::Nft, REDIRECT);
    unprinted(&call("apply", Variant::Nft, REDIRECT), "rules are in place");
    run(&namespace, &check).with(0, "after apply");
    unprinted(&["clean"], "no rules of this program remain");
    run(&namespace, &check).with(3, "after clean");
    // A rule with our routing protocol that the tool never sets.
    namespace.ip("rule add from 10.9.9.9 lookup 77 protocol 137");
    unprinted(&["clean"], "sidecar-init's rules are removed; rules that");
}
