//! Inserts or removes our entry in network configurations, as text, and keeps every other byte. A configuration is usable if
//! `libcni` accepts it (`ConfListFromBytes`, `ConfFromBytes`) and the plugin accepts the name and version.

use crate::cni::PLUGIN;
use crate::cni::protocol::{CniVersion, PluginFields, is_id};
use serde_json::{Value, value::RawValue};
use std::{ops::Range, path::Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    List,
    Single,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error("{0}")]
    Unread(String),
    #[error("is empty")]
    Empty,
    #[error("is not complete JSON: {0}")]
    Json(String),
    /// `libcni` accepts duplicates and takes the last.
    #[error("has the key {0:?} twice")]
    Twice(String),
    /// Go reads invalid bytes as U+FFFD, which would then be written back.
    #[error("is not UTF-8")]
    Encoding,
    /// Since version 1.3, `libcni` adds plugins from the folder with the network's name (`NetworkPluginConfsFromFiles`). Older
    /// versions would not call an entry there, nor would CRI-O for DEL.
    #[error(
        "has no plugins, but loads plugins from the folder {0:?} next to it, where an entry has no effect; move \
         them into its key plugins"
    )]
    Folder(String),
    #[error("has no {0}")]
    Lacks(&'static str),
    #[error(
        "has the invalid name {0:?}, for which the plugin would refuse every container; \
         expected a letter or digit, then at most 109 more, _ . or -"
    )]
    Name(String),
    #[error("has version {0:?}, for which the plugin would refuse every container; raise its cniVersion")]
    Version(String),
}

/// Key that marks a list made from a single plugin: the name of that plugin's file. Runtimes ignore unknown keys.
const MADE_OF: &str = "sidecar-init/made-of";
/// Key that stops `libcni` from loading a folder's plugins. Older versions ignore it.
const INLINED: &str = "loadOnlyInlinedPlugins";

#[derive(Debug)]
pub(super) struct NetworkConfiguration {
    pub(super) text: String,
    pub(super) kind: FileKind,
    /// Empty for a single plugin without a name. CRI-O then names the network after the file (`loadNetworks` of ocicni).
    pub(super) name: String,
    version: String,
    plugins: Vec<Plugin>,
    pub(super) made_of: Option<String>,
}

#[derive(Debug)]
struct Plugin {
    span: Range<usize>,
    kind: String,
}

impl FileKind {
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "conflist" => Some(Self::List),
            "conf" | "json" => Some(Self::Single),
            _ => None,
        }
    }
}

impl NetworkConfiguration {
    /// Parses the content of a file. Content that is not UTF-8 is unusable, though runtimes may accept it.
    pub(super) fn decode(bytes: &[u8], kind: FileKind) -> Result<Self, Unusable> {
        let network = Self::read(&String::from_utf8_lossy(bytes), kind)?;
        if std::str::from_utf8(bytes).is_ok() { Ok(network) } else { Err(Unusable::Encoding) }
    }

    pub(super) fn read(text: &str, kind: FileKind) -> Result<Self, Unusable> {
        if text.trim_ascii().is_empty() {
            return Err(Unusable::Empty);
        }
        let fields = PluginFields::parse(text).map_err(|error| Unusable::Json(error.to_string()))?;
        if let Some(name) = fields.doubles().next() {
            return Err(Unusable::Twice(name.to_owned()));
        }
        let field = |key: &str| fields.value(key).and_then(word).filter(|word| !word.is_empty());
        let name = match (kind, fields.value("name")) {
            (FileKind::Single, None) => String::new(),
            (FileKind::Single, Some(name)) => word(name).ok_or(Unusable::Lacks("name"))?,
            (FileKind::List, _) => field("name").ok_or(Unusable::Lacks("name"))?,
        };
        let (plugins, version) = match kind {
            FileKind::List => (plugins(text, &fields, &name)?, version(&fields)?),
            FileKind::Single => {
                let plugin =
                    Plugin { span: 0..text.len(), kind: field("type").ok_or(Unusable::Lacks("type"))? };
                (vec![plugin], field("cniVersion").unwrap_or_default())
            }
        };
        Ok(Self { text: text.to_owned(), kind, name, version, plugins, made_of: field(MADE_OF) })
    }

