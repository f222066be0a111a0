//! Settings from a pod's annotations and the fields of its proxy's container, as a CNI plugin reads them.

use super::facts::{Container, Pod, STATUS};
use super::{given::GivenSettings, mesh};
use crate::mesh::{Feature, Mesh};
use crate::registry::{self, Resolved};
use crate::settings::mapping::{AnnotationForm, FIELDS, PROXY, TABLE, VARIABLES};
use crate::settings::{self, Setting, SettingKind, SettingRow, nearest};
use crate::sources::{Host, Raw, Source};
use crate::{Problems, istio::annotations::STATUS_PORT, istio::defaults::PROXY_ID};
use rules::{Cidr, Port, PortRange};
use std::collections::BTreeMap;

/// Settings of a pod; missing ones come from `defaults`, then from the mesh's defaults.
pub fn annotated(pod: &Pod, title: &str, defaults: &Raw) -> GivenSettings {
    let settings = match mesh_of(pod, defaults) {
        Some((of, source)) => of_mesh(pod, defaults, of, source),
        None => of_istio(pod, defaults),
    };
    settings.of_pod(title)
}

fn of_istio(pod: &Pod, defaults: &Raw) -> GivenSettings {
    let mut istio = GivenSettings::default();
    istio.read_proxy_config(&pod.annotations);
    for row in TABLE {
        let Some((name, value)) = annotation(pod, row.setting) else { continue };
        let source = Source::Annotation(name.to_owned());
        for (item, text) in row.form.faults(value) {
            istio.fault(Some(row.setting), source.clone(), Some(item), text);
        }
        istio.set(row.setting, value, source);
    }
    if let Some(proxy) = pod.proxy() {
        of_proxy(&mut istio, proxy);
    }
    let absent = TABLE.iter().filter(|row| !row.default.is_empty()).map(|row| (row.setting, row.default));
    let mut presets = presets(absent);
    for &(name, setting) in FIELDS {
        presets.set(setting, PROXY_ID.to_string(), Source::Preset(format!("{PROXY} {name}")));
    }
    let settings = ours(&pod.annotations, Mesh::default()).over(istio);
    let mut settings = settings.over(defaults.clone().into()).over(presets);
    // Templates add the agent's status port, unless it is 0.
    let status =
        pod.annotations.get(STATUS_PORT).map(|port| port.trim()).filter(|port| port.parse::<Port>().is_ok());
    for row in TABLE.iter().filter(|row| !row.always.is_empty()) {
        settings.add_items(row.setting, &Vec::from_iter(row.always.iter().copied().chain(status)));
    }
    if settings.raw.mesh() != Mesh::default() {
        settings.set(Setting::Mesh, Mesh::default().name(), Source::Annotation(STATUS.to_owned()));
    }
    settings
}

/// The mesh, if not Istio's sidecar. Without signs of a mesh or Istio's injection record, the defaults decide.
fn mesh_of(pod: &Pod, defaults: &Raw) -> Option<(Mesh, Source)> {
    let is_seen_by_istio = pod.annotations.contains_key(STATUS);
    let of_defaults = || Some((defaults.mesh(), defaults.get(Setting::Mesh)?.source.clone()));
    let of_defaults = || of_defaults().filter(|_| !is_seen_by_istio);
    mesh::of(pod).or_else(of_defaults).filter(|(mesh, _)| mesh.pods().is_some())
}

fn of_mesh(pod: &Pod, defaults: &Raw, of: Mesh, source: Source) -> GivenSettings {
    let mut own = GivenSettings::default();
    let Some(form) = of.pods() else { return own };
    for row in of.settings() {
        let Some((name, value)) = annotation(pod, row.setting) else { continue };
        let configured = defaults.get(row.setting).filter(|_| form.added_to.contains(&row.setting));
        let word = value.trim().to_ascii_lowercase();
        let switch =
            form.switches.iter().find(|(known, _)| row.kind == SettingKind::Switch && *known == word);
        let value = match (configured, switch) {
            (Some(given), _) => format!("{},{value}", given.value),
            (None, Some((_, meaning))) => (*meaning).to_owned(),
            (None, None) => value.clone(),
        };
        let source = Source::Annotation(name.to_owned());
        if row.kind == SettingKind::Value("PORT,..") && !row.features.contains(&Feature::Ranges) {
            for (item, text) in ranges(&value, of.ownership().name) {
                own.fault(Some(row.setting), source.clone(), Some(item), text);
            }
        }
        own.set(row.setting, value, source);
    }
    let presets = presets(form.presets.iter().copied());
    let mut settings = ours(&pod.annotations, of).over(own).over(defaults.clone().into()).over(presets);
    // An unknown mesh name is a problem, even if the pod shows another mesh.
    if settings.raw.get(Setting::Mesh).is_none_or(|given| given.value.trim().parse::<Mesh>().is_ok()) {
        settings.set(Setting::Mesh, of.name(), source);
    }
    (form.more)(pod, &mut settings);
    settings
}

