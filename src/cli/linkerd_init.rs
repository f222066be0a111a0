//! The drop-in for linkerd's `proxy-init`. The mesh reads the capture flags, this module the flags of the run.

use super::run::{self, Logging, Preview, ResolvedCall, Run, RunMode};
use super::{Exit, RunResult, change, report};
use diagnose::{lint::quick_check, trace::utc};
use mesh::linkerd::{self, Linkerd, commands};
use mesh::sources::{Given, Raw, SettingReader, Source};
use mesh::{Capture, InputProblem, Mesh, Problems, Setting};
use rules::{Family, number::unsigned};
use sidecar_init::backend::Variant;
use sidecar_init::engine::{Choice, OnDrift, Preference};
use sidecar_init::sys::{exec, namespace};
use std::{error, io, path::Path, time::SystemTime};
use tracing::level_filters::LevelFilter;

pub(super) const CALLED: [&str; 2] = ["proxy-init", "linkerd2-proxy-init"];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Extra {
    /// Programs that upstream's flags select; by default legacy, unless legacy is missing or nft has our rules.
    programs: Choice,
    /// Seconds that conntrack keeps half-closed connections; `None` keeps the setting.
    close_wait: Option<u32>,
    waits: bool,
}

/// iptables programs by mode (the newer flag) and by name (the older).
const PROGRAMS: [(&str, &str, Choice); 3] = [
    ("legacy", "iptables-legacy", Choice::Iptables(Some(Variant::Legacy))),
    ("nft", "iptables-nft", Choice::Iptables(Some(Variant::Nft))),
    ("plain", "iptables", Choice::Iptables(None)),
];

/// Flags, with those implied by the command: the mesh, the namespace, and upstream's defaults. A simulation enters no namespace.
pub(super) fn with_implied(raw: Raw) -> Raw {
    let mesh = Given { value: Mesh::Linkerd.name().to_owned(), source: Source::Default(Setting::Mesh) };
    let defaults = linkerd::IMPLICIT_DEFAULTS.iter().map(|&(setting, value)| {
        (setting, Given { value: value.to_owned(), source: Source::Default(setting) })
    });
    let namespace = raw.get(Linkerd::NetworkNamespace).filter(|_| !raw.is_on(Linkerd::Simulate)).cloned();
    let namespace = namespace.map(|given| (Setting::NetworkNamespace, given));
    raw.over(Raw::of([(Setting::Mesh, mesh)].into_iter().chain(defaults).chain(namespace)))
}

pub(super) fn asks_for_data(raw: &Raw) -> bool {
    raw.get(Linkerd::LogFormat).is_some_and(|given| given.value.trim() == "json")
}

pub(super) fn run(raw: &Raw, before: Vec<InputProblem>) -> RunResult {
    let (call, extra) = resolve(raw, before)?;
    super::start_logging(raw, &call.run, call.run.stdout())?;
    for warning in &call.warnings {
        tracing::warn!(target: "config", "{warning}");
    }
    super::warn_by(quick_check, raw, &call);
    if let RunMode::Preview(_) = call.run.mode {
        return simulated(raw, &call.capture, &extra);
    }
    change::host_warning().iter().for_each(|text| tracing::warn!(target: "iptables", "{text}"));
    set(&call, &extra)?;
    Ok(Exit::Done)
}

fn resolve(raw: &Raw, before: Vec<InputProblem>) -> Result<(ResolvedCall, Extra), Problems> {
    let missing = linkerd::missing(raw).map(|setting| {
        InputProblem::of(
            &setting.row().option(),
            "is missing; expected the proxy's port, a number from 1 to 65535",
        )
    });
    let mut reader = SettingReader::new(raw, before.into_iter().chain(missing).collect());
    let run = run::read(&mut reader);
    let extra = Extra {
        programs: programs(&mut reader),
        close_wait: close_wait(&mut reader),
        waits: reader.switch(Linkerd::UseWaitFlag),
    };
    let mode = if reader.switch(Linkerd::Simulate) { RunMode::Preview(Preview::Commands) } else { run.mode };
    // An image without iptables selects another backend with our own flag or variable.
    let backend = match run.backend {
        Choice::InUse(_) => extra.programs,
        given => given,
    };
    let logging = logging(&mut reader, run.logging);
    let run = Run { mode, backend, logging, ..run };
    let call = run::configured(reader, &super::System::of(raw), run)?;
    Ok((call, extra))
}

/// Two flags select the programs: the newer one wins, and both must be valid.
fn programs(reader: &mut SettingReader<'_>) -> Choice {
    let complaint = "is not an iptables mode; expected legacy, nft or plain";
    let named = |text: &str| PROGRAMS.iter().find(|(mode, ..)| *mode == text);
    let mode = reader.optional(Linkerd::IptablesMode, complaint, named);
    let complaint = "is not a program that can set rules; expected iptables-legacy, iptables-nft or iptables";
    let named = |text: &str| PROGRAMS.iter().find(|(_, name, _)| *name == text);
    let program = reader.optional(Linkerd::FirewallBinPath, complaint, named);
    mode.or(program).map_or(Choice::InUse(Preference::Legacy), |(.., choice)| *choice)
}