    /// Checks that the plugin accepts the name and supports the version, which is not raised for other plugins' sake.
    pub(super) fn serves(&self, file: &str) -> Result<(), Unusable> {
        let name = self.name_in(file);
        if !is_id(name) {
            return Err(Unusable::Name(name.to_owned()));
        }
        CniVersion::parse(&self.version).map_err(|_| Unusable::Version(self.version.clone())).map(drop)
    }

    pub(super) fn types(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.kind.as_str())
    }

    pub(super) fn plugin(&self, types: &[&str]) -> Option<PluginFields<'_>> {
        let plugin = self.plugins.iter().find(|plugin| types.contains(&plugin.kind.as_str()))?;
        PluginFields::parse(&self.text[plugin.span.clone()]).ok()
    }

    /// The text with this entry exactly once; `None` if it already has an equal entry, however formatted.
    pub(super) fn with(&self, entry: &str) -> Option<String> {
        let Some(first) = self.plugins.iter().position(|plugin| plugin.kind == PLUGIN) else {
            return Some(self.appended(entry));
        };
        let mut cuts = self.cuts(|at| at != first && self.plugins[at].kind == PLUGIN);
        if value(&self.text[self.span(first)]) != value(entry) {
            cuts.push((self.span(first), entry));
        }
        (!cuts.is_empty()).then(|| self.edited(cuts))
    }

    pub(super) fn without(&self) -> Option<String> {
        let cuts = self.cuts(|at| self.plugins[at].kind == PLUGIN);
        (!cuts.is_empty()).then(|| self.edited(cuts))
    }

    /// The original of a list that we made, byte for byte; `None` if other programs have added plugins since.
    pub(super) fn original(&self) -> Option<String> {
        self.made_of.as_ref()?;
        let text = self.without().unwrap_or_else(|| self.text.clone());
        let fields = PluginFields::parse(&text).ok()?;
        let list = fields.value("plugins")?.get();
        let plugins: Vec<&RawValue> = serde_json::from_str(list).ok()?;
        let inside = list.strip_prefix('[')?.strip_suffix(']')?;
        (plugins.len() == 1).then(|| inside.to_owned())
    }

    fn name_in<'n>(&'n self, file: &'n str) -> &'n str {
        if self.name.is_empty() { file } else { &self.name }
    }

    /// A list of this single plugin and our entry. Like the single plugin, it loads no folder's plugins.
    pub(super) fn list(&self, file: &str, entry: &str) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        format!(
            "{{\"cniVersion\":{},\"name\":{},\"{MADE_OF}\":{},\"{INLINED}\":true,\"plugins\":[{},{entry}]}}\n",
            quoted(&self.version),
            quoted(self.name_in(file)),
            quoted(file),
            self.text
        )
    }

    /// Adds our entry after the last plugin, with the white space that precedes that plugin.
    fn appended(&self, entry: &str) -> String {
        let last = self.span(self.plugins.len() - 1);
        let before = &self.text[..last.start];
        let gap = &before[before.trim_ascii_end().len()..];
        self.edited(vec![(last.end..last.end, &format!(",{gap}{entry}"))])
    }

    fn span(&self, at: usize) -> Range<usize> {
        self.plugins[at].span.clone()
    }

    /// Ranges to remove for some plugins, each with the comma before or after it.
    fn cuts<'t>(&self, goes: impl Fn(usize) -> bool) -> Vec<(Range<usize>, &'t str)> {
        let count = self.plugins.len();
        let stays_before = |at: usize| (0..at).any(|before| !goes(before));
        let cut = |at: usize| {
            if stays_before(at) {
                self.comma(self.span(at - 1).end)..self.span(at).end
            } else if at + 1 < count {
                self.span(at).start..self.span(at + 1).start
            } else {
                self.span(at)
            }
        };
        (0..count).filter(|at| goes(*at)).map(|at| (cut(at), "")).collect()
    }

    fn comma(&self, end: usize) -> usize {
        end + self.text[end..].find(',').unwrap_or_default()
    }

    fn edited(&self, mut cuts: Vec<(Range<usize>, &str)>) -> String {
        cuts.sort_by_key(|(range, _)| range.start);
        let mut text = self.text.clone();
        for (range, new) in cuts.into_iter().rev() {
            text.replace_range(range, new);
        }
        text
    }
}

