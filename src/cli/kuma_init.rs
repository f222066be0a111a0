//! The drop-in for `kumactl install transparent-proxy` and `kumactl uninstall transparent-proxy`. Flags override variables,
//! which override files, and of two files the later one wins.

use super::run::{self, Preview, ResolvedCall, Run, RunMode};
use super::{Exit, change, host::System, report, start_logging, warn_by};
use diagnose::lint::quick_check;
use mesh::kuma::{Kuma, keys, preview, unknown_user};
use mesh::sources::{Given, NullHost, Raw, SettingReader, Source};
use mesh::{CapturePolicy, InputProblem, Mesh, Problems, Setting};
use rules::number::unsigned;
use sidecar_init::engine::{Choice, OnDrift, Preference};
use sidecar_init::{backend::Variant, sys::exec::Runner};
use std::{fs, io, path::Path, time::Duration};

const COMPONENT: &str = "transparent-proxy";

/// The copy of the pod's resolv.conf that old releases have made.
const BACKUP: &str = "/etc/resolv.conf.kuma-backup";
const RESOLV_CONF: &str = "/etc/resolv.conf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KumaVerb {
    Install,
    Uninstall,
}

pub(super) fn run(raw: Raw, problems: Vec<InputProblem>) -> Result<Exit, Problems> {
    let (raw, before) = with_files(raw, problems);
    let mut reader = SettingReader::new(&raw, before);
    let verb = verb(&mut reader);
    let (run, logging) = run::read(&mut reader);
    let (run, verbose) = adapted(&mut reader, run, verb);
    let capture = match verb {
        KumaVerb::Install => mesh::configure(&mut reader, &System::of(&raw), run.cni),
        // What was captured does not matter any more: an unknown proxy user must not keep the rules from being removed.
        KumaVerb::Uninstall => {
            mesh::configure(&mut SettingReader::new(&Raw::of([of_kuma()]), Vec::new()), &NullHost, true)
        }
    };
    let warnings = reader.finish()?;
    let call = ResolvedCall { capture, run, logging, warnings };
    start_logging(&raw, &call.logging, call.run.stdout())?;
    let installs = verb == KumaVerb::Install;
    let unknown = (installs && !call.run.cni).then(|| unknown_user(&raw, &System::of(&raw))).flatten();
    for warning in call.warnings.iter().chain(&unknown) {
        tracing::warn!(target: "config", "{warning}");
    }
    if installs {
        warn_by(quick_check, &raw, &call);
    }
    Ok(perform(verb, &call, verbose))
}

fn verb(reader: &mut SettingReader<'_>) -> KumaVerb {
    let text = "is not known; expected install transparent-proxy or uninstall transparent-proxy";
    let read = reader.optional(Kuma::Verb, text, |word| match word {
        "install" => Some(KumaVerb::Install),
        "uninstall" => Some(KumaVerb::Uninstall),
        _ => None,
    });
    let text = "is not known; expected transparent-proxy";
    let component = reader.optional(Kuma::Component, text, |word| (word == COMPONENT).then_some(()));
    let is_missing = |setting| reader.raw.stated(setting).is_none();
    if is_missing(Kuma::Verb) || (component.is_none() && is_missing(Kuma::Component)) {
        let text = "names no action; expected install transparent-proxy or uninstall transparent-proxy";
        reader.whole(&Source::Key("kuma-init".to_owned()), text);
    }
    read.unwrap_or(KumaVerb::Install)
}

/// The settings, with those of the files as defaults. `--config` may also hold a file's text.
fn with_files(mut raw: Raw, mut problems: Vec<InputProblem>) -> (Raw, Vec<InputProblem>) {
    let mut of_files = Raw::default();
    if let Some(Given { value, source }) = raw.get(Kuma::Config).filter(|given| keys::is_text(&given.value)) {
        let name = source.to_string();
        let file = keys::read(&name, value, |key| Source::Key(format!("{name}: {key}")));
        of_files = Raw::of(file.given);
        problems.extend(file.problems);
        raw = raw.without(Kuma::Config);
    }
    let reader = SettingReader::new(&raw, Vec::new());
    for setting in [Kuma::ConfigFile, Kuma::Config] {
        let (paths, source) = reader.items(setting);
        for path in paths {
            let text = match path {
                "-" => io::read_to_string(io::stdin()),
                path => fs::read_to_string(path),
            };
            let named = if path == "-" { "standard input" } else { path };
            match text {
                Ok(text) => {
                    let file = keys::read(named, &text, |key| Source::Key(format!("{named}: {key}")));
                    of_files = Raw::of(file.given).over(of_files);
                    problems.extend(file.problems);
                }
                Err(error) => {
                    let text =
                        format!("can't be read: {error}; expected a file of YAML or JSON, or - for input");
                    problems.push(InputProblem::with_item(&source, path, text));
                }
            }
        }
    }
    let mut own = vec![of_kuma()];
    // The old name of a flag.
    match (raw.get(Kuma::DpUid).cloned(), raw.get(Kuma::ProxyUser)) {
        (Some(given), Some(Given { source: Source::Flag(_), .. })) => {
            let text = "is the old name of --kuma-dp-user, which is given too; give one of them";
            problems.push(InputProblem::with_item(&given.source, &given.value, text));
        }
        (Some(given), _) => own.push((Kuma::ProxyUser, given)),
        (None, _) => {}
    }
    (Raw::of(own).over(raw).over(of_files), problems)
}

