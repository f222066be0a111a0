//! Fuzzes the parsers of flag values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::{ChainName, Cidr, Comment, Gid, InterfaceName, Mark, Port, PortRange, PortSet, Uid, Version};

fuzz_target!(|text: &str| {
    if let Ok(cidr) = text.parse::<Cidr>() {
        assert_eq!(cidr.to_string().parse(), Ok(cidr));
    }
    if let Ok(range) = text.parse::<PortRange>() {
        assert_eq!(range.to_string().parse(), Ok(range));
    }
    if let Ok(set) = text.parse::<PortSet>() {
        assert_eq!(set.to_string().parse(), Ok(set));
    }
    if let Ok(mark) = text.parse::<Mark>() {
        assert_eq!(mark.to_string().parse(), Ok(mark));
    }
    let _ = (text.parse::<Port>(), text.parse::<Uid>(), text.parse::<Gid>(), text.parse::<Version>());
    let _ = (text.parse::<ChainName>(), text.parse::<InterfaceName>(), text.parse::<Comment>());
});
