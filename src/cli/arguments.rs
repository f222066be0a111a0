//! Arguments into settings.
//!
//! Flags are taken as Go's pflag takes them: `-p 15001`, `-p15001`, `-p=15001`, `--envoy-port=15001`; switches bare or
//! with `=true`; the last of a repeated flag wins; values may be empty or start with a dash. The walk that reads them is
//! in [`super::pflag`]. clap is asked where it has something to print: help, the version, and what is wrong with a call
//! that names no command. It takes longer to build its tree than to do all else that a dry run does, so a call that
//! needs no answer from it does without; that it would have read the same is held by a law. Values are text here: what
//! they mean is for the policy to say, so that all problems are reported together.

use super::command::Command;
use super::pflag::ParsedArgs;
use super::tree::tree;
use super::{Exit, linkerd_init, pflag, report};
use crate::cni;
use mesh::Mesh;
use mesh::settings::Setting;
use mesh::{Problem, Problems};
use std::{ffi::OsString, path::Path};

/// A call, as far as its form goes.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) command: Command,
    /// The mesh whose flags were taken.
    pub(super) mesh: Mesh,
    /// Flags given, with their text, in the order of the words: of a repeated one, the last counts.
    pub(super) flags: Vec<(Setting, String)>,
    /// What is wrong with the form.
    pub(super) problems: Vec<Problem>,
    /// The command line of another program.
    pub(super) behind: Vec<OsString>,
}

/// Parses the arguments. Called by the name of a program that we stand in for, the program is the command in its place, and
/// by the plugin's name the plugin.
pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Invocation, Exit> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let called = arguments.first().and_then(|path| Path::new(path).file_name()).map(OsString::from);
    match called {
        Some(name) if name == "istio-iptables" => arguments.insert(1, name),
        Some(name) if linkerd_init::CALLED.iter().any(|called| name == *called) => {
            arguments.insert(1, Command::LinkerdInit.entry().name.into());
        }
        Some(name) if name == "kumactl" => arguments.insert(1, "kuma-init".into()),
        Some(name) if name == cni::PLUGIN => arguments.insert(1, cni::COMMAND.into()),
        Some(_) | None => {}
    }
    let ParsedArgs { words, mesh, problems, read, behind } = pflag::parse(arguments);
    match read {
        Some((entry, flags)) => {
            let mesh = entry.mesh.unwrap_or(mesh);
            Ok(Invocation { command: entry.command, mesh, flags, problems, behind })
        }
        None => Err(answer(words, mesh, problems)),
    }
}

/// What clap has to say to words that are no call.
fn answer(words: Vec<OsString>, mesh: Mesh, problems: Vec<Problem>) -> Exit {
    let mut parser = tree(mesh);
    match parser.try_get_matches_from_mut(words) {
        Err(error) if problems.is_empty() || !error.use_stderr() => print(&error),
        Err(_) => report::bad_input(&Problems(problems)),
        Ok(matches) if matches.subcommand_name() == Some(cni::COMMAND) => {
            let text = "takes no flags: the container runtime passes its configuration on standard input and in the environment";
            report::bad_input(&Problems(vec![Problem::of(cni::COMMAND, text)]))
        }
        // The one command that is clap's alone.
        Ok(_) => report::text(&parser.render_version()),
    }
}

