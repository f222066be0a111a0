//! Names settings as their source does: an annotation's author sees the annotation's name, not a flag. Messages contain
//! placeholders (`{-i} '*'`, `{--proxy-uid}`), which are replaced here.

use super::raw::{Given, Raw, Source};
use crate::settings::{self, Setting, Topic};
use rules::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Only names that differ from flags.
    names: BTreeMap<Setting, String>,
    defaults: BTreeSet<Setting>,
}

impl Dialect {
    /// If settings come from annotations, advice names annotations, even absent ones.
    pub fn of(raw: &Raw) -> Self {
        let by_annotations = raw.iter().any(|(_, given)| matches!(given.source, Source::Preset(_)));
        let is_given =
            |row: &&settings::SettingRow| row.topic == Topic::Capture && row.setting.is_for(raw.mesh());
        let capture = settings::all().filter(is_given);
        let defaults = capture.clone().filter(|row| raw.get(row.setting).is_none()).map(|row| row.setting);
        let defaults = defaults.collect();
        let names = capture.filter_map(|row| {
            let name = match raw.get(row.setting) {
                Some(Given { source: Source::Preset(name), .. }) => Some(name.clone()),
                Some(Given { source, .. }) => {
                    (!source.is_flag() && !matches!(source, Source::Variable(_))).then(|| source.to_string())
                }
                None if by_annotations => {
                    row.annotations.first().map(|name| (*name).to_owned()).or_else(|| row.annotation())
                }
                None => None,
            };
            Some((row.setting, name?))
        });
        Self { names: names.collect(), defaults }
    }

    pub fn name(&self, setting: Setting) -> Option<&str> {
        self.names.get(&setting).map(String::as_str)
    }

    pub fn is_given(&self, setting: Setting) -> bool {
        !self.defaults.contains(&setting)
    }

    /// Replaces placeholders, flags in braces such as `give {--drop-invalid}`, with the settings' names.
    pub fn render(&self, text: &str) -> String {
        let mut rendered = String::new();
        let mut rest = text;
        while let Some((before, (flag, after))) =
            rest.split_once("{-").and_then(|(before, from)| Some((before, from.split_once('}')?)))
        {
            let flag = format!("-{flag}");
            rendered.push_str(before);
            rendered.push_str(self.of_flag(&flag).unwrap_or(&flag));
            rest = after;
        }
        rendered + rest
    }

    pub fn name_in(&self, finding: Finding) -> Finding {
        let Finding { subject, text, remedy, .. } = &finding;
        let [subject, text, remedy] = [subject, text, remedy].map(|text| self.render(text));
        Finding { subject, text, remedy, ..finding }
    }

    fn of_flag(&self, word: &str) -> Option<&str> {
        let name = self.names.iter().find(|(setting, _)| setting.row().is_written(word));
        name.map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_names_of_the_source() {
        let given = |source| Given { value: "*".to_owned(), source };
        let raw = Raw::of([
            (Setting::ServiceCidr, given(Source::Preset("include".to_owned()))),
            (Setting::InboundPorts, given(Source::Annotation("ports".to_owned()))),
            (Setting::ProxyUid, given(Source::Flag("proxy-uid"))),
        ]);
        let check = |text: &str, expected: &str| assert_eq!(Dialect::of(&raw).render(text), expected);
        check(
            "{-i} '*' redirects all; give {--istio-inbound-ports}",
            "include '*' redirects all; give ports",
        );
        check("user 1 is the proxy's ({--proxy-uid})", "user 1 is the proxy's (--proxy-uid)");
        check("drop `-i lo` or {-i}, not -i", "drop `-i lo` or include, not -i");
        check("give {--drop-invalid}", "give sidecar-init/drop-invalid");
        check("{-x}, if any {-", "traffic.sidecar.istio.io/excludeOutboundIPRanges, if any {-");
        let flags = Raw::of([(Setting::ServiceCidr, given(Source::Flag("istio-service-cidr")))]);
        assert_eq!(Dialect::of(&flags).render("{-i} and {--drop-invalid}"), "-i and --drop-invalid");
        assert!(Dialect::of(&flags).is_given(Setting::ServiceCidr));
        assert!(!Dialect::of(&flags).is_given(Setting::InboundPorts));
        for row in settings::all().filter(|row| row.topic == Topic::Capture && !row.long.is_empty()) {
            assert_eq!(Dialect::default().render(&row.mention()), row.option());
        }
    }

    #[test]
    fn settings_are_named_by_their_source() {
        let given = |source| Given { value: "1".to_owned(), source };
        let word = |word: &str| Source::Container { name: "istio-init".to_owned(), word: word.to_owned() };
        let raw = Raw::of([
            (Setting::ServiceCidr, given(Source::Annotation("include".to_owned()))),
            (Setting::ProxyUid, given(word("runAsUser"))),
            (Setting::ProxyGid, given(word("--proxy-gid"))),
            (Setting::DropInvalid, given(Source::Key("capture.drop-invalid".to_owned()))),
            (Setting::EnvoyPort, given(Source::Flag("envoy-port"))),
        ]);
        let dialect = Dialect::of(&raw);
        for (setting, name) in [
            (Setting::ServiceCidr, Some("include")),
            (Setting::ProxyUid, Some("container istio-init: runAsUser")),
            (Setting::ProxyGid, None),
            (Setting::DropInvalid, Some("capture.drop-invalid")),
            (Setting::EnvoyPort, None),
            (Setting::InboundPorts, None),
        ] {
            assert_eq!(dialect.name(setting), name, "{setting:?}");
        }
    }
}