fn of_kuma() -> (Setting, Given) {
    (Setting::Mesh, Given { value: Mesh::Kuma.to_string(), source: Source::Flag("mesh") })
}

fn adapted(reader: &mut SettingReader<'_>, run: Run, verb: KumaVerb) -> (Run, bool) {
    let dry_run = reader.switch(Kuma::DryRun);
    let verbose = reader.switch(Kuma::Verbose);
    let number = "is not a number; expected one from 0 to 4294967295";
    let lock_wait = reader.scalar(Kuma::LockWait, number, unsigned).unwrap_or(5);
    reader.scalar(Kuma::LockWaitInterval, number, unsigned);
    reader.scalar(Kuma::MaxRetries, number, unsigned);
    reader.duration(Kuma::RetrySleep, Duration::ZERO);
    let on_node = reader.switch(Kuma::CniMode);
    if reader.switch(Kuma::StoreFirewalld) {
        reader
            .warn("--store-firewalld: no rules are given to firewalld; when it reloads, it may remove these");
    }
    let variant = variant(reader, run.timeout);
    let backend = match (run.backend, variant) {
        (Choice::InUse(_), Some(variant)) => Choice::Iptables(Some(variant)),
        (given, _) => given.preferring(Preference::Iptables),
    };
    let mode = match (verb, dry_run) {
        (KumaVerb::Install, false) => RunMode::Apply,
        (KumaVerb::Install, true) => RunMode::Preview(Preview::Restore),
        (KumaVerb::Uninstall, false) => RunMode::Clean,
        (KumaVerb::Uninstall, true) => RunMode::PreviewClean,
    };
    let settings = if mode == RunMode::Apply { mesh::settings_text(reader.raw) } else { String::new() };
    (Run { mode, backend, lock_wait, settings, cni: run.cni || on_node, ..run }, verbose)
}

/// The variant of the programs that are named, which have to be those of a family together.
fn variant(reader: &mut SettingReader<'_>, timeout: Duration) -> Option<Variant> {
    const FORM: &str = "expected NAME:PATH for iptables, iptables-save and iptables-restore together, or the same of ip6tables";
    let before = reader.problem_count();
    let programs = reader.list(Kuma::Executables, |reader, source, item| {
        let pair = item.split_once(':').map(|(name, path)| (name.trim().to_owned(), path.trim().to_owned()));
        let known = |(name, path): &(String, String)| {
            let verb = name.strip_prefix("iptables").or_else(|| name.strip_prefix("ip6tables"));
            verb.is_some_and(|verb| ["", "-save", "-restore"].contains(&verb)) && !path.is_empty()
        };
        let pair = pair.filter(known);
        match &pair {
            None => reader.problem(source, item, format!("is not an iptables program; {FORM}")),
            Some((_, path)) if !Path::new(path).is_file() => {
                reader.problem(source, item, format!("names a program that is not there; {FORM}"));
            }
            Some(_) => {}
        }
        pair
    });
    let has = |name: &str| programs.iter().any(|(named, _)| named == name);
    for family in ["iptables", "ip6tables"] {
        let all = ["", "-save", "-restore"].map(|verb| has(&format!("{family}{verb}")));
        if all.contains(&true) && all.contains(&false) {
            reader.blame(Kuma::Executables, &format!("names some programs of {family} and not all; {FORM}"));
        }
    }
    let (_, path) = programs.first()?;
    if reader.problem_count() != before {
        return None;
    }
    match Runner::new(timeout).run(Path::new(path), &["--version"]) {
        Ok(answer) if answer.stdout.contains("(nf_tables)") => Some(Variant::Nft),
        Ok(_) => Some(Variant::Legacy),
        Err(error) => {
            let text = format!("names a program that does not report its version: {error}; {FORM}");
            reader.blame(Kuma::Executables, &text);
            None
        }
    }
}

fn perform(verb: KumaVerb, call: &ResolvedCall, verbose: bool) -> Exit {
    let ResolvedCall { capture, run, .. } = call;
    if matches!(run.mode, RunMode::Apply | RunMode::Clean) {
        change::host_warning().iter().for_each(|text| tracing::info!(target: "iptables", "{text}"));
    }
    match run.mode {
        RunMode::Preview(_) => {
            let policy: &dyn CapturePolicy = &**capture;
            let rules: Vec<_> = policy.families().map(|family| policy.rules(family)).collect();
            report::whole(&preview::dry_run(&rules, verbose))
        }
        RunMode::PreviewClean => change::preview_removal(run, capture.owner()),
        RunMode::Clean | RunMode::Apply | RunMode::Nothing => change::exit(match verb {
            KumaVerb::Install => change::set(run, "kuma-init", capture, OnDrift::Replace),
            KumaVerb::Uninstall => {
                change::remove(run, capture.owner()).and_then(|done| Ok(restored().map(|()| done)?))
            }
        }),
    }
}

/// Restores the resolv.conf that an old release has replaced, in place, because the runtime has mounted it.
fn restored() -> io::Result<()> {
    let text = match fs::read(BACKUP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    fs::write(RESOLV_CONF, text)?;
    fs::remove_file(BACKUP)?;
    tracing::info!(target: "config", "{RESOLV_CONF} is again what {BACKUP} held");
    Ok(())
}
