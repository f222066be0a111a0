//! Parser of the words after `-j`: the model's targets, and other tools' targets by their effect on a packet's path.

use crate::{Action, LogLevel, Mark, PortRange, Target};
use std::net::{IpAddr, SocketAddr};

/// The boolean is true if the model is exact. A chain can't have an extension's name: the extension wins.
pub(super) fn action(name: &str, options: &[&str]) -> (Action, bool) {
    if let Some(target) = exact(name, options) {
        return (Action::Target(target), true);
    }
    let text = [&[name], options].concat().join(" ");
    let action = match (name, options) {
        ("REJECT", _) => Action::Reject,
        ("REDIRECT", [] | ["--random"]) => Action::RedirectSamePort,
        ("REDIRECT", ["--to-ports", ports, "--random"]) => {
            redirect(ports).map_or(Action::Unknown(text), Action::Target)
        }
        ("DNAT", ["--to-destination", to] | ["--to-destination", to, "--random" | "--persistent"]) => {
            destination(to).unwrap_or(Action::Unknown(text))
        }
        ("SNAT" | "MASQUERADE", _) => Action::Source(text),
        // CT's other options then have no effect (`xt_ct_tg_check`).
        ("NOTRACK", []) | ("CT", ["--notrack", ..]) => Action::Notrack,
        // `--zone`, `--zone-orig` or `--zone-reply`: listings put it after all other options.
        ("CT", _) if options.iter().any(|option| option.starts_with("--zone")) => Action::UnknownZone(text),
        ("CT", ["--helper" | "--ctevents" | "--expevents" | "--timeout", ..]) => Action::Continue(text),
        ("SET", _) if options.contains(&"--map-mark") => Action::UnknownMark(text),
        ("CONNMARK" | "MARK" | "HMARK", _) => Action::UnknownMark(text),
        // The packet goes on to the next rule; fields that our rules test are unchanged (`iptables-extensions(8)`).
        (
            "AUDIT" | "CHECKSUM" | "CLASSIFY" | "CONNSECMARK" | "DSCP" | "ECN" | "HL" | "IDLETIMER" | "LED"
            | "LOG" | "NFLOG" | "RATEEST" | "SECMARK" | "SET" | "TCPMSS" | "TCPOPTSTRIP" | "TEE" | "TOS"
            | "TRACE" | "TTL",
            _,
        ) => Action::Continue(text),
        // These may end or redirect a packet's walk, and look like chains.
        (
            "CLUSTERIP" | "CT" | "DNAT" | "DNPT" | "MIRROR" | "NETMAP" | "NFQUEUE" | "QUEUE" | "SNPT"
            | "SYNPROXY" | "TPROXY" | "ULOG",
            [],
        ) => Action::Unknown(text),
        (chain, []) => match chain.parse() {
            Ok(chain) => return (Action::Target(Target::Jump(chain)), true),
            Err(_) => Action::Unknown(text),
        },
        _ => Action::Unknown(text),
    };
    (action, false)
}

fn exact(name: &str, options: &[&str]) -> Option<Target> {
    match (name, options) {
        ("ACCEPT", []) => Some(Target::Accept),
        ("DROP", []) => Some(Target::Drop),
        ("RETURN", []) => Some(Target::Return),
        ("REDIRECT", ["--to-ports", ports]) => redirect(ports),
        ("TPROXY", options) => tproxy(options),
        ("MARK", ["--set-xmark", mark]) => mark.parse().ok().map(Target::SetMark),
        ("MARK", ["--set-mark", mark]) => whole_mark(mark).map(Target::SetMark),
        ("CONNMARK", ["--set-xmark", mark]) => mark.parse().ok().map(Target::SetConnmark),
        ("CONNMARK", ["--set-mark", mark]) => whole_mark(mark).map(Target::SetConnmark),
        ("CONNMARK", [verb, masks @ ..]) if whole_masks(masks) => match *verb {
            "--save-mark" => Some(Target::SaveMark),
            "--restore-mark" => Some(Target::RestoreMark),
            _ => None,
        },
        ("CT", ["--zone", zone]) => zone.parse().ok().map(Target::SetZone),
        // Listings omit the default level.
        ("LOG", ["--log-prefix", prefix]) => {
            Some(Target::Log { prefix: prefix.parse().ok()?, level: LogLevel::default() })
        }
        ("LOG", ["--log-prefix", prefix, "--log-level", level]) => {
            let level = level.parse().ok().and_then(LogLevel::new)?;
            Some(Target::Log { prefix: prefix.parse().ok()?, level })
        }
        ("NFLOG", ["--nflog-prefix", prefix, "--nflog-group", group]) => {
            Some(Target::Nflog { group: group.parse().ok()?, prefix: prefix.parse().ok()? })
        }
        _ => None,
    }
}

