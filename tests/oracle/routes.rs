//! Policy rules and routes as set by other programs.

use crate::oracle::command::Command;
use crate::oracle::grammar::mark;
use crate::support::random::Random;
use crate::support::setting::Family;

pub(crate) fn objects(random: &mut Random) -> Vec<Command> {
    let family = random.of(&Family::BOTH);
    let (flag, gateway, service) = match family {
        Family::V4 => ("-4", "10.77.0.1", "10.99.0.0/16"),
        Family::V6 => ("-6", "fd77::1", "fd99::/16"),
    };
    let table = random.of(&[77, 133, 4000]);
    // Routes that packets take anyway.
    let mut lines = vec![format!("{flag} route add default via {gateway} dev eth0 table {table}")];
    lines.push(format!("{flag} rule add fwmark {} lookup {table}", mark(random)));
    let odd = [
        format!("{flag} route add local {service} dev lo table {table}"),
        format!("{flag} route add blackhole {service} table {table}"),
        format!("{flag} rule add to {service} lookup {table}"),
        format!("{flag} rule add uidrange 1000-1000 lookup {table}"),
        format!("{flag} rule add fwmark {} blackhole", mark(random)),
    ];
    let all: Vec<&String> = odd.iter().collect();
    lines.push(random.of(&all).clone());
    if random.one_in(2) {
        lines.remove(0);
    }
    lines.into_iter().map(Command::Ip).collect()
}