fn close_wait(reader: &mut SettingReader<'_>) -> Option<u32> {
    let complaint = "is not a time; expected a number of seconds, or 0 to keep the kernel's";
    let seconds = reader.scalar(Linkerd::CloseWaitTimeout, complaint, |text| {
        unsigned(text).filter(|&seconds| i32::try_from(seconds).is_ok())
    });
    seconds.filter(|&seconds| seconds != 0)
}

fn logging(reader: &mut SettingReader<'_>, common: Logging) -> Logging {
    let complaint = "is not a log format; expected plain or json";
    let forms = [("plain", false), ("json", true)];
    let named = |text: &str| forms.into_iter().find(|(form, _)| *form == text);
    let json = reader.optional(Linkerd::LogFormat, complaint, named).map(|(_, json)| json);
    let complaint = "is not a log level; expected panic, fatal, error, warn, warning, info, debug or trace";
    let level = reader.optional(Linkerd::LogLevel, complaint, |text| {
        Some(match text.to_ascii_lowercase().as_str() {
            "panic" | "fatal" | "error" => LevelFilter::ERROR,
            "warn" | "warning" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            _ => return None,
        })
    });
    Logging { level: level.unwrap_or(common.level), json: json.unwrap_or(common.json), ..common }
}

#[derive(Debug, thiserror::Error)]
#[error("{} can't be set to {seconds}: {what}", Linkerd::CloseWaitTimeout.row().option())]
struct CloseWaitError {
    seconds: u32,
    what: &'static str,
    source: io::Error,
}

/// Sets conntrack's timeout and the rules, or neither. A timeout that exists only with the rules is set after them; if that
/// fails, the rules stay.
fn set(call: &ResolvedCall, extra: &Extra) -> Result<(), Box<dyn error::Error>> {
    let ResolvedCall { capture, run, .. } = call;
    let timed =
        |seconds: u32, what: &'static str| {
            namespace::set_sysctl(namespace::CLOSE_WAIT, &seconds.to_string())
                .map_err(|source| CloseWaitError { seconds, what, source })
        };
    let before = match extra.close_wait.map(|seconds| timed(seconds, "nothing was changed")).transpose() {
        // Before the first NAT rule, conntrack may not be loaded.
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => None,
        before => before?,
    };
    let done = change::set(run, "linkerd-init", capture, OnDrift::Replace);
    if let (Err(_), Some(before)) = (&done, &before)
        && let Err(error) = namespace::set_sysctl(namespace::CLOSE_WAIT, before)
    {
        tracing::warn!(target: "iptables", "{} can't be restored: {error}", namespace::CLOSE_WAIT);
    }
    done?;
    if let (Some(seconds), None) = (extra.close_wait, before) {
        timed(seconds, "the rules are in place")?;
    }
    Ok(())
}

/// Prints the commands that upstream would run, in its log format, and changes nothing.
fn simulated(raw: &Raw, capture: &Capture, extra: &Extra) -> RunResult {
    let Capture::Linkerd(config) = capture else { unreachable!("the command's words are linkerd's") };
    let time = utc(SystemTime::now());
    let time = time.split_once('.').map_or(time.clone(), |(seconds, _)| format!("{seconds}Z"));
    let is_json = asks_for_data(raw);
    let namespace = raw.get(Linkerd::NetworkNamespace).filter(|given| !given.value.is_empty());
    let mut text = String::new();
    let mut add = |program: &str, arguments: &str| {
        let command = match namespace {
            Some(given) => {
                format!("{} --net={} -- {program} {arguments}", found("nsenter"), given.value)
            }
            None => format!("{} {arguments}", found(program)),
        };
        text.push_str(&log_line(&time, &command, is_json));
    };
    for family in capture.families() {
        // Without a choice, upstream's default applies.
        let known = PROGRAMS.iter().find(|(.., choice)| *choice == extra.programs).unwrap_or(&PROGRAMS[0]);
        let program = match family {
            Family::V4 => known.1.to_owned(),
            Family::V6 => known.1.replacen("ip", "ip6", 1),
        };
        let save = format!("{program}-save");
        add(&save, "-t nat");
        let wait = if extra.waits { " -w" } else { "" };
        for command in commands(config, family) {
            add(&program, &format!("{command}{wait}"));
        }
        add(&save, "-t nat");
    }
    report::whole(&text)
}

fn found(program: &str) -> String {
    exec::find(program).as_deref().unwrap_or(Path::new(program)).display().to_string()
}

fn log_line(time: &str, message: &str, is_json: bool) -> String {
    match is_json {
        true => format!("{}\n", serde_json::json!({"level": "info", "msg": message, "time": time})),
        false => format!("time=\"{time}\" level=info msg={}\n", serde_json::Value::from(message)),
    }
}
