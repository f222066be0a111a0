//! Fuzzes manifests: no panic, termination, and valid rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh::Setting;
use mesh::pod::{EXCLUDED_NAMESPACES, objects, read};
use mesh::sources::{NullHost, Raw};

fuzz_target!(|text: &str| {
    let Ok(objects) = objects("input", text) else { return };
    for object in objects.iter().take(100) {
        assert!(!object.title.contains(char::is_control), "a title is one line");
        let settings = read(object, EXCLUDED_NAMESPACES).settings;
        let settings = settings.over(Raw::of_flags([(Setting::PodIps, "10.1.2.3")]).into());
        if let Ok(resolved) = settings.resolve(&NullHost) {
            for family in resolved.capture.families() {
                let _ = resolved.capture.rules(family);
            }
        }
    }
});
