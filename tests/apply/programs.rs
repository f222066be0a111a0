//! Programs that hang, print endlessly, report false results, or still run when the tool is killed.

use crate::support::program::{PATH, binary, is_running};
use crate::support::wait;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, same, state};
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::{Family, Variant};

/// A folder with a script in place of a variant's programs for `verb`.
pub(crate) fn programs(name: &str, variant: Variant, verb: &str, script: &str) -> Folder {
    let folder = Folder::new(&format!("{name}-{}{verb}", variant.name()));
    for family in Family::BOTH {
        let program = folder.join(variant.program(family, verb));
        crate::support::program::script(&program, format!("#!/bin/sh\n{script}\n"));
    }
    folder
}

pub(crate) fn among(mut command: Command, folder: &Path) -> Command {
    command.env("PATH", format!("{}:{PATH}", folder.display()));
    command
}

pub(crate) fn sleep(number: u32) -> String {
    format!("/bin/sleep 9{}{number}", process::id())
}

/// Like a wrapper, the script waits for a child, which has to be killed too.
#[test]
fn hanging_program_is_killed_with_its_children() {
    for (number, (variant, verb)) in
        (0..).zip(VARIANTS.into_iter().flat_map(|variant| ["-save", "-restore"].map(|verb| (variant, verb))))
    {
        let namespace = Namespace::new();
        let sleep = sleep(number);
        let folder = programs("hangs", variant, verb, &sleep);
        // A listing needs rules.
        let prepared = verb == "-save";
        if prepared {
            succeed(&namespace, &call("apply", variant, REDIRECT));
        }
        let before = state(&namespace);
        let arguments = call("apply", variant, &[REDIRECT, &["--timeout", "1s"]].concat());
        let begun = Instant::now();
        let printed = namespace.outcome(&mut among(binary(&arguments), &folder)).with(1, "it hangs").stderr;
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        for word in [variant.program(Family::V4, verb).as_str(), "within 1s", "raise --timeout"] {
            assert!(printed.contains(word), "{word}: {printed}");
        }
        assert!(!is_running(&sleep), "{sleep} still runs");
        same(&before, &state(&namespace), "nothing has changed");
        // The lock is released.
        succeed(&namespace, &call("apply", variant, &[REDIRECT, &["--lock-wait", "0"]].concat()));
        if prepared && variant == Variant::Nft {
            let clean = ["clean", "--timeout", "1s"];
            namespace.outcome(&mut among(binary(&clean), &folder)).with(0, "no program is needed");
            assert!(!state(&namespace).contains("ISTIO_"));
        }
    }
}

#[test]
fn every_drop_in_has_the_limit() {
    let folder = programs("drop-ins", Variant::Nft, "-restore", &sleep(300));
    for words in [
        &["istio-iptables", "-b", "*", "-i", "*", "--pod-ips", "10.77.0.2", "--force-iptables-binary", "nft"]
            [..],
        &["linkerd-init", "-p", "4143", "-o", "4140", "--proxy-uid", "2102", "--iptables-mode", "nft"],
        &["kuma-init", "install", "transparent-proxy", "--kuma-dp-uid", "5678", "--backend", "iptables-nft"],
    ] {
        let namespace = Namespace::new();
        let arguments = [words, &["--timeout", "500ms"]].concat();
        let printed = namespace.outcome(&mut among(binary(&arguments), &folder)).with(1, words[0]).stderr;
        assert!(printed.contains("did not finish within 500ms"), "{printed}");
    }
}

#[test]
fn output_without_end_is_cut_off() {
    for variant in VARIANTS {
        for stream in ["1", "2"] {
            let namespace = Namespace::new();
            let folder =
                programs("floods", variant, "-restore", &format!("exec /bin/cat /dev/zero >&{stream}"));
            let ours = among(binary(&call("apply", variant, REDIRECT)), &folder);
            // Less memory than the output.
            let mut limited = among(Command::new("/bin/sh"), &folder);
            limited.args(["-c", "ulimit -v 400000; exec \"$0\" \"$@\""]).arg(ours.get_program());
            limited.args(ours.get_args());
            let printed = namespace.outcome(&mut limited).with(1, "output without end").stderr;
            let named = if stream == "1" { "16 MiB to standard output" } else { "16 MiB to standard error" };
            assert!(printed.contains(named) && printed.contains("rolled back"), "{printed}");
        }
    }
}

