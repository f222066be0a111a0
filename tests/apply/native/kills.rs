//! `kill -9` between any two system calls of a change: the old rules stand or the new ones, and the next run arrives.
//!
//! `strace` lists the calls of a run to its end. Then there is a run for each of them, which is killed as it enters that
//! call. After each the next change goes the other way, so that nothing has to be undone.

use crate::apply::native::support::{FACTS, in_namespace, ruleset};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, output, stdout};
use crate::support::rows::rows;
use crate::support::scope;
use serde_json::Value;
use std::{collections::HashMap, fs};

const COMMON: [&str; 8] = ["-u", "1337", "-g", "1337", "-i", "*", "-b", "*"];

fn call<'a>(verb: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    match flags {
        [] => vec!["clean"],
        flags => [&[verb, "--native-nftables"], &FACTS[..], &COMMON, flags].concat(),
    }
}

/// Brings the namespace to a state; its table and the call that brought it there. No flags: nothing of ours.
struct State<'a> {
    flags: &'a [&'a str],
    rules: Value,
}

impl<'a> State<'a> {
    fn reach(flags: &'a [&'a str]) -> Self {
        stdout(BINARY, &call("apply", flags), "");
        Self { flags, rules: ruleset() }
    }

    /// Whether its rules stand, by what `nft` and `check` say.
    fn is_there(&self) -> bool {
        let is_there = ruleset() == self.rules;
        if !self.flags.is_empty() {
            let code = output(BINARY, &call("check", self.flags), "").code;
            assert_eq!(code, Some(if is_there { 0 } else { 3 }), "check {:?}", self.flags);
        }
        is_there
    }
}

/// The calls of a change to this state, from the first socket on, before which nothing can be changed: each by its name, and how many of that name there have been with it.
fn calls(flags: &[&str]) -> Vec<(String, usize)> {
    let folder = Folder::new("calls");
    let log = folder.file("log");
    let strace = ["-f", "-o", &log, BINARY];
    stdout("strace", &[&strace[..], &call("apply", flags)].concat(), "");
    let text = fs::read_to_string(&log).expect("a log");
    let mut counts = HashMap::new();
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(1)?.split_once('('));
    let count = |(name, _): (&str, &str)| {
        let count = counts.entry(name.to_owned()).or_insert(0);
        *count += 1;
        (name.to_owned(), *count)
    };
    names.map(count).skip_while(|(name, _)| name != "socket").collect()
}

/// Kills a run at a call and says whether the new rules stand, if it was killed: not every run needs the memory that
/// the first one did.
fn kill(old: &State<'_>, new: &State<'_>, (name, count): &(String, usize)) -> Option<bool> {
    let kill = format!("inject={name}:signal=KILL:when={count}");
    let strace = ["-f", "-o", "/dev/null", "-e", &kill, BINARY];
    let run = output("strace", &[&strace[..], &call("apply", new.flags)].concat(), "");
    let killed = run.code.is_none();
    assert!(killed || run.succeeded(), "killed at {name} {count}: {}", run.stderr);
    let is_new = new.is_there();
    assert!(is_new || ruleset() == old.rules, "killed at {name} {count}:\n{:#}", ruleset());
    stdout(BINARY, &call("apply", new.flags), "");
    assert_eq!(ruleset(), new.rules, "after the kill at {name} {count}");
    killed.then_some(is_new)
}

fn check(states: [&[&str]; 2]) {
    in_namespace(|| {
        let [one, other] = states.map(State::reach);
        let (back, there) = (calls(one.flags), calls(other.flags));
        stdout(BINARY, &call("apply", one.flags), "");
        let mut found = [0, 0];
        let moments: Vec<_> = there.iter().zip(&back).collect();
        for (there, back) in scope::of(moments, 12) {
            let outcomes = [kill(&one, &other, there), kill(&other, &one, back)];
            outcomes.into_iter().flatten().for_each(|is_new| found[usize::from(is_new)] += 1);
        }
        // Many calls come before the one that changes something, and a few after it.
        let [old, new] = found;
        let all = 2 * there.len().min(back.len());
        let enough = if scope::all() { old > 60 && new > 5 && old + new > all - 10 } else { old + new > 12 };
        assert!(enough, "of {all}: old {old}, new {new}");
    });
}

rows! {
    from_one_configuration_to_another: check([&["-o", "80,443,8000-9000"], &["-x", "10.98.0.0/16", "-d", "15090", "--drop-invalid"]]);
    from_nothing_and_back: check([&[], &["-o", "80,443,8000-9000", "-x", "10.98.0.0/16"]]);
}
