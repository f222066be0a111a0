//! Settings of a run, as opposed to capture settings.

use super::logging::{Stdout, start_logging};
use super::report::{Encoding, Format};
use diagnose::trace::utc;
pub(super) use mesh::preview::Preview;
use mesh::settings::alternatives;
use mesh::settings::levels::{ScopeLevel, by_scope};
use mesh::sources::{Host, Raw, SettingReader, duration};
use mesh::{Capture, InputProblem, Mesh, Problems, istio::defaults::PROBE_PORT, settings::Setting};
use rules::{Ownership, Port, Version, desired::Made, number::unsigned};
use sidecar_init::backend::{self, Kernel, Variant};
use sidecar_init::engine::{Choice, Preference, Session};
use sidecar_init::{backend::iptables::Lock, sys::exec};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tracing::level_filters::LevelFilter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunMode {
    Preview(Preview),
    PreviewClean,
    Apply,
    Clean,
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logging {
    pub(super) level: LevelFilter,
    pub(super) scopes: Vec<(String, LevelFilter)>,
    pub(super) json: bool,
    pub(super) targets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) mode: RunMode,
    pub(super) logging: Logging,
    pub(super) namespace: Option<PathBuf>,
    pub(super) cni: bool,
    pub(super) backend: Choice,
    pub(super) iptables_version: Option<Version>,
    pub(super) reconcile: bool,
    pub(super) replace: bool,
    pub(super) force: bool,
    /// Seconds to wait for the lock that iptables programs share.
    pub(super) lock_wait: u32,
    pub(super) timeout: Duration,
    pub(super) allow_host: bool,
    pub(super) format: Format,
    pub(super) validates: bool,
    pub(super) probe_port: Port,
    pub(super) probe_timeout: Duration,
    pub(super) mesh: Mesh,
    pub(super) names_mesh: bool,
    pub(super) settings: String,
}

impl Run {
    pub(super) fn stdout(&self) -> Stdout {
        match (self.mode, self.format) {
            (RunMode::Preview(_) | RunMode::PreviewClean, _) | (_, Format::Data(_)) => Stdout::Answer,
            (_, Format::Text) => Stdout::Any,
        }
    }

    pub(super) fn form(&self) -> Preview {
        match self.mode {
            RunMode::Preview(form) => form,
            RunMode::PreviewClean | RunMode::Apply | RunMode::Clean | RunMode::Nothing => Preview::Restore,
        }
    }

    pub(super) fn made(&self, command: &str) -> Made {
        mesh::made(env!("CARGO_PKG_VERSION"), command, self.settings.clone(), &utc(SystemTime::now()))
    }

    pub(super) fn owner(&self) -> Ownership {
        if self.replace { self.every_owner() } else { self.mesh.ownership() }
    }

    /// All owners, the selected mesh first, for commands that read all existing rules.
    pub(super) fn every_owner(&self) -> Ownership {
        self.mesh.ownership().union(mesh::OWNERS)
    }

    /// Owner of the rules to remove or show: the mesh given by flag, or all.
    pub(super) fn named(&self) -> Ownership {
        if self.names_mesh { self.mesh.ownership() } else { self.every_owner() }
    }

    pub(super) fn open_for(&self, owner: Ownership) -> Result<Kernel, backend::Error> {
        Kernel::open(self.lock(), owner)
    }

    pub(super) fn session(&self, owner: Ownership) -> Result<Session, backend::Error> {
        Session::open(self.lock(), owner, self.backend, mesh::OWNERS)
    }

