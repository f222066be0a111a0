//! The binary, the states that it is asked for, and all that it may touch.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};

/// Where system programs are.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) const VARIANTS: [Variant; 2] = [Variant::Legacy, Variant::Nft];

/// One family, one table.
pub(crate) const REDIRECT: &[&str] = &[
    "--pod-ips",
    "10.77.0.2",
    "-m",
    "REDIRECT",
    "-u",
    "1337",
    "-g",
    "1337",
    "-b",
    "*",
    "-i",
    "*",
    "-d",
    "15090,15021",
];

/// Everything: both families, three tables each, policy rules, routes, and the address.
pub(crate) const FULL: &[&str] = &[
    "--pod-ips",
    "10.77.0.2,fd77::2",
    "--dual-stack",
    "-m",
    "TPROXY",
    "-u",
    "1337",
    "-g",
    "1337",
    "-b",
    "*",
    "-i",
    "*",
    "--redirect-dns",
    "--dns-servers",
    "10.88.0.10,fd88::10",
];

/// `name` with `flags`, for one variant.
pub(crate) fn call<'a>(name: &'a str, variant: Variant, flags: &[&'a str]) -> Vec<&'a str> {
    [&[name], variant.flags(), flags].concat()
}

/// How a run of the binary ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Fails unless the exit code is this one.
    #[track_caller]
    pub(crate) fn with(self, code: i32, what: &str) -> Self {
        assert_eq!(self.code, Some(code), "{what}\n{}{}", self.stdout, self.stderr);
        self
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// The binary, ready to be started, with nothing in its environment but `PATH`.
pub(crate) fn binary(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecar-init"));
    command.env_clear().env("PATH", PATH).args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command inside to its end.
pub(crate) fn ended(namespace: &Namespace, command: &mut Command) -> Ended {
    namespace.run(|| command.output()).expect("the program starts").into()
}

/// Runs the binary inside to its end.
pub(crate) fn run(namespace: &Namespace, arguments: &[&str]) -> Ended {
    ended(namespace, &mut binary(arguments))
}

/// Runs the binary inside; it must succeed.
#[track_caller]
pub(crate) fn succeed(namespace: &Namespace, arguments: &[&str]) -> Ended {
    run(namespace, arguments).with(0, &arguments.join(" "))
}

/// All that the binary may touch, as other programs list it.
///
/// Remarks, counters and tables without rules are left out: an empty table decides nothing, and legacy
/// tables can't be removed from a namespace once they are there.
pub(crate) fn state(namespace: &Namespace) -> String {
    let mut text = String::new();
    for variant in VARIANTS {
        for family in Family::BOTH {
            let program = variant.program(family, "-save");
            for (table, lines) in tables(&namespace.stdout(&program, &[])) {
                if lines.iter().any(|line| line.starts_with("-A") || line.contains(" - ")) {
                    writeln!(text, "{program} *{table}\n{}", lines.join("\n")).expect("a string grows");
                }
            }
        }
    }
    text + &routing(namespace)
}

/// Policy rules, routes and addresses of both families.
///
/// The kernel adds the local route of `::6` from a work queue (`addrconf_dad_work` in `net/ipv6/addrconf.c`), so on a busy
/// machine the address is listed for a moment without its route.
pub(crate) fn routing(namespace: &Namespace) -> String {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let listed = list_routing(namespace);
        let is_settled = !listed.contains("inet6 ::6/128 ") || listed.contains("local ::6 dev lo ");
        if is_settled || Instant::now() >= deadline {
            return listed;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn list_routing(namespace: &Namespace) -> String {
    ["rule show", "route show table all", "-o addr show"]
        .iter()
        .flat_map(|verb| ["-4", "-6"].map(|family| (family, verb)))
        .map(|(family, verb)| {
            let words: Vec<&str> = [family].into_iter().chain(verb.split(' ')).collect();
            format!("ip {}\n{}", words.join(" "), namespace.stdout("ip", &words))
        })
        .collect()
}

/// The lines of each table of a listing, without remarks and counters.
pub(crate) fn tables(saved: &str) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut table = String::new();
    for line in saved.lines() {
        match line.strip_prefix('*') {
            Some(name) => table = name.to_owned(),
            None if line.starts_with([':', '-']) => {
                let line = line.split(" [").next().unwrap_or(line).to_owned();
                tables.entry(table.clone()).or_default().push(line);
            }
            None => {}
        }
    }
    tables
}

/// Fails unless both are equal, and shows the lines that only one has.
#[track_caller]
pub(crate) fn same(before: &str, after: &str, what: &str) {
    if before == after {
        return;
    }
    let only = |these: &str, those: &str, sign: &str| -> String {
        let lines = these.lines().filter(|line| !those.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign} {line}\n")).collect()
    };
    let difference = only(before, after, "-") + &only(after, before, "+");
    panic!("{what}\n{difference}--- before\n{before}--- after\n{after}");
}

/// A number from the environment.
pub(crate) fn count(variable: &str, default: usize) -> usize {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// A folder of its own for one scene.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("life_cycle-{name}"));
    // What an earlier run of the tests has left, if there was one.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the target folder takes a folder");
    path
}