fn plugins(text: &str, fields: &PluginFields<'_>, name: &str) -> Result<Vec<Plugin>, Unusable> {
    let is_true = |raw: &RawValue| raw.get().trim_matches('"').eq_ignore_ascii_case("true");
    if !fields.has("plugins") && !fields.value(INLINED).is_some_and(is_true) {
        return Err(Unusable::Folder(name.to_owned()));
    }
    let list = fields.value("plugins").ok_or(Unusable::Lacks("plugins"))?;
    let raws: Vec<&RawValue> =
        serde_json::from_str(list.get()).map_err(|_| Unusable::Lacks("list of plugins"))?;
    let plugin = |raw: &RawValue| {
        let fields = PluginFields::parse(raw.get()).ok()?;
        let kind = fields.value("type").and_then(word).filter(|name| !name.is_empty())?;
        let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
        Some(Plugin { span: start..start + raw.get().len(), kind })
    };
    let plugins: Option<Vec<Plugin>> = raws.into_iter().map(plugin).collect();
    let plugins = plugins.ok_or(Unusable::Lacks("type in each plugin"))?;
    if plugins.is_empty() { Err(Unusable::Lacks("plugins")) } else { Ok(plugins) }
}

/// Highest version that the plugin supports, as `libcni` chooses; else any version.
fn version(fields: &PluginFields<'_>) -> Result<String, Unusable> {
    let mut named: Vec<String> = match fields.value("cniVersions") {
        Some(list) => serde_json::from_str(list.get())
            .map_err(|_| Unusable::Lacks("list of versions as cniVersions"))?,
        None => Vec::new(),
    };
    let single = fields.value("cniVersion").and_then(word);
    // Older versions of `libcni` read only this key.
    if let Some(unsupported) = single.as_ref().filter(|name| CniVersion::parse(name).is_err()) {
        return Ok(unsupported.clone());
    }
    named.extend(single);
    let supported = named.iter().filter_map(|name| CniVersion::parse(name).ok()).max();
    Ok(supported.map(|version| version.name().to_owned()).or_else(|| named.pop()).unwrap_or_default())
}

