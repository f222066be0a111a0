//! Settings of pods and agents. The rules and the routing that they make are held in `tests/configurations`.

use super::{Ambient, CaptureConfig, configure};
use crate::policy::CapturePolicy;
use crate::settings::Setting;
use crate::sources::{NullHost, Raw, SettingReader};

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