/// Settings of a network configuration under `key`, by the settings' own names. An unknown name is a problem.
pub fn configured(key: &str, values: &BTreeMap<String, String>) -> GivenSettings {
    let mut settings = GivenSettings::default();
    let named_mesh = values.get(Setting::Mesh.row().name()).and_then(|name| name.trim().parse().ok());
    let mesh: Mesh = named_mesh.unwrap_or_default();
    let source = |name: &str| Source::Key(format!("{key}.{name}"));
    for (name, value) in values {
        named(&mut settings, mesh, "", name, value, source(name));
    }
    settings
}

fn annotation(pod: &Pod, setting: Setting) -> Option<(&'static str, &String)> {
    setting.row().annotations.iter().find_map(|name| Some((*name, pod.annotations.get(*name)?)))
}

fn ours(annotations: &BTreeMap<String, String>, mesh: Mesh) -> GivenSettings {
    let mut settings = GivenSettings::default();
    for (annotation, value) in annotations {
        if let Some(name) = annotation.strip_prefix(settings::ANNOTATIONS) {
            let source = Source::Annotation(annotation.clone());
            named(&mut settings, mesh, settings::ANNOTATIONS, name, value, source);
        }
    }
    settings
}

fn named(settings: &mut GivenSettings, mesh: Mesh, prefix: &str, name: &str, value: &str, source: Source) {
    let keys = || settings::of(mesh).filter_map(|row| Some((row, row.key()?)));
    match keys().find(|(_, key)| key == name) {
        Some((SettingRow { setting, .. }, _)) => settings.set(*setting, value, source),
        None => {
            let all: Vec<String> = keys().map(|(_, key)| key).collect();
            let text = match nearest(name, all.iter().map(String::as_str)) {
                Some(intended) => format!("unknown setting; did you mean {prefix}{intended}?"),
                None => format!("unknown setting; expected the name of a flag, such as {prefix}proxy-uid"),
            };
            settings.fault(None, source, None, text);
        }
    }
}

fn of_proxy(settings: &mut GivenSettings, proxy: &Container) {
    let source = |word: &str| Source::Container { name: PROXY.to_owned(), word: word.to_owned() };
    for &(name, setting) in VARIABLES {
        match proxy.variable(name) {
            Some(Some(text)) if !text.is_empty() => settings.set(setting, text, source(name)),
            Some(Some(_)) | None => {}
            Some(None) => {
                let text = format!(
                    "comes from valueFrom, which is unknown before the container starts; set it with {}",
                    setting.row().option()
                );
                settings.fault(Some(setting), source(name), None, text);
            }
        }
    }
    for &(name, setting) in FIELDS {
        let field = match setting {
            Setting::ProxyUid => &proxy.run_as_user,
            _ => &proxy.run_as_group,
        };
        if let Some(number) = field.as_deref().filter(|number| *number != "0") {
            settings.set(setting, number, source(name));
        }
    }
}

fn presets(values: impl Iterator<Item = (Setting, &'static str)>) -> GivenSettings {
    let mut settings = GivenSettings::default();
    for (setting, value) in values {
        let row = setting.row();
        let name = row.annotations.first().map_or_else(|| row.option(), |name| (*name).to_owned());
        settings.set(setting, value, Source::Preset(name));
    }
    settings
}

impl GivenSettings {
    /// Users and groups are numbers: their names are unknown outside the pod.
    pub fn resolve(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        registry::resolve_as(&self.raw, host, self.problems(), true)
    }

    /// Resolves the settings inside the starting pod, where `host` looks up user and group names.
    pub fn resolve_within(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        registry::resolve(&self.raw, host, self.problems())
    }
}

type FormFault<'a> = (&'a str, String);

