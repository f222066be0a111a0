//! Settings that are refused, or accepted with a warning.

use super::{Machine, cautions, check, resolved};
use mesh::kuma::Kuma;
use mesh::settings::{self, Setting, SettingKind, SettingRow, Topic};
use mesh::sources::{Given, Raw, Source};
use mesh::{Feature, Mesh, Resolved, resolve};

#[test]
fn refusals_are_as_written() {
    check("refusals", |call| match resolved(call) {
        Ok(_) => panic!("{call} is taken"),
        Err(problems) => format!("{problems}\n"),
    });
}

#[test]
fn unusual_values_are_accepted_with_warnings_as_written() {
    check("warnings", |call| {
        let (raw, Resolved { capture, warnings }) =
            resolved(call).unwrap_or_else(|problems| panic!("{call}: {problems}"));
        let cautions = cautions(&raw, &capture, false, false)
            .into_iter()
            .map(|caution| format!("caution: {:?}: {}; {}", caution.setting, caution.text, caution.remedy));
        warnings.into_iter().chain(cautions).map(|line| line + "\n").collect()
    });
}

#[test]
fn at_most_64_groups_can_be_included() {
    let included = |count: u32| {
        let groups = (1..=count).map(|group| group.to_string()).collect::<Vec<_>>().join(",");
        let given = Given { value: groups, source: Source::Variable("ISTIO_OUTBOUND_OWNER_GROUPS") };
        let raw = Raw::of([(Setting::OwnerGroups, given)]);
        resolve(&raw, &Machine, Vec::new()).map(|_| ()).map_err(|problems| problems.0[0].to_string())
    };
    assert_eq!(included(64), Ok(()));
    let text = "ISTIO_OUTBOUND_OWNER_GROUPS: names 65 groups; at most 64 can be included";
    assert_eq!(included(65), Err(text.to_owned()));
}

#[test]
fn lists_that_are_too_long_are_refused_by_name() {
    let is_list = |row: &&SettingRow| {
        matches!(row.topic, Topic::Capture | Topic::Facts)
            && matches!(row.kind, SettingKind::Value(form) if form.ends_with(".."))
            && row.example.is_some_and(|example| !example.is_empty())
    };
    for mesh in Mesh::ALL {
        // Without DNS capture, servers are not read.
        let dns = if *mesh == Mesh::Kuma { Kuma::RedirectDns } else { Setting::RedirectDns };
        for row in settings::of(*mesh).filter(is_list) {
            let separator = if row.features.contains(&Feature::PortsByUser) { ";" } else { "," };
            let value = [row.example.unwrap_or_default()].repeat(100_001).join(separator);
            let count = value.split(separator).count();
            let given = [(Setting::Mesh, mesh.name()), (row.setting, &value), (dns, "true")];
            let Err(problems) = resolve(&Raw::of_flags(given), &Machine, Vec::new()) else {
                assert_eq!(row.topic, Topic::Facts, "{mesh} takes {}", row.name());
                continue;
            };
            let expected = format!("--{}: has {count} items; expected at most 100", row.long);
            assert!(problems.to_string().contains(&expected), "{mesh} {}: {problems}", row.name());
        }
    }
}

#[test]
fn interfaces_of_machines_and_networks_are_limited_together() {
    let joined =
        |form: &dyn Fn(u32) -> String, count: u32| (0..count).map(form).collect::<Vec<_>>().join(",");
    let refused = |interfaces: u32, networks: u32| {
        let vms = joined(&|number| format!("vm{number}"), interfaces);
        let cidrs = joined(&|number| format!("10.{}.{}.0/24", number / 256, number % 256), networks);
        let given = [(Setting::VmInterfaces, vms), (Setting::ServiceCidr, cidrs)].map(|(setting, value)| {
            (setting, Given { value, source: Source::Annotation(setting.row().name().to_owned()) })
        });
        resolve(&Raw::of(given), &Machine, Vec::new()).err().map(|problems| problems.0[0].to_string())
    };
    assert_eq!(refused(1000, 100), None);
    let text = refused(1000, 101).expect("too many");
    assert!(text.starts_with("kube-virt-interfaces: its 1000 interfaces and the 101 networks of "), "{text}");
}
