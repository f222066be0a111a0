//! After a call, `diff` with the same flags finds no difference and a second call changes nothing, for the catalogue's scenarios,
//! both iptables variants and native nf_tables; `clean` then leaves no rules, so Kuma's `uninstall` finds none.

use crate::support::catalogue;
use crate::support::namespace;
use crate::support::program::{BINARY, Outcome};
use crate::support::rows::rows;
use crate::support::scope;

use catalogue::{Case, scenarios};
use namespace::Namespace;
use std::process::Command;

struct Call<'a> {
    pod: Namespace,
    case: &'a Case,
    variant: &'a str,
}

impl Call<'_> {
    fn run(&self, command: &str, flags: &[String]) -> Outcome {
        let mut call = Command::new(BINARY);
        call.arg(command).args(flags).envs(self.case.variables());
        self.pod.outcome(&mut call)
    }

    fn with_capture(&self, command: &str) -> Outcome {
        self.with(command, self.case.flags())
    }

    fn with(&self, command: &str, mut flags: Vec<String>) -> Outcome {
        flags.extend(self.case.mesh().map(|mesh| format!("--mesh={mesh}")));
        flags.extend(match self.variant {
            "native" => vec!["--native-nftables".to_owned()],
            variant => vec!["--force-iptables-binary".to_owned(), variant.to_owned()],
        });
        self.run(command, &flags)
    }

    /// A scenario may have no flags; `diff` would then compare with the stored settings.
    fn check(&self) -> Outcome {
        let mut flags = self.case.flags();
        let says_nothing = flags.first().is_some_and(|flag| flag == "--pod-ips");
        if self.case.mesh().is_none() && says_nothing {
            flags.push("--envoy-port=15001".to_owned());
        }
        self.with("diff", flags)
    }
}

fn check(name: &str, output: Outcome, says: &str) {
    let printed = output.with(0, name).stderr;
    assert!(printed.contains(says), "{name}: {printed}");
}

/// Each mesh's scenario with the most kinds of rules, and a sample of the others.
fn tried() -> Vec<Case> {
    let most = ["ambient-everything", "dns-tproxy", "dual-stack", "kuma-everything", "linkerd-everything"];
    let (mut tried, others): (Vec<Case>, Vec<Case>) =
        scenarios(|_| true).into_iter().partition(|case| most.contains(&case.name()));
    assert_eq!(tried.len(), most.len(), "a scenario has another name");
    tried.extend(scope::of(others, 8));
    tried
}

fn settles(variant: &str) {
    for case in tried() {
        let name = format!("{} ({variant})", case.name());
        let call = Call { pod: Namespace::new(), case: &case, variant };
        let sets = if case.mesh().is_some() { "apply" } else { "istio-iptables" };
        check(&name, call.with_capture(sets), "rules are in place");
        check(&name, call.check(), "");
        check(&name, call.with_capture(sets), "changed=false");
        check(&name, call.with_capture("apply"), "changed=false");
        let mut cleaned = "no rules of this program ";
        if case.mesh() == Some("kuma") {
            call.run("kuma-init", &["uninstall", "transparent-proxy"].map(str::to_owned)).with(0, &name);
            cleaned = "no rules of this program were found";
        }
        check(&name, call.run("clean", &[]), cleaned);
        if variant == "native" {
            assert_eq!(call.pod.stdout("nft", &["list", "ruleset"]), "", "{name}");
            continue;
        }
        for program in ["iptables", "ip6tables"] {
            let save = call.pod.stdout(&format!("{program}-{variant}-save"), &[]);
            let ours = ["ISTIO_", "PROXY_INIT_", "KUMA", "kuma", "sidecar-init"];
            assert!(!ours.iter().any(|mark| save.contains(mark)), "{name}: {save}");
        }
    }
}

rows! {
    scenarios_settle_with_nft: settles("nft");
    scenarios_settle_with_legacy: settles("legacy");
    scenarios_settle_natively: settles("native");
}