pub(super) fn word(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop_oneof};

    const ENTRY: &str = r#"{"type":"sidecar-cni","log":"none"}"#;

    fn list(text: &str) -> NetworkConfiguration {
        NetworkConfiguration::read(text, FileKind::List).expect("a list")
    }

    fn check(before: &str, after: &str) {
        assert_eq!(list(before).with(ENTRY).as_deref(), Some(after));
        assert_eq!(list(after).with(ENTRY), None, "once is enough");
        assert_eq!(list(after).without().as_deref(), Some(before));
    }

    #[test]
    fn entry_comes_last_in_the_format_of_the_file() {
        check(
            r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#,
            r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a"},{"type":"sidecar-cni","log":"none"}]}"#,
        );
        check(
            "{\"plugins\" : [\n\t{\"type\":\"a\"} ,\n\t{\"type\":\"b\"}\n], \"name\":\"n\",\"cniVersion\":\"0.3.1\"}\n\n",
            "{\"plugins\" : [\n\t{\"type\":\"a\"} ,\n\t{\"type\":\"b\"},\n\t{\"type\":\"sidecar-cni\",\"log\":\"none\"}\n], \
             \"name\":\"n\",\"cniVersion\":\"0.3.1\"}\n\n",
        );
    }

    #[test]
    fn duplicate_entries_are_removed() {
        let with = |plugins: &str| format!(r#"{{"name":"n","cniVersion":"1.0.0","plugins":[{plugins}]}}"#);
        let old = r#"{"type":"sidecar-cni"}"#;
        let other = r#"{"type":"a"}"#;
        for (before, after, without) in [
            (format!("{old}, {other}"), format!("{ENTRY}, {other}"), other.to_owned()),
            (
                format!("{other}, {old} ,{other}"),
                format!("{other}, {ENTRY} ,{other}"),
                format!("{other} ,{other}"),
            ),
            (format!("{old},{old}, {other}, {old}"), format!("{ENTRY}, {other}"), other.to_owned()),
            (format!("{other},{ENTRY},{old}"), format!("{other},{ENTRY}"), other.to_owned()),
            (format!("{old},{old}"), ENTRY.to_owned(), String::new()),
        ] {
            let before = with(&before);
            assert_eq!(list(&before).with(ENTRY), Some(with(&after)));
            assert_eq!(list(&before).without(), Some(with(&without)));
        }
    }

    #[test]
    fn equal_entry_in_another_format_is_kept() {
        let text = "{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"plugins\":[{ \"log\": \"none\",\n \"type\": \"sidecar-cni\" }]}";
        assert_eq!(list(text).with(ENTRY), None);
    }

    #[test]
    fn single_plugin_becomes_a_list_and_is_restored() {
        let single = " {\"type\": \"bridge\", \"name\":\"a\\\"b\",\n\"cniVersion\": \"0.4.0\", \"x\":1e2}\n";
        let made =
            NetworkConfiguration::read(single, FileKind::Single).expect("a plugin").list("10-a.conf", ENTRY);
        let made = list(&made);
        assert_eq!((made.name.as_str(), made.made_of.as_deref()), ("a\"b", Some("10-a.conf")));
        assert_eq!(made.version, "0.4.0");
        assert_eq!(made.original().as_deref(), Some(single));
        let more = made.text.replace("]}\n", ",{\"type\":\"b\"}]}\n");
        assert_eq!(list(&more).original(), None);
    }

    #[test]
    fn single_plugin_without_a_name_keeps_its_file_name() {
        for single in [
            r#"{"type":"a","cniVersion":"0.4.0"}"#,
            r#"{"name":"","type":"a","cniVersion":"0.4.0"}"#,
            r#"{"name":null,"type":"a","cniVersion":"0.4.0"}"#,
        ] {
            let network = NetworkConfiguration::read(single, FileKind::Single).expect("a plugin");
            assert_eq!(network.serves("10-a.conf"), Ok(()));
            assert_eq!(network.serves("-a.conf"), Err(Unusable::Name("-a.conf".to_owned())));
            let made = network.list("10-a.conf", ENTRY);
            assert_eq!(list(&made).name, "10-a.conf");
            assert_eq!(list(&made).original().as_deref(), Some(single));
        }
        let named = NetworkConfiguration::read(r#"{"name":1,"type":"a"}"#, FileKind::Single);
        assert_eq!(named.err(), Some(Unusable::Lacks("name")));
    }

    #[test]
    fn folder_plugins_are_unusable_unless_inlined_only() {
        let fault = |more: &str| {
            let text = format!(r#"{{"name":"n","cniVersion":"1.0.0"{more}}}"#);
            NetworkConfiguration::read(&text, FileKind::List).expect_err("no plugins")
        };
        for more in ["", r#","loadOnlyInlinedPlugins":false"#, r#","loadOnlyInlinedPlugins":null"#] {
            assert_eq!(fault(more), Unusable::Folder("n".to_owned()), "{more}");
        }
        for more in [
            r#","loadOnlyInlinedPlugins":true"#,
            r#","loadOnlyInlinedPlugins":"True""#,
            r#","plugins":null"#,
            r#","plugins":[]"#,
        ] {
            assert_eq!(fault(more), Unusable::Lacks("plugins"), "{more}");
        }
    }

    #[test]
    fn other_encodings_differ_from_invalid_configurations() {
        let fault =
            |bytes: &[u8]| NetworkConfiguration::decode(bytes, FileKind::Single).expect_err("not UTF-8");
        assert_eq!(fault(b"{\"name\":\"\xe9\",\"type\":\"a\"}"), Unusable::Encoding);
        assert_eq!(fault(b"{\"name\":\"\xe9\"}"), Unusable::Lacks("type"));
        assert!(matches!(fault(b"\xff\xfe"), Unusable::Json(_)));
    }

    #[test]
    fn highest_supported_version_of_a_list_is_used() {
        for (versions, expected) in [
            (r#""cniVersions":["0.4.0"]"#, "0.4.0"),
            (r#""cniVersions":["1.1.0","0.4.0","9.9.9"]"#, "1.1.0"),
            (r#""cniVersions":["0.2.0","0.4.0"],"cniVersion":"1.0.0""#, "1.0.0"),
            (r#""cniVersions":[],"cniVersion":"0.3.1""#, "0.3.1"),
        ] {
            let text = format!(r#"{{"name":"n",{versions},"plugins":[{{"type":"a"}}]}}"#);
            let list = list(&text);
            assert_eq!((list.version.as_str(), list.serves("")), (expected, Ok(())), "{versions}");
        }
    }

    #[test]
    fn configurations_that_no_runtime_accepts_are_unusable() {
        let complaint = |text, kind| {
            let used = NetworkConfiguration::read(text, kind).and_then(|network| network.serves("10-a.conf"));
            used.expect_err("unusable").to_string()
        };
        for (text, expected) in [
            (" \n", "is empty"),
            ("{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"plugins\":[{\"ty", "is not complete JSON"),
            ("{\"name\":\"n\"} x", "is not complete JSON"),
            ("\u{feff}{}", "is not complete JSON"),
            (r#"{"cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#, "has no name"),
            (r#"{"name":"n","name":"m"}"#, "has the key \"name\" twice"),
            (r#"{"name":"n","cniVersion":"1.0.0"}"#, "has no plugins"),
            (r#"{"name":"n","cniVersion":"1.0.0","plugins":[]}"#, "has no plugins"),
            (r#"{"name":"n","cniVersion":"1.0.0","plugins":{}}"#, "has no list of plugins"),
            (
                r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"a"},{}]}"#,
                "has no type in each plugin",
            ),
            (r#"{"name":"n","cniVersion":"0.2.0","plugins":[{"type":"a"}]}"#, "has version \"0.2.0\""),
            (
                r#"{"name":"n","cniVersions":["1.0.0"],"cniVersion":"0.2.0","plugins":[{"type":"a"}]}"#,
                "has version \"0.2.0\"",
            ),
            (r#"{"name":"n","plugins":[{"type":"a"}]}"#, "has version \"\""),
            (r#"{"name":"n","cniVersions":["0.2.0"],"plugins":[{"type":"a"}]}"#, "has version \"0.2.0\""),
            (
                r#"{"name":"n","cniVersions":"1.0.0","plugins":[{"type":"a"}]}"#,
                "has no list of versions as cniVersions",
            ),
            (
                r#"{"name":"a b","cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#,
                "has the invalid name \"a b\"",
            ),
        ] {
            let message = complaint(text, FileKind::List);
            assert!(message.starts_with(expected), "{text}: {message}");
        }
        assert_eq!(complaint(r#"{"name":"n"}"#, FileKind::Single), "has no type");
        for (text, shown) in
            [(r#"{"name":"n","type":"a","cniVersion":"0.2.0"}"#, "0.2.0"), (r#"{"name":"n","type":"a"}"#, "")]
        {
            let message = complaint(text, FileKind::Single);
            assert!(message.starts_with(&format!("has version {shown:?}")), "{message}");
        }
    }

    fn plugin() -> impl Strategy<Value = String> {
        let body = prop_oneof![
            r#"\{"type" ?: ?"[a-z]{1,5}"(,"x":\[\{\},"\]\\\\"\])?\}"#,
            "(\\{\"type\": ?\"sidecar-cni\"\\})"
        ];
        ("[ \n\t]{0,3}", body, "[ \n\t]{0,3}").prop_map(|(before, body, after)| before + &body + &after)
    }

    proptest::proptest! {
        #[test]
        fn any_list_gets_one_entry_and_loses_it_again(plugins in proptest::collection::vec(plugin(), 1..6)) {
            let text = format!(r#"{{"name":"n","cniVersion":"1.1.0","plugins":[{}]}}"#, plugins.join(","));
            let before = list(&text);
            let after = before.with(ENTRY).unwrap_or_else(|| text.clone());
            let ours = |text: &str| list(text).plugins.iter().filter(|plugin| plugin.kind == PLUGIN).count();
            assert_eq!(ours(&after), 1, "{after}");
            let others = |text: &str| {
                let list: Value = serde_json::from_str(text).expect("JSON");
                let plugins = list["plugins"].as_array().expect("plugins").clone();
                plugins.into_iter().filter(|plugin| plugin["type"] != PLUGIN).collect::<Vec<Value>>()
            };
            assert_eq!(others(&after), others(&text));
            let without = before.without().unwrap_or_else(|| text.clone());
            assert_eq!(others(&without), others(&text));
            assert!(!without.contains("sidecar-cni"));
            if ours(&text) == 0 {
                assert_eq!(list(&after).without(), Some(text.clone()));
            }
        }
    }
}
