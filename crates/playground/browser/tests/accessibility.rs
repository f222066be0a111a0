//! Accessibility faults found by axe-core: names, roles, contrast, nesting.

use crate::ROOT;
use crate::browser::Browser;
use crate::page::Input;
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// axe-core's script; `scripts/axe` installs it where there is a network.
fn axe() -> String {
    let output = Command::new(Path::new(ROOT).join("scripts/axe")).output().expect("scripts/axe");
    assert!(output.status.success(), "scripts/axe: {}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).expect("a path");
    fs::read_to_string(path.trim()).expect("axe-core")
}

fn faults(browser: &Browser) -> (Vec<Value>, u64) {
    let found = browser.script_that_calls_back(
        "const done = arguments[0];
        axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(
          ({ violations, passes }) => done({
            faults: violations.map(({ id, nodes }) => [id, nodes.map(({ html, any }) => [html, any[0]?.message])]),
            passes: passes.reduce((sum, { nodes }) => sum + nodes.length, 0),
          }),
          (error) => done({ faults: [String(error)], passes: 0 }));",
        &[],
    );
    (found["faults"].as_array().expect("a list").clone(), found["passes"].as_u64().expect("a number"))
}

#[test]
fn axe_finds_no_fault() {
    let browser = Browser::at("");
    browser.script(&axe(), &[]);
    let pods = fs::read_to_string(Path::new(ROOT).join("tests/support/pods/list.yaml")).expect("a manifest");
    let inputs = [
        Input { flags: "-b '*' -i '*' -d 15090,15090", manifest: "", packet: "10.0.0.5:443" },
        Input { flags: "-b 80,x", manifest: "", packet: "nowhere" },
        Input { flags: "--dry-run -b 80 --dual-stack --pod-ips 10.1.2.3,fd00::3", manifest: "", packet: "" },
        Input { flags: "", manifest: &pods, packet: "8080" },
        Input::default(),
        Input { flags: "-b 80", manifest: "", packet: "8080" },
    ];
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        grounds
            .push(browser.script("return getComputedStyle(document.documentElement).backgroundColor", &[]));
        for width in [1280, 320] {
            browser.resize(width, 900);
            for input in inputs {
                browser.fill(input);
                browser.script("document.querySelectorAll('.rule, .arrow, .drawn-list button').forEach((one) => one.click())", &[]);
                let (faults, passes) = faults(&browser);
                assert!(faults.is_empty(), "{scheme}, {width}, {}: {}", input.flags, json!(faults));
                assert!(passes > 50, "{passes} elements were checked");
            }
        }
    }
    assert_ne!(grounds[0], grounds[1]);
    ["#before-tab", "#keep"].iter().for_each(|id| browser.press_button(id));
    browser.fill(Input { flags: "-b '*' -d 5432", manifest: "", packet: "8080" });
    let (faults_of_comparison, _) = faults(&browser);
    assert!(faults_of_comparison.is_empty(), "{}", json!(faults_of_comparison));
    // Control: a missing label is a fault.
    browser.script("document.querySelector('label[for=packet]').remove()", &[]);
    assert!(!faults(&browser).0.is_empty());
}
