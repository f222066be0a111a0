//! The counters of the plugin and of the installer, in the text format of Prometheus.
//!
//! The text format is version 0.0.4 of Prometheus' "Exposition formats"; names follow its "Metric and label naming":
//! base units, `_total` for what only grows.

use super::neighbours::{CAUSES, InstallWarning};
use crate::cni::counters::{BOUNDS, CallCounters, CniCounters, REPAIR};
use std::fmt::Write;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Installer {
    pub(super) is_installed: bool,
    /// The state in words.
    pub(super) state: String,
    pub(super) warnings: Vec<InstallWarning>,
    /// How often a program was put into the folder of plugins.
    pub(super) programs: u64,
    /// How often our entry was put into a network configuration.
    pub(super) entries: u64,
}

pub(super) fn text(counters: &CniCounters, installer: &Installer) -> String {
    let mut text = MetricsText(String::new());
    let calls = || counters.verbs.iter().filter(|(verb, _)| verb.as_str() != REPAIR);
    text.head("sidecar_cni_calls_total", "counter", "Calls of the plugin by verb and outcome.");
    for (verb, CallCounters { outcomes, .. }) in calls() {
        for (outcome, count) in outcomes {
            text.value("sidecar_cni_calls_total", &[("verb", verb), ("outcome", outcome)], count);
        }
    }
    let name = "sidecar_cni_call_duration_seconds";
    text.head(name, "histogram", "How long calls of the plugin took, by verb.");
    calls().for_each(|(verb, calls)| text.histogram(name, verb, calls));
    let name = "sidecar_cni_repairs_total";
    text.head(name, "counter", "Network namespaces repaired after the fact, by outcome.");
    for (outcome, count) in counters.verbs.get(REPAIR).iter().flat_map(|calls| &calls.outcomes) {
        text.value(name, &[("outcome", outcome)], count);
    }
    let name = "sidecar_cni_installations_total";
    text.head(name, "counter", "How often the installer has put something in place since it started.");
    text.value(name, &[("what", "program")], installer.programs);
    text.value(name, &[("what", "entry")], installer.entries);
    let name = "sidecar_cni_installed";
    text.head(name, "gauge", "Whether the plugin is in the network configuration that the runtime uses.");
    text.value(name, &[], u8::from(installer.is_installed));
    let name = "sidecar_cni_install_warnings";
    text.head(name, "gauge", "Warnings of the installer that last, by cause; /readyz has their text.");
    for cause in CAUSES {
        let count = installer.warnings.iter().filter(|warning| warning.cause == cause).count();
        text.value(name, &[("cause", cause)], count);
    }
    text.0
}

struct MetricsText(String);

impl MetricsText {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    /// Buckets are cumulative.
    fn histogram(&mut self, name: &str, verb: &str, calls: &CallCounters) {
        let bucket = format!("{name}_bucket");
        let counts = calls.buckets.iter().copied().chain(std::iter::repeat(0));
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(counts) {
            sum += count;
            let bound = (f64::from(*bound) / 1e3).to_string();
            self.value(&bucket, &[("verb", verb), ("le", &bound)], sum);
        }
        let all: u64 = calls.buckets.iter().sum();
        self.value(&bucket, &[("verb", verb), ("le", "+Inf")], all);
        self.value(&format!("{name}_sum"), &[("verb", verb)], calls.milliseconds / 1e3);
        self.value(&format!("{name}_count"), &[("verb", verb)], all);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a text takes everything");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_lines() {
        let counters: CniCounters = serde_json::from_str(concat!(
            r#"{"verbs":{"ADD":{"outcomes":{"captured":3,"o\"dd\\":1},"milliseconds":17.5,"buckets":[1,0,2,0,0,0,0,0,0,0,0,0,1]},"#,
            r#""repair":{"outcomes":{"repaired":2},"milliseconds":1.0,"buckets":[2]}}}"#
        ))
        .expect("counters");
        let text = text(&counters, &Installer { is_installed: true, entries: 4, ..Installer::default() });
        for line in [
            "# TYPE sidecar_cni_calls_total counter",
            "sidecar_cni_calls_total{verb=\"ADD\",outcome=\"captured\"} 3",
            "sidecar_cni_calls_total{verb=\"ADD\",outcome=\"o\\\"dd\\\\\"} 1",
            "# TYPE sidecar_cni_call_duration_seconds histogram",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"0.001\"} 1",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"0.005\"} 3",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"5\"} 3",
            "sidecar_cni_call_duration_seconds_bucket{verb=\"ADD\",le=\"+Inf\"} 4",
            "sidecar_cni_call_duration_seconds_sum{verb=\"ADD\"} 0.0175",
            "sidecar_cni_call_duration_seconds_count{verb=\"ADD\"} 4",
            "sidecar_cni_repairs_total{outcome=\"repaired\"} 2",
            "sidecar_cni_installations_total{what=\"entry\"} 4",
            "sidecar_cni_installed 1",
            "sidecar_cni_install_warnings{cause=\"removal\"} 0",
        ] {
            assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with('\n') && !text.contains("verb=\"repair\""));
    }
}
