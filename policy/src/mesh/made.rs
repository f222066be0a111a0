//! How rules are made, in words that fit beside them: what was called, and what was said to be captured.

use crate::settings::{Kind, Topic};
use crate::sources::{Raw, boolean};
use rules::desired::Made;

/// A note of who makes rules; `at` is the time as RFC 3339 writes it, in UTC. The facts of a pod are no part of it: pods that are told the same are noted alike.
pub fn made(version: &str, command: &str, settings: String, at: &str) -> Made {
    // Nobody needs to know it by the microsecond.
    let at = at.split_once('.').map_or(at.to_owned(), |(seconds, _)| format!("{seconds}Z"));
    Made { version: version.to_owned(), command: command.to_owned(), at, settings }
}

/// What was said to be captured, as flags that a shell takes: short where a flag has a letter, since there is little room.
pub fn said(raw: &Raw) -> String {
    let meant = raw.iter().filter(|(setting, _)| setting.is_for(raw.mesh()));
    let capture = meant.map(|(setting, given)| (setting.row(), given.value.trim()));
    let words = capture.filter(|(row, _)| row.topic == Topic::Capture).map(|(row, value)| {
        let flag = match row.short {
            Some(letter) => format!("-{letter}"),
            None => row.option(),
        };
        match row.kind {
            Kind::Switch if boolean(value) == Some(true) => flag,
            Kind::Switch => format!("{flag}={value}"),
            Kind::Value(_) => format!("{flag} {}", quoted(value)),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A value as a shell takes it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/+=@".contains(c);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;

    #[test]
    fn a_shell_takes_what_was_said() {
        let flags = [
            (Setting::InboundPorts, "*"),
            (Setting::ServiceExcludeCidr, "10.0.0.0/8,fd00::/8"),
            (Setting::RedirectDns, "true"),
            (Setting::CaptureAllDns, "false"),
            (Setting::DryRun, "true"),
        ];
        let flags = flags.map(|(setting, value)| (setting, value.to_owned()));
        let text = said(&Raw::new(flags, |_| true, |_| None));
        assert_eq!(text, "-b '*' -x 10.0.0.0/8,fd00::/8 --redirect-dns --capture-all-dns=false");
    }

    #[test]
    fn times_are_told_by_the_second() {
        let made = made("1", "apply", String::new(), "1970-01-02T00:00:00.123000Z");
        assert_eq!(made.at, "1970-01-02T00:00:00Z");
    }
}
