//! The annotations of a pod and the fields of its proxy's container, as settings: what a CNI plugin reads of it.

use super::facts::{Container, Pod, STATUS, Value};
use super::form;
use super::given::GivenSettings;
use super::mesh;
use super::proxy_config;
use crate::istio::annotations::STATUS_PORT;
use crate::istio::defaults::PROXY_ID;
use crate::mesh::{Feature, Mesh};
use crate::settings::mapping::{AnnotationRow, FIELDS, PROXY, TABLE, VARIABLES};
use crate::settings::{self, Setting, SettingKind, SettingRow, nearest};
use crate::sources::{Raw, Source};
use rules::Port;
use std::collections::{BTreeMap, BTreeSet};

/// Reads a pod by the table of [`crate::settings::mapping`]. What it leaves open is taken from `defaults`, setting by setting, and
/// then from the table's own defaults.
pub fn annotated(pod: &Pod, title: &str, defaults: &Raw) -> GivenSettings {
    if let Some((of, source)) = mesh_of(pod, defaults) {
        return of_mesh(pod, title, defaults, of, source);
    }
    let mut istio = GivenSettings::by(title);
    proxy_config::read(&mut istio, &pod.annotations);
    for row in TABLE {
        of_row(&mut istio, row, &pod.annotations);
    }
    if let Some(proxy) = pod.proxy() {
        of_proxy(&mut istio, proxy);
    }
    let settings = ours(title, &pod.annotations, Mesh::default()).over(istio);
    let mut settings = settings.over(defaults.clone().into()).over(presets(title));
    // Templates add the port at which the agent reports the proxy's status, unless it is 0.
    let status =
        pod.annotations.get(STATUS_PORT).map(|port| port.trim()).filter(|port| port.parse::<Port>().is_ok());
    for row in TABLE.iter().filter(|row| !row.always.is_empty()) {
        complete(&mut settings, row, status);
    }
    if settings.raw.mesh() != Mesh::default() {
        // What the defaults name is not the pod's.
        settings.set(Setting::Mesh, Mesh::default().name(), Source::Annotation(STATUS.to_owned()));
    }
    settings
}

/// The mesh whose pod it is, if another than Istio's sidecar. Where the pod shows none, the defaults decide, unless Istio's
/// injector has seen the pod.
fn mesh_of(pod: &Pod, defaults: &Raw) -> Option<(Mesh, Source)> {
    let is_seen_by_istio = pod.annotations.contains_key(STATUS);
    let of_defaults = || Some((defaults.mesh(), defaults.get(Setting::Mesh)?.source.clone()));
    let of_defaults = || of_defaults().filter(|_| !is_seen_by_istio);
    mesh::of(pod).or_else(of_defaults).filter(|(mesh, _)| mesh.pods().is_some())
}

/// The same of a pod of another mesh.
fn of_mesh(pod: &Pod, title: &str, defaults: &Raw, of: Mesh, source: Source) -> GivenSettings {
    let Some(form) = of.pods() else { return GivenSettings::by(title) };
    let mut own = GivenSettings::by(title);
    for row in of.settings() {
        let found = row.annotations.iter().find_map(|name| Some((*name, pod.annotations.get(*name)?)));
        if let Some((name, value)) = found {
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
                for (item, text) in form::ranges(&value, of.ownership().name) {
                    own.fault(Some(row.setting), source.clone(), Some(item), text);
                }
            }
            own.set(row.setting, value, source);
        }
    }
    let mut presets = GivenSettings::by(title);
    for (setting, value) in form.presets {
        let name = setting
            .row()
            .annotations
            .first()
            .map_or_else(|| setting.row().option(), |name| (*name).to_owned());
        presets.set(*setting, *value, Source::Preset(name));
    }
    let mut settings =
        ours(title, &pod.annotations, of).over(own).over(defaults.clone().into()).over(presets);
    // A name that no mesh has is a problem, whatever else shows the mesh.
    if settings.raw.get(Setting::Mesh).is_none_or(|given| given.value.trim().parse::<Mesh>().is_ok()) {
        settings.set(Setting::Mesh, of.name(), source);
    }
    (form.more)(pod, &mut settings);
    settings
}