#[test]
fn no_program_outlives_a_run_that_was_killed() {
    for (number, (variant, signal)) in (100..)
        .zip(VARIANTS.into_iter().flat_map(|variant| ["KILL", "TERM", "INT"].map(|signal| (variant, signal))))
    {
        let namespace = Namespace::new();
        let sleep = sleep(number);
        let folder = programs("outlives", variant, "-restore", &sleep);
        let mut command = among(binary(&call("apply", variant, REDIRECT)), &folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = namespace.run(|| command.spawn()).expect("the binary starts");
        wait::until(&sleep, || is_running(&sleep));
        let mut kill = Command::new("kill");
        kill.env("PATH", PATH).args(["-s", signal, &child.id().to_string()]);
        assert!(kill.status().expect("kill starts").success());
        assert_eq!(child.wait().expect("our child").code(), None, "{signal} ends it");
        // The lock is held until the last program has ended, which takes a moment.
        let next = call("apply", variant, &[REDIRECT, &["--lock-wait", "5"]].concat());
        succeed(&namespace, &next);
        assert!(!is_running(&sleep), "{signal}: {sleep} still runs");
        succeed(&namespace, &call("diff", variant, REDIRECT));
    }
}

#[test]
fn program_without_effect_is_detected() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let folder = programs("does-nothing", variant, "-restore", "exec /bin/cat >/dev/null");
        let before = state(&namespace);
        for flags in [REDIRECT, FULL] {
            let printed = namespace.outcome(&mut among(binary(&call("apply", variant, flags)), &folder));
            let printed = printed.with(1, "nothing was set").stderr;
            let program = variant.program(Family::V4, "-restore");
            for word in [program.as_str(), "reported success", "rolled back", "--backend"] {
                assert!(printed.contains(word), "{word}: {printed}");
            }
            same(&before, &state(&namespace), "nothing has changed");
        }
        succeed(&namespace, &call("apply", variant, REDIRECT));
        let cleaned = namespace.outcome(&mut among(binary(&["clean"]), &folder));
        if variant == Variant::Legacy {
            // Legacy rules cannot be removed without programs.
            let printed = cleaned.with(1, "nothing was removed").stderr;
            assert!(printed.contains("reported success"), "{printed}");
        } else {
            cleaned.with(0, "no program is needed");
            same(&before, &state(&namespace), "no rules of this program remain");
        }
    }
}

#[test]
fn program_with_partial_effect_is_detected() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let script = r#"/bin/sed '/-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN/d' | /usr/sbin/"${0##*/}" "$@""#;
        let folder = programs("does-a-part", variant, "-restore", script);
        let before = state(&namespace);
        let printed = namespace.outcome(&mut among(binary(&call("apply", variant, FULL)), &folder));
        let printed = printed.with(1, "a rule is missing").stderr;
        assert!(printed.contains("for table nat") && printed.contains("rolled back"), "{printed}");
        same(&before, &state(&namespace), "it was taken back");
        succeed(&namespace, &call("apply", variant, FULL));
        succeed(&namespace, &call("diff", variant, FULL));
    }
}

/// Unlisted rules are detected through the kernel.
#[test]
fn program_that_lists_no_rules_is_detected() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        let before = state(&namespace);
        let folder = programs("lists-nothing", variant, "-save", "exit 0");
        succeed(&namespace, &call("apply", variant, REDIRECT));
        let printed = namespace.outcome(&mut among(binary(&call("diff", variant, REDIRECT)), &folder));
        let printed = printed.with(1, "the rules can't be compared").stderr;
        assert!(printed.contains("does not list the kernel's rules"), "{printed}");
        let cleaned = namespace.outcome(&mut among(binary(&["clean"]), &folder));
        if variant == Variant::Nft {
            cleaned.with(0, "no program is needed");
            same(&before, &state(&namespace), "no rules of this program remain");
        } else {
            let printed = cleaned.with(1, "the rules remain").stderr;
            assert!(printed.contains("does not list the kernel's rules"), "{printed}");
        }
        run(&namespace, &["clean"]).with(0, "with real programs");
        same(&before, &state(&namespace), "no rules of this program remain");
    }
}
