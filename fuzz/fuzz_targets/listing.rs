//! Any text, read as `iptables-save` prints. What the model can say comes back the same after a round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::{Family, check, parse, render};

fuzz_target!(|text: &str| {
    for family in Family::BOTH {
        let _ = parse::save(text, family);
        let _ = parse::listing(text, family);
        let Ok(rules) = parse::restore(text, family) else { continue };
        let Ok(checked) = check::check(rules) else { continue };
        let again = parse::restore(&render::iptables::restore(&checked), family);
        let again = again.expect("what was rendered can be read");
        for table in rules::Table::ALL {
            let of = |rules: &rules::RuleSet| rules.of_table(table).cloned().collect::<Vec<_>>();
            assert_eq!(of(&again), of(checked.rules()));
        }
    }
});