/// Settings by their own names, as a network configuration holds them under `key`. A name that is none is a problem.
pub fn configured(key: &str, values: &BTreeMap<String, String>) -> GivenSettings {
    let mut settings = GivenSettings::default();
    let named_mesh = values.get(Setting::Mesh.row().name()).and_then(|name| name.trim().parse().ok());
    let mesh: Mesh = named_mesh.unwrap_or_default();
    let source = |name: &str| Source::Key(format!("{key}.{name}"));
    for (name, value) in values {
        named(&mut settings, mesh, "", name, value, &source(name));
    }
    settings
}

fn of_row(settings: &mut GivenSettings, row: &AnnotationRow, annotations: &BTreeMap<String, String>) {
    let found = row.annotations().iter().find_map(|name| Some((*name, annotations.get(*name)?)));
    let Some((name, value)) = found else { return };
    let source = Source::Annotation(name.to_owned());
    for (item, text) in row.form.faults(value) {
        settings.fault(Some(row.setting), source.clone(), Some(item), text);
    }
    settings.set(row.setting, value, source);
}

fn ours(title: &str, annotations: &BTreeMap<String, String>, mesh: Mesh) -> GivenSettings {
    let mut settings = GivenSettings::by(title);
    for (annotation, value) in annotations {
        if let Some(name) = annotation.strip_prefix(settings::ANNOTATIONS) {
            let source = Source::Annotation(annotation.clone());
            named(&mut settings, mesh, settings::ANNOTATIONS, name, value, &source);
        }
    }
    settings
}

/// A setting by its name, which follows a `prefix`.
fn named(settings: &mut GivenSettings, mesh: Mesh, prefix: &str, name: &str, value: &str, source: &Source) {
    let keys = || settings::of(mesh).filter_map(|row| Some((row, row.key()?)));
    match keys().find(|(_, key)| key == name) {
        Some((SettingRow { setting, .. }, _)) => settings.set(*setting, value, source.clone()),
        None => {
            let all: Vec<String> = keys().map(|(_, key)| key).collect();
            let text = match nearest(name, all.iter().map(String::as_str)) {
                Some(intended) => format!("unknown setting; did you mean {prefix}{intended}?"),
                None => format!("unknown setting; expected the name of a flag, such as {prefix}proxy-uid"),
            };
            settings.fault(None, source.clone(), None, text);
        }
    }
}

/// Variables and fields of the proxy's container.
fn of_proxy(settings: &mut GivenSettings, proxy: &Container) {
    let source = |word: &str| Source::Container { name: PROXY.to_owned(), word: word.to_owned() };
    for &(name, setting) in VARIABLES {
        match proxy.variable(name) {
            // A variable that is set to nothing counts as not set.
            Some(Value::Text(text)) if !text.is_empty() => settings.set(setting, text, source(name)),
            Some(Value::Text(_)) | None => {}
            Some(Value::Unknowable) => {
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

/// The values of settings that a pod leaves open.
fn presets(title: &str) -> GivenSettings {
    let mut settings = GivenSettings::by(title);
    for row in TABLE.iter().filter(|row| !row.default.is_empty()) {
        settings.set(row.setting, row.default, Source::Preset(row.annotations()[0].to_owned()));
    }
    for &(name, setting) in FIELDS {
        settings.set(setting, PROXY_ID.to_string(), Source::Preset(format!("{PROXY} {name}")));
    }
    settings
}

/// Adds the items that a list always has, and another one, each once.
fn complete(settings: &mut GivenSettings, row: &AnnotationRow, other: Option<&str>) {
    let Some(given) = settings.raw.get(row.setting).cloned() else { return };
    let listed = given.value.split(',').map(str::trim).filter(|item| !item.is_empty());
    let mut seen = BTreeSet::new();
    let all = listed.chain(row.always.iter().copied()).chain(other);
    let items: Vec<&str> = all.filter(|item| seen.insert(*item)).collect();
    settings.set(row.setting, items.join(","), given.source);
}
