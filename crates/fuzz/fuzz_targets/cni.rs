//! Fuzzes the CNI plugin's standard input: the outcome is a JSON error, or a JSON result and settings that are refused or give
//! rules that fit the kernel's table.
#![no_main]

#[path = "../../../src/cni/decision.rs"]
#[expect(dead_code, reason = "nothing logs here")]
mod decision;
#[path = "../../../src/cni/protocol/mod.rs"]
#[expect(dead_code, unused_imports, reason = "variables and help are not read here")]
mod protocol;

use decision::{CaptureDecision, ResolvedCapture, decide, resolve};
use libfuzzer_sys::fuzz_target;
use protocol::{CniError, CniVersion, PartialConfiguration, RuntimePod};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

fn refused(fault: &CniError) {
    let printed = fault.json(CniVersion::LATEST);
    let printed: Value = serde_json::from_str(&printed).expect("an error is JSON");
    assert!(printed["code"].as_u64().is_some_and(|code| code > 0) && printed["msg"].is_string());
}

fuzz_target!(|input: &[u8]| {
    let partial = match PartialConfiguration::of(input) {
        Ok(partial) => partial,
        Err(fault) => return refused(&fault),
    };
    for fault in [partial.version.err(), partial.network.err()].into_iter().flatten() {
        refused(&fault);
    }
    let configuration = match partial.whole {
        Ok(configuration) => configuration,
        Err(fault) => return refused(&fault),
    };
    let result = protocol::result(configuration.previous_result, configuration.version);
    serde_json::from_str::<&serde_json::value::RawValue>(&result).expect("a result is JSON");
    let pod = RuntimePod { name: Some("web".to_owned()), namespace: Some("shop".to_owned()) };
    // The API server's pod has no annotations.
    let requested = |_: &Path, namespace: &str, name: &str| {
        Ok(mesh::pod::Pod::annotated(name, namespace, BTreeMap::new()))
    };
    if let Ok(CaptureDecision::Capture(raw, problems)) = decide(&configuration, &pod, requested) {
        let addresses = [IpAddr::from(Ipv4Addr::new(10, 1, 2, 3)), "fd00::3".parse().expect("an address")];
        match resolve(raw, problems, &addresses) {
            Ok(ResolvedCapture { capture, raw, .. }) => {
                let _ = capture.desired().nft_table();
                // Stored settings give the same capture.
                let again = resolve(raw, Vec::new(), &[]).unwrap_or_else(|fault| panic!("{fault:?}"));
                assert_eq!(again.capture, capture);
            }
            Err(fault) => refused(&fault),
        }
    }
});
