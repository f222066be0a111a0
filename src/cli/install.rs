//! `sidecar-init cni install` and `cni uninstall`: reads an installation's options from flags.

use super::{Exit, RunResult, run};
use crate::cni::install::{self, CniInstallOptions, Folders, RemovedInstallation, WatchOptions};
use mesh::sources::{Given, Raw, SettingReader, duration};
use mesh::{InputProblem, Setting};
use serde_json::Value;
use sidecar_init::sys::signals::ignore_file_size_limit;
use std::{fs, net::SocketAddr, path::PathBuf};

pub(super) fn install(raw: &Raw, mut problems: Vec<InputProblem>) -> RunResult {
    let entry = entry(raw).unwrap_or_else(|mut found| {
        problems.append(&mut found);
        String::new()
    });
    let (_, options) = run::begin(raw, problems, run::LOG, |reader| CniInstallOptions {
        folders: folders(reader),
        entry,
        watch: watch(reader),
        wait: wait(reader),
    })?;
    survive_file_size_limit();
    install::keep(&options)?.iter().for_each(log_removed);
    Ok(Exit::Done)
}

pub(super) fn uninstall(raw: &Raw, problems: Vec<InputProblem>) -> RunResult {
    let own = |reader: &mut SettingReader<'_>| (folders(reader), reader.switch(Setting::KeepProgram));
    let (_, (folders, keep_program)) = run::begin(raw, problems, run::LOG, own)?;
    survive_file_size_limit();
    log_removed(&install::uninstall(&folders, keep_program)?);
    Ok(Exit::Done)
}

/// Makes exceeding the file size limit an error instead of a fatal signal.
pub(super) fn survive_file_size_limit() {
    if let Err(error) = ignore_file_size_limit() {
        tracing::warn!(target: "install", "a file size limit may end this run: {error}");
    }
}

fn log_removed(RemovedInstallation { configurations, programs }: &RemovedInstallation) {
    for path in configurations {
        tracing::info!(target: "install", "the plugin's entry is removed from {}", path.display());
    }
    for path in programs {
        tracing::info!(target: "install", "{} is removed", path.display());
    }
    if configurations.is_empty() && programs.is_empty() {
        tracing::info!(target: "install", "nothing to remove");
    }
}

fn folders(reader: &mut SettingReader<'_>) -> Folders {
    let mut folder = |setting, default: &str| path(reader, setting).unwrap_or_else(|| PathBuf::from(default));
    Folders {
        configurations: folder(Setting::ConfDir, "/etc/cni/net.d"),
        programs: folder(Setting::BinDir, "/opt/cni/bin"),
    }
}

fn path(reader: &mut SettingReader<'_>, setting: Setting) -> Option<PathBuf> {
    reader.one_of(setting, "a path", |text| (!text.is_empty()).then(|| PathBuf::from(text)))
}

/// Options of `--watch`, refused without it, because they would have no effect.
fn watch(reader: &mut SettingReader<'_>) -> Option<WatchOptions> {
    let form = "an address and a port, such as 127.0.0.1:15014 or [::1]:15014";
    let mut address = |setting| reader.one_of(setting, form, |text| text.parse::<SocketAddr>().ok());
    let addresses = [address(Setting::ReadyAddress), address(Setting::Metrics)];
    let mut addresses: Vec<SocketAddr> = addresses.into_iter().flatten().collect();
    addresses.dedup();
    let ready_file = path(reader, Setting::ReadyFile);
    let uninstall = reader.switch(Setting::UninstallOnExit);
    if reader.switch(Setting::Watch) {
        return Some(WatchOptions { ready_file, addresses, uninstall });
    }
    if uninstall {
        reader.blame(Setting::UninstallOnExit, NEEDS_WATCH);
    }
    for setting in [Setting::ReadyFile, Setting::ReadyAddress, Setting::Metrics] {
        reader.blame(setting, NEEDS_WATCH);
    }
    None
}

const NEEDS_WATCH: &str = "requires --watch; give both or neither";

fn wait(reader: &mut SettingReader<'_>) -> Option<std::time::Duration> {
    let wait = reader.one_of(Setting::InstallWait, "a duration, such as 30s or 1m30s", duration::parse)?;
    if reader.switch(Setting::Watch) {
        reader.blame(Setting::InstallWait, "contradicts --watch, which waits forever; give one of them");
    }
    Some(wait)
}

fn entry(raw: &Raw) -> Result<String, Vec<InputProblem>> {
    let text = |setting: Setting, key: &'static str| {
        let Given { value, .. } = raw.get(setting)?;
        Some((setting.row().long, key, Value::from(value.as_str())))
    };
    let names = raw.get(Setting::ExcludeNamespaces).map(|Given { value, .. }| {
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names = names.map(Value::from).collect::<Vec<Value>>();
        (Setting::ExcludeNamespaces.row().long, "exclude_namespaces", Value::from(names))
    });
    let flags = [text(Setting::StateDir, "state_dir"), text(Setting::PluginLog, "log"), names];
    let flags: Vec<(&str, &'static str, Value)> = flags.into_iter().flatten().collect();
    let object = match raw.get(Setting::PluginEntry) {
        Some(Given { value, source }) if !value.trim_start().starts_with('{') => {
            Some(fs::read_to_string(value.trim()).map_err(|error| {
                let text = format!("can't be read: {error}; expected a JSON object, or the path of a file");
                vec![InputProblem::with_item(source, value, text)]
            })?)
        }
        given => given.map(|given| given.value.clone()),
    };
    install::entry(&flags, object.as_deref())
}