/// Prints what clap has to say: help, the version, or what is wrong with the call.
fn print(error: &clap::Error) -> Exit {
    // Nothing sensible is left to do when even the answer can't be printed.
    let _ = error.print();
    if error.use_stderr() { Exit::BadInput } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command::{COMMANDS, Entry};
    use crate::cli::tree::VERSION;
    use mesh::settings::{self, Row};
    use mesh::sources;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, os::unix::ffi::OsStringExt};

    fn check(arguments: &[&str], expected: &[(Setting, &str)]) {
        let all = ["sidecar-init", "istio-iptables"].iter().chain(arguments).map(OsString::from);
        let invocation = parse(all).expect("no answer");
        assert_eq!(invocation.problems, [], "{arguments:?}");
        // Of a repeated flag, the last one counts.
        let flags: BTreeMap<Setting, &str> =
            invocation.flags.iter().map(|(setting, text)| (*setting, text.as_str())).collect();
        assert_eq!(flags, BTreeMap::from_iter(expected.iter().copied()), "{arguments:?}");
    }

    /// The command and its flags as clap reads them; `None` where it has to answer.
    fn by_clap(words: Vec<OsString>, mesh: Mesh) -> Option<(&'static str, BTreeMap<Setting, String>)> {
        let matches = tree(mesh).try_get_matches_from(words).ok()?;
        let (name, matches) = matches.subcommand()?;
        let (within, matches) = match matches.subcommand() {
            Some((within, matches)) => ((Some(name), within), matches),
            None => ((None, name), matches),
        };
        let entry: &Entry = COMMANDS.iter().find(|entry| entry.within() == within)?;
        let value = |row: &Row| Some((row.setting, sources::text(matches.get_one::<OsString>(row.long)?)));
        Some((entry.name, entry.rows(mesh).filter(|row| !row.long.is_empty()).filter_map(value).collect()))
    }

    /// A word that may stand on a command line: a flag in one of its forms, a command, or something else.
    fn word() -> impl Strategy<Value = OsString> {
        let row = proptest::sample::select(settings::all().collect::<Vec<_>>());
        let value = proptest::sample::select(vec!["", "1", "=", "=x", "true", "a=b", "-1", "-n", "--"]);
        let flag = (row, value, 0..6).prop_map(|(row, value, form)| {
            let short = row.short.unwrap_or('n');
            match form {
                0 => format!("--{}", row.long),
                1 => format!("--{}={value}", row.long),
                2 => format!("-{short}"),
                3 => format!("-{short}{value}"),
                4 => format!("-n{short}={value}"),
                _ => format!("-nf{short}"),
            }
        });
        let commands: Vec<&str> = COMMANDS.iter().map(|entry| entry.name).collect();
        let others =
            ["--", "-", "", "x", "--nope", "--help", "-h", "-V", "--version", VERSION, "help", "-nZ"];
        let other = proptest::sample::select([&commands[..], &others].concat()).prop_map(str::to_owned);
        let text = prop_oneof![8 => flag, 1 => other].prop_map(OsString::from);
        let no_text = Just(OsString::from_vec(b"--log_target=\xff".to_vec()));
        prop_oneof![20 => text, 1 => no_text]
    }

    proptest! {
        #[test]
        fn clap_reads_the_same(
            command in proptest::sample::select(COMMANDS.iter().map(|entry| entry.name).collect::<Vec<_>>()),
            before in proptest::collection::vec(word(), 0..2),
            after in proptest::collection::vec(word(), 0..8),
        ) {
            let command = command.split(' ').map(OsString::from).collect();
            let all = [vec!["sidecar-init".into()], before, command, after].concat();
            let ParsedArgs { words, mesh, read, .. } = pflag::parse(all);
            let read = read.map(|(entry, flags)| (entry.name, flags.into_iter().collect()));
            prop_assert_eq!(read, by_clap(words.clone(), mesh), "{:?}", words);
        }
    }

    #[test]
    fn flags_are_taken_as_pflag_takes_them() {
        for form in [&["-p", "15001"][..], &["-p15001"], &["-p=15001"], &["--envoy-port=15001"]] {
            check(form, &[(Setting::EnvoyPort, "15001")]);
        }
        check(&["--envoy-port", "1", "-p", "2"], &[(Setting::EnvoyPort, "2")]);
        check(&["-p", "-1"], &[(Setting::EnvoyPort, "-1")]);
        check(&["-p", "-b"], &[(Setting::EnvoyPort, "-b")]);
        check(&["-p", "--dry-run"], &[(Setting::EnvoyPort, "--dry-run")]);
        check(&["-x", "", "-b", "*"], &[(Setting::InboundPorts, "*"), (Setting::ServiceExcludeCidr, "")]);
        check(&["--istio-service-exclude-cidr="], &[(Setting::ServiceExcludeCidr, "")]);
        check(&["-n"], &[(Setting::DryRun, "true")]);
        check(&["--dry-run=false"], &[(Setting::DryRun, "false")]);
        check(&["-n", "-n=0"], &[(Setting::DryRun, "0")]);
        check(
            &["-n", "-f=0", "-p", "1"],
            &[(Setting::EnvoyPort, "1"), (Setting::DryRun, "true"), (Setting::RestoreFormat, "0")],
        );
        check(&["-nf"], &[(Setting::DryRun, "true"), (Setting::RestoreFormat, "true")]);
    }

    #[test]
    fn every_fault_of_form_is_told_and_the_rest_is_parsed() {
        let call =
            ["-p", "1", "--nope", "-x", "2", "--neither=2", "stray", "-Z", "x", "--envoy-prot", "3", "-b"];
        let all = ["sidecar-init", "istio-iptables"].iter().chain(&call).map(OsString::from);
        let invocation = parse(all).expect("no answer");
        let told: Vec<String> = invocation.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "--nope: no such flag; --help lists those there are",
                "--neither: no such flag; --help lists those there are",
                "argument: \"stray\" is not expected; values of switches are written --dry-run=false",
                "-Z: no such flag; --help lists those there are",
                "--envoy-prot: no such flag; did you mean --envoy-port?",
                "--istio-inbound-ports: needs a value; write --flag= for an empty one",
            ]
        );
        let flags = [(Setting::EnvoyPort, "1".to_owned()), (Setting::ServiceExcludeCidr, "2".to_owned())];
        assert_eq!(invocation.flags, flags);
    }
}
