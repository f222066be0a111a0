//! The page seen: light, dark, narrow, small.

use crate::browser::Browser;
use crate::page::{Input, file};
use serde_json::json;
use std::fs;

/// Of each piece of text that is seen, its colours: those of the text and of what lies behind it, with what it is.
const COLOURS: &str = "
  const parse = (colour) => (colour.match(/[0-9.]+/g) ?? []).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll('body *:not(script):not(template)')) {
    const own = Array.from(node.childNodes).some((child) => child.nodeType === 3 && child.textContent.trim());
    if ((own || node.value) && node.checkVisibility()) {
      found.push([parse(getComputedStyle(node).color), behind(node), `${node.tagName} ${node.className} ${node.id}`]);
    }
  }
  return found;";

/// The contrast of two colours (WCAG 2.2, 1.4.3).
fn contrast(one: &[f64], other: &[f64]) -> f64 {
    let luminance = |colour: &[f64]| {
        let part = |value: f64| {
            let value = value / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2])
    };
    let (a, b) = (luminance(one), luminance(other));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Everything that has a special colour: a verdict, findings, notes, faults.
const FULL: Input<'_> = Input { flags: "-b 80 -d 7 --dry-run", manifest: "", packet: "nowhere" };

#[test]
fn light_and_dark_can_be_read() {
    let browser = Browser::start();
    browser.open_page("");
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.devtools("Emulation.setEmulatedMedia", &features);
        let mut seen = 0;
        for input in [FULL, Input { packet: "10.0.0.5:443", ..FULL }, Input { flags: "-b x", ..FULL }] {
            browser.fill(input);
            let colours: Vec<(Vec<f64>, Vec<f64>, String)> =
                serde_json::from_value(browser.script(COLOURS, &[])).expect("colours");
            for (text, ground, what) in &colours {
                let contrast = contrast(text, ground);
                assert!(contrast >= 4.5, "{scheme}: {what} has a contrast of {contrast:.2}");
            }
            seen += colours.len();
        }
        assert!(seen > 60, "only {seen} pieces of text were found");
        grounds
            .push(browser.script("return getComputedStyle(document.documentElement).backgroundColor", &[]));
    }
    assert_ne!(grounds[0], grounds[1]);
}

#[test]
fn a_narrow_window_is_not_scrolled_sideways() {
    let browser = Browser::start();
    browser.open_page("");
    let narrow = json!({ "width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": false });
    browser.devtools("Emulation.setDeviceMetricsOverride", &narrow);
    browser.wait("return innerWidth === 320", &[]);
    let ports: Vec<String> = (1000..1200).map(|port| (port * 3).to_string()).collect();
    let list = format!("-b '*' -d {} -i '*'", ports.join(","));
    let long = format!("-b {}", "x".repeat(500));
    let manifest =
        format!("kind: Pod\nmetadata: {{name: {}}}\nspec: {{containers: []}}\n", "long-name-".repeat(20));
    for input in [
        FULL,
        Input { flags: &list, packet: "10.0.0.5:443", ..FULL },
        Input { flags: &long, ..FULL },
        Input { flags: "--dual-stack", manifest: &manifest, packet: "8080" },
    ] {
        browser.fill(input);
        let widths = "const page = document.documentElement; return [page.scrollWidth <= page.clientWidth, innerWidth]";
        assert_eq!(browser.script(widths, &[]), json!([true, 320]), "{}", input.flags);
        // Nothing is cut off that can't be scrolled to.
        let wide = "return Array.from(document.querySelectorAll('textarea, input, button, pre, .picture, .verdict, li, p, h2'))
            .filter((node) => node.checkVisibility() && !node.classList.contains('unseen'))
            .filter((node) => node.getBoundingClientRect().right > 320.5 || node.getBoundingClientRect().left < -0.5)
            .map((node) => node.outerHTML.slice(0, 80))";
        assert_eq!(browser.script(wide, &[]), json!([]), "{}", input.flags);
    }
}

#[test]
fn the_page_is_one_small_file() {
    let folder = file().parent().expect("a folder");
    let files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let bytes = files[0].metadata().expect("its size").len();
    assert!(bytes <= 1_500_000, "{bytes} bytes");
}
