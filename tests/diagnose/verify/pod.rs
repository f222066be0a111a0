//! A pod with a router beside it, and the rules of a scenario.

use crate::support::namespace::Namespace;
use crate::support::pod::joined;
use crate::support::program::{BINARY, Outcome};
use mesh::Setting;
use serde_json::Value;

pub(crate) type Scenario = &'static [(Setting, &'static str)];

pub(crate) const DEFAULT: Scenario = &[
    (Setting::DualStack, "true"),
    (Setting::ServiceCidr, "*"),
    (Setting::InboundPorts, "*"),
    (Setting::InboundPortsExclude, "15090,15021,15020"),
    (Setting::ProxyUid, "1337"),
    (Setting::PodIps, "10.77.0.2,fd77::2"),
];

pub(crate) const DNS: Scenario = &[
    (Setting::DualStack, "true"),
    (Setting::ServiceCidr, "*"),
    (Setting::ServiceExcludeCidr, "10.5.0.0/16,fd05::/32"),
    (Setting::OutboundPortsExclude, "3306"),
    (Setting::InboundPorts, "80,8080"),
    (Setting::RedirectDns, "true"),
    (Setting::DnsServers, "10.9.0.10,fd09::10"),
    (Setting::ProxyUid, "1337"),
    (Setting::PodIps, "10.77.0.2,fd77::2"),
];

pub(crate) const TPROXY: Scenario = &[
    (Setting::DualStack, "true"),
    (Setting::InterceptionMode, "TPROXY"),
    (Setting::ServiceCidr, "10.6.0.0/16,fd06::/32"),
    (Setting::InboundPorts, "*"),
    (Setting::InboundPortsExclude, "15090,15021,15020"),
    (Setting::ProxyUid, "1337"),
    (Setting::PodIps, "10.77.0.2,fd77::2"),
];

pub(crate) fn flags(scenario: Scenario) -> Vec<String> {
    scenario.iter().map(|(setting, value)| format!("--{}={value}", setting.row().long)).collect()
}

pub(crate) struct Pod {
    pub(crate) inside: Namespace,
    pub(crate) outside: Namespace,
    pub(crate) scenario: Scenario,
}

impl Pod {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let (inside, outside) = joined();
        Self { inside, outside, scenario }
    }

    pub(crate) fn with(scenario: Scenario, backend: &str) -> Self {
        let pod = Self::new(scenario);
        pod.apply(backend);
        pod
    }

    pub(crate) fn apply(&self, backend: &str) {
        self.run("apply", &["--backend", backend]).with(0, backend);
    }

    pub(crate) fn run(&self, command: &str, more: &[&str]) -> Outcome {
        let flags = flags(self.scenario);
        let flags = flags.iter().map(String::as_str);
        let call: Vec<&str> = [command].into_iter().chain(flags).chain(more.iter().copied()).collect();
        self.inside.output(BINARY, &call, "")
    }

    pub(crate) fn probe(&self, more: &[&str]) -> Found {
        Found::of(&self.run("verify", &[&["--output", "json"], more].concat()))
    }
}

pub(crate) struct Found {
    pub(crate) code: Option<i32>,
    pub(crate) calls: Vec<Value>,
    pub(crate) stderr: String,
}

impl Found {
    pub(crate) fn of(output: &Outcome) -> Self {
        let answer: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let calls = answer["calls"].as_array().expect("calls").clone();
        assert_eq!(answer["ok"] == true, output.succeeded(), "{answer:#}");
        Self { code: output.code, calls, stderr: output.stderr.clone() }
    }

    pub(crate) fn with_outcome(&self, outcome: &str) -> Vec<&Value> {
        self.calls.iter().filter(|call| call["outcome"] == outcome).collect()
    }

    pub(crate) fn wrong(&self) -> String {
        let line = |call: &&Value| {
            let (caller, seen) = (&call["caller"], &call["seen"]);
            let to = format!("{} {}", call["destination"], call["destination_port"]);
            format!("{} {caller} -> {to}: expected {}, seen {seen}\n", call["protocol"], call["expected"])
        };
        self.with_outcome("wrong").iter().map(line).collect()
    }

    #[track_caller]
    pub(crate) fn all_right(&self, what: &str) {
        assert_eq!((self.code, self.wrong()), (Some(0), String::new()), "{what}: {}", self.stderr);
        assert!(self.with_outcome("untried").is_empty(), "{what}: {:#?}", self.with_outcome("untried"));
    }
}