/// Istio refuses other values at pod creation (`validate.go`), so previews must not promise rules for such pods.
impl AnnotationForm {
    /// Faults in the value under Istio's rules, at most [`Problems::MAX_ITEMS`].
    pub fn faults(self, value: &str) -> Vec<FormFault<'_>> {
        let fault: fn(&str) -> Option<FormFault<'_>> = match self {
            Self::Mode => return Vec::new(),
            Self::PortsOrAll | Self::NetworksOrAll if value == "*" => return Vec::new(),
            // Istio trims port lists as a whole and interface lists item by item, but not network lists.
            Self::Ports | Self::PortsOrAll | Self::Interfaces if value.trim().is_empty() => {
                return Vec::new();
            }
            Self::Networks | Self::NetworksOrAll if value.is_empty() => return Vec::new(),
            Self::Ports | Self::PortsOrAll => port,
            Self::Networks | Self::NetworksOrAll => network,
            Self::Interfaces => interface,
        };
        value.split(',').filter_map(fault).take(Problems::MAX_ITEMS).collect()
    }
}

fn ranges<'a>(value: &'a str, mesh: &str) -> Vec<FormFault<'a>> {
    let is_range = |item: &&str| item.parse::<Port>().is_err() && item.parse::<PortRange>().is_ok();
    let found = value.split(',').map(str::trim).filter(is_range).take(Problems::MAX_ITEMS);
    found.map(|item| (item, range(mesh))).collect()
}

fn range(mesh: &str) -> String {
    format!("is not a port; {mesh} refuses ranges in its annotations: use the sidecar-init/ annotation")
}

fn port(item: &str) -> Option<FormFault<'_>> {
    let item = item.trim();
    // Rust also accepts a plus sign before a number.
    let is_port = !item.starts_with('+') && item.parse::<u16>().is_ok();
    let text = match item {
        _ if is_port => return None,
        "" => "is an empty item in a port list; remove the comma",
        _ if item.parse::<PortRange>().is_ok() => return Some((item, range("Istio"))),
        _ => "is not a port; expected a number from 0 to 65535",
    };
    Some((item, text.to_owned()))
}

fn network(item: &str) -> Option<FormFault<'_>> {
    let text = match item.parse::<Cidr>() {
        Ok(_) => return None,
        Err(_) if item.is_empty() => "is an empty item in a network list; remove the comma".to_owned(),
        Err(_) if item.contains(char::is_whitespace) => {
            "has a space, which Istio refuses; expected networks such as 10.0.0.0/8,192.168.0.0/16".to_owned()
        }
        Err(error) => format!("{error}; expected a network such as 10.0.0.0/8"),
    };
    Some((item, text))
}

fn interface(item: &str) -> Option<FormFault<'_>> {
    let item = item.trim();
    let start = item.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = item.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let fits = item.len() <= 15;
    let text = match item {
        "" => "is an empty item in an interface list; remove the comma",
        _ => {
            "is not a valid interface name for Istio; expected a letter, then up to 14 letters, digits, _ . or -"
        }
    };
    (!(start && rest && fits)).then(|| (item, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_faults_are_reported() {
        let commas = ",".repeat(2_000_000);
        for form in [AnnotationForm::Ports, AnnotationForm::NetworksOrAll, AnnotationForm::Interfaces] {
            assert_eq!(form.faults(&commas).len(), Problems::MAX_ITEMS, "{form:?}");
        }
    }

    #[test]
    fn values_refused_by_istio_are_refused() {
        let check = |form: AnnotationForm, value: &str, bad: &[&str]| {
            let found: Vec<&str> = form.faults(value).into_iter().map(|(item, _)| item).collect();
            assert_eq!(found, bad, "{form:?} {value:?}");
        };
        check(AnnotationForm::Ports, "", &[]);
        check(AnnotationForm::Ports, "80, 443,0,65535", &[]);
        check(AnnotationForm::Ports, "80,,x,65536,+1,8000-9000", &["", "x", "65536", "+1", "8000-9000"]);
        check(AnnotationForm::Ports, "*", &["*"]);
        check(AnnotationForm::PortsOrAll, "*", &[]);
        check(AnnotationForm::Ports, " ", &[]);
        check(AnnotationForm::Networks, " ", &[" "]);
        check(AnnotationForm::PortsOrAll, "80,*", &["*"]);
        check(AnnotationForm::Networks, "10.1.2.3/8,fd00::/8", &[]);
        check(AnnotationForm::Networks, "1.1.1.1", &["1.1.1.1"]);
        check(AnnotationForm::Networks, "1.0.0.0/8, 2.0.0.0/8", &[" 2.0.0.0/8"]);
        check(AnnotationForm::NetworksOrAll, "*", &[]);
        check(AnnotationForm::Networks, "*", &["*"]);
        check(AnnotationForm::Interfaces, "eth0, net1,a.b_c-d", &[]);
        check(
            AnnotationForm::Interfaces,
            "0eth,br+,abcdefghijklmnop,",
            &["0eth", "br+", "abcdefghijklmnop", ""],
        );
    }
}
