//! What settings are called where they were said: whoever wrote an annotation is not told about a flag.
//!
//! Sentences of the policy speak of flags (`-i '*'`, `--proxy-uid`). Here the flags in them become the names by which
//! their author speaks.

use super::raw::{Given, Raw, Source};
use crate::settings::{self, Setting, Topic, mapping};
use std::collections::BTreeMap;

/// The names of settings that have another than their flag's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialect(BTreeMap<Setting, String>);

impl Dialect {
    /// The names by which the author of these words speaks. One who speaks by annotations is told of annotations, even
    /// where there is none yet.
    pub fn of(raw: &Raw) -> Self {
        let by_annotations = raw.iter().any(|(_, given)| matches!(given.source, Source::Preset(_)));
        let is_said = |row: &&settings::Row| row.topic == Topic::Capture && row.setting.is_for(raw.mesh());
        let capture = settings::all().filter(is_said);
        let names = capture.filter_map(|row| {
            let name = match raw.get(row.setting) {
                Some(Given { source: Source::Preset(name), .. }) => Some(name.clone()),
                // These are flags.
                Some(Given { source: Source::Container { word, .. }, .. }) if word.starts_with("--") => None,
                Some(Given { source, .. }) if source.is_of_pod() => Some(source.to_string()),
                Some(Given { source: source @ Source::Key(_), .. }) => Some(source.to_string()),
                Some(_) => None,
                None if by_annotations => annotation(row.setting),
                None => None,
            };
            Some((row.setting, name?))
        });
        Self(names.collect())
    }

    /// What a setting is called; `None` if it is its flag's name.
    pub fn name(&self, setting: Setting) -> Option<&str> {
        self.0.get(&setting).map(String::as_str)
    }

    /// The same of an option that a rule carries, which is its setting's [`crate::settings::Row::name`].
    pub fn of_option(&self, option: &str) -> Option<&str> {
        let is_it = |row: &&settings::Row| row.name() == option && row.topic == Topic::Capture;
        settings::all().filter(is_it).find_map(|row| self.name(row.setting))
    }

    /// A sentence about flags, in these words. What stands between backquotes is a rule's text, and stays.
    pub fn translate(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let parts = text.split('`').enumerate();
        let translated = parts.map(|(at, part)| if at % 2 == 0 { self.plain(part) } else { part.to_owned() });
        translated.collect::<Vec<_>>().join("`")
    }

    fn plain(&self, text: &str) -> String {
        let mut translated = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('-') {
            let (before, from) = rest.split_at(at);
            translated.push_str(before);
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let word = &from[..from.find(|c| !is_part(c)).unwrap_or(from.len())];
            let starts = !before.ends_with(|c: char| c.is_alphanumeric() || "/.:_".contains(c));
            let name = if starts { self.of_word(word) } else { None };
            translated.push_str(name.unwrap_or(word));
            rest = &from[word.len()..];
        }
        translated.push_str(rest);
        translated
    }

    /// The name of the setting whose flag a word is.
    fn of_word(&self, word: &str) -> Option<&str> {
        let is_flag = |setting: Setting| {
            let row = setting.row();
            let mut short = word.strip_prefix('-').unwrap_or_default().chars();
            (!row.long.is_empty() && word.strip_prefix("--") == Some(row.long))
                || (row.short.is_some() && short.next() == row.short && short.next().is_none())
        };
        self.0.iter().find(|(setting, _)| is_flag(**setting)).map(|(_, name)| name.as_str())
    }
}

/// The annotation by which a pod says a setting: the mesh's, or else our own.
fn annotation(setting: Setting) -> Option<String> {
    let of_istio = mapping::Row::of(setting).map(|row| row.annotations[0]);
    let of_mesh = of_istio.or(setting.row().annotations.first().copied());
    of_mesh.map(str::to_owned).or_else(|| setting.row().annotation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_the_names_that_their_author_knows() {
        let given = |source| Given { value: "*".to_owned(), source };
        let raw = Raw::of([
            (Setting::ServiceCidr, given(Source::Preset("include".to_owned()))),
            (Setting::InboundPorts, given(Source::Annotation("ports".to_owned()))),
            (Setting::ProxyUid, given(Source::Flag("proxy-uid"))),
        ]);
        let check = |text: &str, expected: &str| assert_eq!(Dialect::of(&raw).translate(text), expected);
        check("-i '*' redirects all; give --istio-inbound-ports", "include '*' redirects all; give ports");
        check("user 1 is the proxy's (--proxy-uid)", "user 1 is the proxy's (--proxy-uid)");
        check(
            "drop `-i lo` or -i, re-i, a--istio-service-cidr",
            "drop `-i lo` or include, re-i, a--istio-service-cidr",
        );
        check("give --drop-invalid", "give sidecar-init/drop-invalid");
        check("-x, if any -", "traffic.sidecar.istio.io/excludeOutboundIPRanges, if any -");
        let flags = Raw::of([(Setting::ServiceCidr, given(Source::Flag("istio-service-cidr")))]);
        assert_eq!(Dialect::of(&flags).translate("-i and --drop-invalid"), "-i and --drop-invalid");
    }
}