fn whole_mark(mark: &str) -> Option<Mark> {
    mark.parse().ok().filter(|mark: &Mark| mark.is_whole())
}

fn redirect(ports: &str) -> Option<Target> {
    (!ports.contains(':')).then(|| ports.parse().ok().map(Target::Redirect))?
}

fn tproxy(options: &[&str]) -> Option<Target> {
    let (mut port, mut mark) = (None, Mark { value: 0, mask: 0 });
    for pair in options.chunks(2) {
        match pair {
            ["--on-port", value] => port = value.parse().ok(),
            ["--tproxy-mark", value] => mark = value.parse().ok()?,
            ["--on-ip", "0.0.0.0" | "::"] => {}
            _ => return None,
        }
    }
    port.map(|port| Target::Tproxy { port, mark })
}

fn whole_masks(masks: &[&str]) -> bool {
    masks.chunks(2).all(|pair| matches!(pair, ["--nfmask" | "--ctmask" | "--mask", "0xffffffff"]))
}

/// `ADDRESS`, `ADDRESS:PORTS`, `:PORTS`, or with the address in brackets. Address ranges are unknown.
fn destination(text: &str) -> Option<Action> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Action::Destination { address: Some(address), ports: None });
    }
    let (address, ports) = text.rsplit_once(':')?;
    let ports: PortRange = ports.parse().ok()?;
    let address = match address {
        "" => None,
        // The standard library's parser checks the brackets.
        address => Some(format!("{address}:{}", ports.first()).parse::<SocketAddr>().ok()?.ip()),
    };
    Some(Action::Destination { address, ports: Some(ports) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Action) {
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(action(words[0], &words[1..]), (expected.clone(), false), "{text:?}");
    }

    #[test]
    fn foreign_targets_have_their_known_effects() {
        let both = Action::Destination {
            address: Some("127.0.0.11".parse().unwrap()),
            ports: Some("4053".parse().unwrap()),
        };
        assert_eq!(destination("127.0.0.11:4053"), Some(both));
        assert_eq!(destination("10.0.0.1-10.0.0.9"), None);
        assert!(destination("[fd00::1]:53").is_some());
        assert!(destination("fd00::1:53").is_some()); // an address
        check("MASQUERADE --random-fully", &Action::Source("MASQUERADE --random-fully".to_owned()));
        check("NFQUEUE --queue-num 1", &Action::Unknown("NFQUEUE --queue-num 1".to_owned()));
        check("NETMAP --to 10.0.0.0/8", &Action::Unknown("NETMAP --to 10.0.0.0/8".to_owned()));
        check("CT --notrack", &Action::Notrack);
        check("CT --helper ftp", &Action::Continue("CT --helper ftp".to_owned()));
        check("CT --helper ftp --zone 5", &Action::UnknownZone("CT --helper ftp --zone 5".to_owned()));
        check("CT --zone-orig 5", &Action::UnknownZone("CT --zone-orig 5".to_owned()));
        check("SET --add-set a src", &Action::Continue("SET --add-set a src".to_owned()));
        check(
            "SET --map-set a src --map-mark",
            &Action::UnknownMark("SET --map-set a src --map-mark".to_owned()),
        );
        check("TOS --set-tos 0x10/0x3f", &Action::Continue("TOS --set-tos 0x10/0x3f".to_owned()));
        check("MARK --and-mark 0x1", &Action::UnknownMark("MARK --and-mark 0x1".to_owned()));
    }

    /// iptables accepts conditions after the target; listings have none there.
    #[test]
    fn a_verdict_with_conditions_after_it_is_not_one_about_every_packet() {
        for text in ["ACCEPT -p tcp", "DROP -d 10.0.0.1", "RETURN -s 172.17.0.0/16"] {
            check(text, &Action::Unknown(text.to_owned()));
        }
    }

    #[test]
    fn extensions_are_never_taken_for_chains() {
        for name in ["LOG", "SET", "TTL", "CT", "TPROXY", "ULOG"] {
            let (found, exact) = action(name, &[]);
            assert!(!exact && !matches!(found, Action::Target(_)), "{name}");
        }
        assert_eq!(
            action("KUBE-HOSTPORTS", &[]).0,
            Action::Target(Target::Jump("KUBE-HOSTPORTS".parse().unwrap()))
        );
    }
}
