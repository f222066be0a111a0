//! The drop-in for `kumactl install transparent-proxy` and `kumactl uninstall transparent-proxy`. Flags override variables, which
//! override files; later files override earlier ones.

use super::run::{self, Preview, ResolvedCall, Run, RunMode};
use super::{RunResult, change, host::System, report, start_logging, warn_by};
use diagnose::lint::quick_check;
use mesh::kuma::{Kuma, unknown_user};
use mesh::sources::{Given, NullHost, Raw, SettingReader, Source, keys};
use mesh::{CapturePolicy, InputProblem, Mesh, Setting};
use rules::number::unsigned;
use rules::{Cidr, Match, Position, Protocol, Rule, RuleSet, Statement, Table};
use sidecar_init::engine::{Choice, OnDrift, Preference};
use sidecar_init::{backend::Variant, sys::exec::Runner};
use std::{fs, io, mem, path::Path, time::Duration};

const COMPONENT: &str = "transparent-proxy";

const BACKUP: &str = "/etc/resolv.conf.kuma-backup";
const RESOLV_CONF: &str = "/etc/resolv.conf";

pub(super) fn run(raw: Raw, problems: Vec<InputProblem>) -> RunResult {
    let (raw, before) = with_files(raw, problems);
    let mut reader = SettingReader::new(&raw, before);
    let installs = installs(&mut reader);
    let run = run::read(&mut reader);
    let (run, verbose) = adapted(&mut reader, run, installs);
    let capture = match installs {
        true => mesh::configure(&mut reader, &System::of(&raw), run.cni),
        // The previous configuration does not matter: an unknown proxy user must not prevent removal.
        false => mesh::configure(&mut SettingReader::new(&of_kuma(), Vec::new()), &NullHost, true),
    };
    let warnings = reader.finish()?;
    let call = ResolvedCall { capture, run, warnings };
    start_logging(&raw, &call.run, call.run.stdout())?;
    let unknown = (installs && !call.run.cni).then(|| unknown_user(&raw, &System::of(&raw))).flatten();
    for warning in call.warnings.iter().chain(&unknown) {
        tracing::warn!(target: "config", "{warning}");
    }
    if installs {
        warn_by(quick_check, &raw, &call);
    }
    perform(&call, verbose)
}

/// True to install, false to uninstall.
fn installs(reader: &mut SettingReader<'_>) -> bool {
    let text = "is unknown; expected install transparent-proxy or uninstall transparent-proxy";
    let verbs = [("install", true), ("uninstall", false)];
    let verb = reader.optional(Kuma::Verb, text, |word| verbs.into_iter().find(|(verb, _)| *verb == word));
    let text = "is unknown; expected transparent-proxy";
    let component = reader.optional(Kuma::Component, text, |word| (word == COMPONENT).then_some(()));
    let is_missing = |setting| reader.raw.stated(setting).is_none();
    if is_missing(Kuma::Verb) || (component.is_none() && is_missing(Kuma::Component)) {
        let text = "has no action; expected install transparent-proxy or uninstall transparent-proxy";
        reader.whole(&Source::Key("kuma-init".to_owned()), text);
    }
    verb.is_none_or(|(_, installs)| installs)
}

/// Settings, with the files' values as defaults. `--config` may also contain a file's text.
fn with_files(mut raw: Raw, mut problems: Vec<InputProblem>) -> (Raw, Vec<InputProblem>) {
    let mut of_files = Raw::default();
    let mut read = |name: &str, text: &str| {
        let file = keys::read(Mesh::Kuma.settings(), name, text, |key| Source::Key(format!("{name}: {key}")));
        of_files = Raw::of(file.given).over(mem::take(&mut of_files));
        file.problems
    };
    if let Some(Given { value, source }) = raw.get(Kuma::Config).filter(|given| keys::is_text(&given.value)) {
        problems.extend(read(&source.to_string(), value));
        raw = raw.without(Kuma::Config);
    }
    let reader = SettingReader::new(&raw, Vec::new());
    for setting in [Kuma::ConfigFile, Kuma::Config] {
        let (paths, source) = reader.items(setting);
        for path in paths {
            let (named, text) = match path {
                "-" => ("standard input", io::read_to_string(io::stdin())),
                path => (path, fs::read_to_string(path)),
            };
            problems.extend(text.map(|text| read(named, &text)).unwrap_or_else(|error| {
                let text = format!("can't be read: {error}; expected a YAML or JSON file, or - for input");
                vec![InputProblem::with_item(&source, path, text)]
            }));
        }
    }
    let mut own = of_kuma();
    match (raw.get(Kuma::DpUid).cloned(), raw.get(Kuma::ProxyUser)) {
        (Some(given), Some(Given { source: Source::Flag(_), .. })) => {
            let text = "is the former name of --kuma-dp-user, which is also given; give one of them";
            problems.push(InputProblem::with_item(&given.source, &given.value, text));
        }
        (Some(given), _) => own = Raw::of([(Kuma::ProxyUser, given)]).over(own),
        (None, _) => {}
    }
    (own.over(raw).over(of_files), problems)
}