    pub(super) fn lock(&self) -> Lock {
        let wait = self.lock_wait;
        let lock = if self.cni { Lock::on_node(wait) } else { Lock { wait, ..Lock::default() } };
        Lock { version: self.iptables_version, timeout: self.timeout, ..lock }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedCall {
    pub(super) capture: Capture,
    pub(super) run: Run,
    pub(super) warnings: Vec<String>,
}

pub(super) fn resolve(
    raw: &Raw,
    host: &dyn Host,
    before: Vec<InputProblem>,
) -> Result<ResolvedCall, Problems> {
    finish(SettingReader::new(raw, before), host)
}

pub(super) fn finish(mut reader: SettingReader<'_>, host: &dyn Host) -> Result<ResolvedCall, Problems> {
    let run = read(&mut reader);
    configured(reader, host, run)
}

pub(super) fn configured(
    mut reader: SettingReader<'_>,
    host: &dyn Host,
    run: Run,
) -> Result<ResolvedCall, Problems> {
    let capture = mesh::configure(&mut reader, host, run.cni);
    reader.finish().map(|warnings| ResolvedCall { capture, run, warnings })
}

/// Reads a call without capture settings: the run's settings and the caller's (`own`). Starts logging.
pub(super) fn begin<T>(
    raw: &Raw,
    before: Vec<InputProblem>,
    stdout: fn(&Run) -> Stdout,
    own: impl FnOnce(&mut SettingReader<'_>) -> T,
) -> Result<(Run, T), Problems> {
    let mut reader = SettingReader::new(raw, before);
    let run = read(&mut reader);
    let own = own(&mut reader);
    let warnings = reader.finish()?;
    start_logging(raw, &run, stdout(&run))?;
    warnings.iter().for_each(|warning| tracing::warn!(target: "config", "{warning}"));
    Ok((run, own))
}

pub(super) const ANSWER: fn(&Run) -> Stdout = |_| Stdout::Answer;
pub(super) const LOG: fn(&Run) -> Stdout = |_| Stdout::Any;

/// Reads the run's settings. The result is invalid if the reader has a problem.
pub(super) fn read(reader: &mut SettingReader<'_>) -> Run {
    let dry_run = reader.switch(Setting::DryRun);
    let restore_format = reader.switch_or(Setting::RestoreFormat, true);
    let clean = reader.switch(Setting::CleanupOnly);
    let skip = reader.switch(Setting::SkipRuleApply);
    let backend = backend(reader);
    let mode = match (dry_run, clean, skip) {
        (true, true, _) => RunMode::PreviewClean,
        (true, _, _) if backend == Choice::Nftables => RunMode::Preview(Preview::Nft),
        (true, _, _) if restore_format => RunMode::Preview(Preview::Restore),
        (true, _, _) => RunMode::Preview(Preview::Commands),
        (false, true, _) => RunMode::Clean,
        (false, false, true) => RunMode::Nothing,
        (false, false, false) => RunMode::Apply,
    };
    Run {
        mode,
        namespace: reader.optional(Setting::NetworkNamespace, "", |path| Some(PathBuf::from(path))),
        cni: reader.switch(Setting::CniMode),
        backend,
        iptables_version: reader.optional(
            Setting::IptablesVersion,
            "is not a version; expected one such as 1.8.9",
            |text| text.parse::<Version>().ok(),
        ),
        reconcile: reader.switch(Setting::Reconcile),
        replace: reader.switch(Setting::Replace),
        force: reader.switch(Setting::ForceApply),
        lock_wait: reader
            .scalar(Setting::LockWait, "is not a time to wait; expected a number of seconds", unsigned)
            .unwrap_or(30),
        timeout: reader
            .scalar(Setting::Timeout, "is not a time limit; expected 100ms to 10m, such as 30s", timeout)
            .unwrap_or(exec::TIMEOUT),
        allow_host: reader.switch(Setting::AllowHostNamespace),
        format: reader
            .optional(Setting::Format, "is not a format; expected text, json or yaml", |text| match text {
                "text" => Some(Format::Text),
                other => Encoding::named(other).map(Format::Data),
            })
            .unwrap_or(Format::Text),
        validates: reader.switch(Setting::RunValidation),
        probe_port: reader.port(Setting::ProbePort, PROBE_PORT),
        probe_timeout: reader.duration(Setting::ProbeTimeout, Duration::from_secs(5)),
        mesh: mesh::of(reader),
        names_mesh: reader.raw.stated(Setting::Mesh).is_some(),
        settings: if mode == RunMode::Apply { mesh::settings_text(reader.raw) } else { String::new() },
        logging: logging(reader),
    }
}

/// Reads a setting whose values are the words of its row; `values` are their meanings, in the same order.
pub(super) fn one_of<T: Copy>(reader: &mut SettingReader<'_>, setting: Setting, values: &[T]) -> Option<T> {
    let words = setting.row().values;
    debug_assert_eq!(words.len(), values.len(), "a meaning for each word");
    reader.one_of(setting, &alternatives(words), |text| {
        values.get(words.iter().position(|word| *word == text)?).copied()
    })
}

fn timeout(text: &str) -> Option<Duration> {
    const FROM: Duration = Duration::from_millis(100);
    const TO: Duration = Duration::from_secs(600);
    duration::parse(text).filter(|time| (FROM..=TO).contains(time))
}

fn backend(reader: &mut SettingReader<'_>) -> Choice {
    let native = reader.switch(Setting::NativeNftables);
    let variant = |text: &str| Variant::named(&text.to_ascii_lowercase());
    let variant =
        reader.optional(Setting::ForceBinary, "is not an iptables variant; expected legacy or nft", variant);
    let complaint = "is not a backend; expected nftables, iptables, iptables-nft or iptables-legacy";
    let named = reader.optional(Setting::Backend, complaint, Choice::named);
    let mut contradicts = |option: &str| {
        reader.blame(Setting::Backend, &format!("contradicts {option}; give one of them"));
        Choice::InUse(Preference::Nftables)
    };
    match (named, native, variant) {
        (Some(Choice::Iptables(_)), true, _) => contradicts("--native-nftables"),
        (Some(Choice::Nftables), _, Some(_)) => contradicts("--force-iptables-binary"),
        (Some(Choice::Iptables(Some(one))), _, Some(other)) if one != other => {
            contradicts("--force-iptables-binary")
        }
        (Some(Choice::Nftables), ..) | (_, true, _) => Choice::Nftables,
        (Some(Choice::Iptables(one)), ..) => Choice::Iptables(one.or(variant)),
        (_, _, Some(_)) => Choice::Iptables(variant),
        (Some(Choice::InUse(_)) | None, false, None) => Choice::InUse(Preference::Nftables),
    }
}

fn logging(reader: &mut SettingReader<'_>) -> Logging {
    let json = reader.switch(Setting::LogAsJson);
    let levels = reader.list(Setting::LogOutputLevel, |reader, source, item| {
        let read = item.parse::<ScopeLevel>();
        read.map_err(|problem| reader.problem(source, item, problem)).ok()
    });
    let (everything, named) = by_scope(levels);
    let filter = |level: &str| level.parse().expect("a level of tracing");
    Logging {
        level: everything.map_or(LevelFilter::INFO, filter),
        scopes: named.into_iter().map(|item| (item.scope, filter(item.level))).collect(),
        json,
        targets: reader.items(Setting::LogTarget).0.into_iter().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_names_match_those_of_the_engine() {
        assert_eq!(Setting::Backend.row().values, Choice::NAMED.map(|(name, _)| name));
    }

    #[test]
    fn empty_name_selects_no_mesh() {
        for (value, names_mesh) in [("", false), (" ", false), ("istio", true), ("kuma", true)] {
            let raw = Raw::of_flags([(Setting::Mesh, value)]);
            let run = read(&mut SettingReader::new(&raw, Vec::new()));
            assert_eq!(run.names_mesh, names_mesh, "{value:?}");
        }
    }
}
