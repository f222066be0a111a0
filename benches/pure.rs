//! Benchmark of the work between the arguments and the first system call: configuration, policy, render, parse and plan, for a
//! pod without options, a typical init container and lists of thousands of entries; also lint before apply, with short lists.

use diagnose::lint;
use divan::{Bencher, black_box};
use mesh::Setting;
use mesh::istio::OWNERSHIP;
use mesh::sources::{NullHost, Raw};
use mesh::{Capture, Mesh, Resolved, resolve};
use rules::{Checked, Family, State, parse, plan, render::iptables};
use std::fmt;

fn main() {
    divan::main();
}

#[derive(Clone, Copy, Debug)]
enum Pod {
    Default,
    InitContainer,
    Networks,
    /// 5,000 excluded ports, no two of them adjacent.
    Ports,
}

const PODS: [Pod; 4] = [Pod::Default, Pod::InitContainer, Pod::Networks, Pod::Ports];

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::InitContainer => "init container",
            Self::Networks => "5,000 networks",
            Self::Ports => "5,000 ports",
        })
    }
}

fn list(item: impl Fn(u32) -> String) -> String {
    (0..5000).map(item).collect::<Vec<_>>().join(",")
}

fn raw(pod: Pod) -> Raw {
    let mut flags = vec![(Setting::PodIps, "10.0.0.1".to_owned())];
    let all = [(Setting::InboundPorts, "*".to_owned()), (Setting::ServiceCidr, "*".to_owned())];
    match pod {
        Pod::Default => {}
        Pod::InitContainer => {
            let usual = [
                (Setting::EnvoyPort, "15001"),
                (Setting::InboundCapturePort, "15006"),
                (Setting::ProxyUid, "1337"),
            ];
            flags.extend(usual.map(|(setting, value)| (setting, value.to_owned())));
            flags.extend(all);
            flags.push((Setting::InboundPortsExclude, "15090,15021,15020".to_owned()));
        }
        Pod::Networks => {
            flags.extend(all);
            flags.push((Setting::ServiceExcludeCidr, list(|n| format!("10.{}.{}.0/24", n >> 8, n & 255))));
        }
        Pod::Ports => {
            flags.extend(all);
            flags.push((Setting::OutboundPortsExclude, list(|n| (1 + 2 * n).to_string())));
        }
    }
    Raw::new(flags, |_| true, |_| None)
}

fn resolved(raw: &Raw) -> Resolved {
    resolve(raw, &NullHost, Vec::new()).expect("valid flags")
}

fn config(pod: Pod) -> Capture {
    resolved(&raw(pod)).capture
}

fn checked(pod: Pod) -> Checked {
    config(pod).rules(Family::V4)
}

fn state(pod: Pod) -> State {
    State::of(checked(pod).rules())
}

fn listing(state: &State) -> String {
    let mut text = String::new();
    for (table, chains) in &state.tables {
        text.push_str(&format!("*{table}\n"));
        chains.keys().for_each(|chain| text.push_str(&format!(":{chain} - [0:0]\n")));
        for (chain, state) in chains {
            state.iter().for_each(|line| text.push_str(&(iptables::appended(chain, line) + "\n")));
        }
        text.push_str("COMMIT\n");
    }
    text
}

#[divan::bench(args = PODS)]
fn configuration(bencher: Bencher<'_, '_>, pod: Pod) {
    let raw = raw(pod);
    bencher.bench(|| resolved(black_box(&raw)));
}

#[divan::bench(args = PODS)]
fn policy(bencher: Bencher<'_, '_>, pod: Pod) {
    let config = config(pod);
    bencher.bench(|| black_box(&config).rules(Family::V4));
}

#[divan::bench(args = PODS)]
fn render_preview(bencher: Bencher<'_, '_>, pod: Pod) {
    let checked = checked(pod);
    bencher.bench(|| iptables::restore(black_box(&checked)));
}

#[divan::bench(args = PODS)]
fn parse_listing(bencher: Bencher<'_, '_>, pod: Pod) {
    let text = listing(&state(pod));
    bencher.bench(|| parse::save(black_box(&text), Family::V4, &OWNERSHIP));
}

#[divan::bench(args = PODS)]
fn plan_when_in_place(bencher: Bencher<'_, '_>, pod: Pod) {
    let state = state(pod);
    bencher.bench(|| plan::plan(black_box(&state), black_box(&state), &OWNERSHIP, false));
}

#[divan::bench(args = PODS)]
fn plan_when_empty(bencher: Bencher<'_, '_>, pod: Pod) {
    let (live, desired) = (State::default(), state(pod));
    bencher.bench(|| plan::plan(black_box(&live), black_box(&desired), &OWNERSHIP, false));
}

#[divan::bench(args = PODS)]
fn plan_from_the_default(bencher: Bencher<'_, '_>, pod: Pod) {
    let (live, desired) = (state(Pod::Default), state(pod));
    bencher.bench(|| plan::plan(black_box(&live), black_box(&desired), &OWNERSHIP, false));
}

type Lists = (Mesh, &'static [(&'static str, fn() -> String)]);

fn few(item: fn(u32) -> String) -> String {
    (0..20).map(item).collect::<Vec<_>>().join(",")
}

fn few_ports() -> String {
    few(|n| (1000 + 7 * n).to_string())
}

fn few_networks() -> String {
    few(|n| format!("10.{n}.0.0/16"))
}

fn networks_in_one() -> String {
    few_networks() + ",10.0.0.0/8"
}

fn everything() -> String {
    "*".to_owned()
}

const LISTS: [(&str, Lists); 5] = [
    (
        "istio, ports",
        (
            Mesh::Istio,
            &[("istio-inbound-ports", everything), ("istio-local-outbound-ports-exclude", few_ports)],
        ),
    ),
    (
        "istio, networks within another",
        (Mesh::Istio, &[("istio-inbound-ports", everything), ("istio-service-cidr", networks_in_one)]),
    ),
    (
        "linkerd, ports",
        (Mesh::Linkerd, &[("inbound-ports-to-ignore", few_ports), ("outbound-ports-to-ignore", few_ports)]),
    ),
    (
        "linkerd, networks",
        (Mesh::Linkerd, &[("inbound-ports-to-ignore", few_ports), ("subnets-to-ignore", few_networks)]),
    ),
    ("kuma, ports", (Mesh::Kuma, &[("exclude-outbound-ports", few_ports)])),
];

#[divan::bench(args = LISTS.map(|(name, _)| name))]
fn lint_before_apply(bencher: Bencher<'_, '_>, name: &str) {
    let (_, (mesh, lists)) = LISTS.iter().find(|(known, _)| *known == name).expect("a list");
    let setting = |long: &str| mesh.settings().iter().find(|row| row.long == long).expect("a flag").setting;
    let lists = lists.iter().map(|(long, list)| (setting(long), list()));
    let usual = [(Setting::Mesh, mesh.to_string()), (Setting::PodIps, "10.0.0.1".to_owned())];
    let raw = Raw::new(usual.into_iter().chain(lists), |_| true, |_| None);
    let capture = resolved(&raw).capture;
    bencher.bench(|| lint::brief(black_box(&raw), black_box(&capture), &[]));
}