fn of_kuma() -> Raw {
    Raw::of_flags([(Setting::Mesh, Mesh::Kuma.name())])
}

fn adapted(reader: &mut SettingReader<'_>, run: Run, installs: bool) -> (Run, bool) {
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
            .warn("--store-firewalld: the rules are not stored in firewalld, and its reload may remove them");
    }
    let variant = variant(reader, run.timeout);
    let backend = match (run.backend, variant) {
        (Choice::InUse(_), Some(variant)) => Choice::Iptables(Some(variant)),
        (given, _) => given.preferring(Preference::Iptables),
    };
    let mode = match (installs, dry_run) {
        (true, false) => RunMode::Apply,
        (true, true) => RunMode::Preview(Preview::Restore),
        (false, false) => RunMode::Clean,
        (false, true) => RunMode::PreviewClean,
    };
    let settings = if mode == RunMode::Apply { mesh::settings_text(reader.raw) } else { String::new() };
    (Run { mode, backend, lock_wait, settings, cni: run.cni || on_node, ..run }, verbose)
}

/// Variant of a family's three named programs.
fn variant(reader: &mut SettingReader<'_>, timeout: Duration) -> Option<Variant> {
    const FORM: &str = "expected NAME:PATH for iptables, iptables-save and iptables-restore together, or likewise for ip6tables";
    const FAMILIES: [[&str; 3]; 2] = [
        ["iptables", "iptables-save", "iptables-restore"],
        ["ip6tables", "ip6tables-save", "ip6tables-restore"],
    ];
    let before = reader.problem_count();
    let programs = reader.list(Kuma::Executables, |reader, source, item| {
        let pair = item.split_once(':').map(|(name, path)| (name.trim().to_owned(), path.trim().to_owned()));
        let known =
            |(name, path): &(String, String)| FAMILIES.concat().contains(&&**name) && !path.is_empty();
        let text = match pair.as_ref().filter(|pair| known(pair)) {
            None => "is not an iptables program",
            Some((_, path)) if !Path::new(path).is_file() => "names a program that does not exist",
            Some(_) => return pair,
        };
        reader.problem(source, item, format!("{text}; {FORM}"));
        pair.filter(known)
    });
    for family in FAMILIES {
        let has = family.map(|name| programs.iter().any(|(named, _)| named == name));
        if has.contains(&true) && has.contains(&false) {
            let text = format!("names some but not all {} programs; {FORM}", family[0]);
            reader.blame(Kuma::Executables, &text);
        }
    }
    let (_, path) = programs.first()?;
    if reader.problem_count() != before {
        return None;
    }
    match Runner::new(timeout).run(Path::new(path), &["--version"]) {
        Ok(answer) if answer.contains("(nf_tables)") => Some(Variant::Nft),
        Ok(_) => Some(Variant::Legacy),
        Err(error) => {
            let text = format!("names a program that does not report its version: {error}; {FORM}");
            reader.blame(Kuma::Executables, &text);
            None
        }
    }
}

