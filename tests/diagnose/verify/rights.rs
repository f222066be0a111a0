//! With few privileges, checks that need no more succeed; other checks are reported.

use crate::diagnose::verify::pod::{DEFAULT, Found, Pod, Scenario, TPROXY, flags};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, Outcome, folder_with};

struct Copy(Folder);

impl Copy {
    fn new(name: &str) -> Self {
        Self(folder_with(BINARY, name))
    }

    fn run(&self, pod: &Pod, id: &str, words: &[&str]) -> Outcome {
        let (user, group) = (format!("--reuid={id}"), format!("--regid={id}"));
        let folder = self.0.to_str().expect("UTF-8");
        let user = [&user, &group, "--clear-groups", "--inh-caps=-all", "--no-new-privs"];
        let words = [&user, &["env", "-C", folder, "./sidecar-init"][..], words].concat();
        pod.inside.output("setpriv", &words, "")
    }

    fn probe(&self, pod: &Pod, id: &str, scenario: Scenario) -> Found {
        let flags = flags(scenario);
        let words = ["verify", "--output", "json"].into_iter().chain(flags.iter().map(String::as_str));
        Found::of(&self.run(pod, id, &words.collect::<Vec<_>>()))
    }
}

#[test]
fn application_verifies_its_own_calls() {
    let (copy, pod) = (Copy::new("application"), Pod::with(DEFAULT, "nftables"));
    let found = copy.probe(&pod, "1000", DEFAULT);
    assert_eq!((found.code, found.wrong()), (Some(0), String::new()), "{}", found.stderr);
    for call in &found.calls {
        if call["caller"] == "application" {
            assert_eq!(call["outcome"], "right", "{call:#}");
        } else {
            let why = call["untried"].as_str().unwrap_or_default();
            assert!(why.starts_with("needs CAP_SETUID and CAP_SETGID"), "{call:#}");
        }
    }
    pod.inside.stdout(BINARY, &["clean"]);
    assert_eq!(copy.probe(&pod, "1000", DEFAULT).code, Some(3));
}

#[test]
fn only_transparent_calls_need_network_capabilities() {
    for scenario in [DEFAULT, TPROXY] {
        let pod = Pod::with(scenario, "nftables");
        let flags = flags(scenario);
        let words = [
            "--bounding-set=-net_admin,-net_raw",
            BINARY,
            "verify",
            "--output",
            "json",
            "--probe-timeout",
            "3s",
        ];
        let words: Vec<&str> = words.into_iter().chain(flags.iter().map(String::as_str)).collect();
        let found = Found::of(&pod.inside.output("setpriv", &words, ""));
        assert_eq!((found.code, found.wrong()), (Some(0), String::new()), "{}", found.stderr);
        for call in &found.calls {
            if call["expected"]["transparent"] == true {
                let why = "a transparent listener requires CAP_NET_ADMIN or CAP_NET_RAW";
                assert_eq!(call["untried"], why, "{call:#}");
            } else {
                assert_eq!(call["outcome"], "right", "{call:#}");
            }
        }
    }
}

/// Like Istio's container `istio-validation`: the proxy's user, no capability.
#[test]
fn validation_needs_no_capability() {
    for scenario in [DEFAULT, TPROXY] {
        validate(scenario);
    }
}

fn validate(scenario: Scenario) {
    let (copy, pod) = (Copy::new("validation"), Pod::new(scenario));
    let validate = |more: &[&str]| {
        let flags = flags(scenario);
        let words = ["istio-iptables", "--skip-rule-apply", "--run-validation"];
        let words = words.into_iter().chain(flags.iter().map(String::as_str)).chain(more.iter().copied());
        copy.run(&pod, "1337", &words.collect::<Vec<_>>())
    };
    let failed = validate(&["--probe-timeout", "300ms"]);
    failed.with(126, "without rules");
    pod.apply("nftables");
    let proven = validate(&["--probe-timeout", "30s"]);
    proven.with(0, "with rules");
}
