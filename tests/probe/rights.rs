//! With few rights: what can be proven without them is, and what can't is said.

use crate::probe::pod::{BINARY, DEFAULT, Found, Pod, Scenario, TPROXY, flags};
use std::{env, fs, os::unix::fs::PermissionsExt, path::PathBuf, process, process::Output};

/// A copy of the binary where every user can reach it; it goes when it is dropped.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("sidecar-init-probe-{name}-{}", process::id()));
        fs::create_dir(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("its mode");
        crate::support::program::copy(BINARY, folder.join("sidecar-init"));
        Self(folder)
    }

    /// Runs it as this user, without any capability.
    fn run(&self, pod: &Pod, id: &str, words: &[&str]) -> Output {
        let (user, group) = (format!("--reuid={id}"), format!("--regid={id}"));
        let folder = self.0.to_str().expect("UTF-8");
        let user = [&user, &group, "--clear-groups", "--inh-caps=-all", "--no-new-privs"];
        let words = [&user, &["env", "-C", folder, "./sidecar-init"][..], words].concat();
        pod.inside.output("setpriv", &words, "")
    }

    fn probe(&self, pod: &Pod, id: &str, scenario: Scenario) -> Found {
        let flags = flags(scenario);
        let words = ["probe", "--format", "json"].into_iter().chain(flags.iter().map(String::as_str));
        Found::of(&self.run(pod, id, &words.collect::<Vec<_>>()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_application_proves_what_becomes_of_its_own_calls() {
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
    assert!(pod.inside.output(BINARY, &["clean"], "").status.success());
    assert_eq!(copy.probe(&pod, "1000", DEFAULT).code, Some(126));
}

#[test]
fn without_rights_over_the_network_only_what_is_handed_over_is_not_tried() {
    for scenario in [DEFAULT, TPROXY] {
        let pod = Pod::with(scenario, "nftables");
        let flags = flags(scenario);
        let words = [
            "--bounding-set=-net_admin,-net_raw",
            BINARY,
            "probe",
            "--format",
            "json",
            "--probe-timeout",
            "3s",
        ];
        let words: Vec<&str> = words.into_iter().chain(flags.iter().map(String::as_str)).collect();
        let found = Found::of(&pod.inside.output("setpriv", &words, ""));
        assert_eq!((found.code, found.wrong()), (Some(0), String::new()), "{}", found.stderr);
        for call in &found.calls {
            if call["expected"]["verdict"] == "tproxy" {
                let why = "a transparent listener is needed: needs CAP_NET_ADMIN or CAP_NET_RAW";
                assert_eq!(call["untried"], why, "{call:#}");
            } else {
                assert_eq!(call["outcome"], "right", "{call:#}");
            }
        }
    }
}

/// As Istio runs its container `istio-validation`: the proxy's user, no capability.
#[test]
fn a_validation_needs_no_right() {
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
    assert_eq!(failed.status.code(), Some(126), "{}", String::from_utf8_lossy(&failed.stderr));
    pod.apply("nftables");
    let proven = validate(&["--probe-timeout", "30s"]);
    assert_eq!(proven.status.code(), Some(0), "{}", String::from_utf8_lossy(&proven.stderr));
}