fn perform(ResolvedCall { capture, run, .. }: &ResolvedCall, verbose: bool) -> RunResult {
    if matches!(run.mode, RunMode::Apply | RunMode::Clean) {
        change::host_warning().iter().for_each(|text| tracing::info!(target: "iptables", "{text}"));
    }
    match run.mode {
        RunMode::Preview(_) => {
            let policy: &dyn CapturePolicy = &**capture;
            let texts = policy.families().map(|family| dry_run(policy.rules(family).rules(), verbose));
            report::whole(&texts.collect::<Vec<_>>().join("\n"))
        }
        RunMode::PreviewClean => change::preview_removal(run, capture.owner()),
        RunMode::Clean => {
            let removed = change::remove(run, capture.owner())?;
            restored()?;
            removed.exit()
        }
        RunMode::Apply | RunMode::Nothing => change::set(run, "kuma-init", capture, OnDrift::Replace)?.exit(),
    }
}

/// Upstream's dry run of a family. `verbose` adds headings and long options.
fn dry_run(rules: &RuleSet, verbose: bool) -> String {
    let mut lines = vec![format!("### {} ###", rules.family), String::new()];
    for table in TABLES.into_iter().filter(|table| rules.of_table(*table).next().is_some()) {
        lines.push(format!("* {table}"));
        let chains = rules.user_chains(table);
        lines.extend((verbose && !chains.is_empty()).then(|| "# chains".to_owned()));
        let verb = if verbose { "--new-chain" } else { "-N" };
        lines.extend(chains.iter().map(|chain| format!("{verb} {chain}")));
        let mut heading = None;
        for Statement { chain, position, rule, .. } in rules.of_table(table) {
            if verbose && heading.replace(chain) != Some(chain) {
                lines.push(format!("# rules of {chain}"));
            }
            let verb = match position {
                Position::Append => format!("-A {chain}"),
                Position::Insert(number) => format!("-I {chain} {number}"),
            };
            let words = [verb].into_iter().chain(conditions(rule)).chain([rule.target.to_string()]);
            let words = words.map(|words| if verbose { long(&words) } else { words });
            lines.push(words.collect::<Vec<_>>().join(" "));
        }
        lines.push("COMMIT".to_owned());
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

const TABLES: [Table; 3] = [Table::Raw, Table::Nat, Table::Mangle];

/// Replaces short options of a verb, condition or target with long ones.
fn long(words: &str) -> String {
    const OPTIONS: &str = "-A --append -I --insert -d --destination -i --in-interface -j --jump -m --match -o --out-interface \
                           -p --protocol -s --source --dport --destination-port --sport --source-port";
    let known: Vec<&str> = OPTIONS.split(' ').collect();
    let long = |word| known.chunks(2).find(|pair| pair[0] == word).map_or(word, |pair| pair[1]);
    words.split(' ').map(long).collect::<Vec<_>>().join(" ")
}

/// Conditions in upstream's form: only the pod's own addresses have a prefix length, and some modules precede the protocol.
fn conditions(rule: &Rule) -> impl Iterator<Item = String> {
    let own = ["127.0.0.1/32", "127.0.0.6/32", "::1/128", "::6/128"];
    let is_bare = move |network: &Cidr| network.is_host() && !own.contains(&&*network.to_string());
    let has = |is: fn(&Match) -> bool| rule.matches.iter().any(is);
    let has_list = has(|one| matches!(one, Match::DestinationPorts(_)));
    let arrives = has(|one| matches!(one, Match::InInterface(_)));
    rule.matches.iter().map(move |one| match one {
        Match::Source(of) if is_bare(of.value()) => format!("{}-s {}", of.sign(), of.value().address()),
        Match::Destination(of) if is_bare(of.value()) => format!("{}-d {}", of.sign(), of.value().address()),
        Match::Protocol(protocol) if has_list => format!("-m multiport -p {protocol}"),
        Match::Protocol(Protocol::Udp) if arrives => "-m udp -p udp".to_owned(),
        Match::DestinationPorts(ports) => format!("{}--dport {}", ports.sign(), ports.value()),
        other => other.to_string(),
    })
}

/// Restores, in place, the resolv.conf that an old release replaced: the runtime has mounted the file.
fn restored() -> io::Result<()> {
    let text = match fs::read(BACKUP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    fs::write(RESOLV_CONF, text)?;
    fs::remove_file(BACKUP)?;
    tracing::info!(target: "config", "restored {RESOLV_CONF} from {BACKUP}");
    Ok(())
}
