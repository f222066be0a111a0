//! Settings of pods and agents. The rules and the routing that they make are held in `tests/configurations`.

use super::{Ambient, CaptureConfig, Reason, configure};
use crate::RuleReason;
use crate::mesh::Mesh;
use crate::policy::CapturePolicy;
use crate::settings::Setting;
use crate::sources::{NullHost, Raw, SettingReader};
use rules::Family;

fn config(flags: &[(Setting, &str)]) -> CaptureConfig {
    let flags = flags.iter().map(|(setting, value)| (*setting, (*value).to_owned()));
    let raw = Raw::new(flags, |_| true, |_| None);
    let mut reader = SettingReader::new(&raw, Vec::new());
    let config = configure(&mut reader, &NullHost, false);
    reader.finish().expect("good flags");
    config
}

#[test]
fn an_address_of_probes_counts_once() {
    let twice = [(Ambient::ProbeAddress, "10.0.0.1,10.0.0.1")];
    assert_eq!(config(&twice).probe_v4.to_string(), "10.0.0.1");
}

#[test]
fn without_dns_capture_no_flow_is_stale() {
    assert_eq!(config(&[(Ambient::DnsCapture, "0")]).stale_flows(), None);
    assert!(config(&[]).stale_flows().is_some_and(|flows| flows.destinations.is_none()));
}

#[test]
fn all_reasons_but_those_that_lead_on_have_a_sentence() {
    let leading_on = [Reason::Arriving, Reason::Leaving].map(RuleReason::from);
    for reason in Mesh::Ambient.reasons().rows().iter().map(RuleReason::of) {
        assert!(reason.name().starts_with("ambient-"), "{}", reason.name());
        let sentence = reason.sentence(None, "--flag");
        assert_eq!(sentence.is_none(), leading_on.contains(&reason), "{}", reason.name());
    }
}

#[test]
fn every_rule_says_why_it_is_there() {
    let flags = [(Ambient::RerouteInterfaces, "vm0")];
    let rules = config(&flags).rules(Family::V4);
    let names: Vec<&str> = Mesh::Ambient.reasons().rows().iter().map(|row| row.name).collect();
    let mut met: Vec<&str> = Vec::new();
    for statement in &rules.rules().statements {
        let origin = statement.origin.expect("a reason");
        assert!(names.contains(&origin.name), "{origin:?}");
        met.push(origin.name);
    }
    for name in names {
        assert!(met.contains(&name), "{name} makes no rule");
    }
}
