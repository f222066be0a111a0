//! Appearance of the page: light, dark, narrow, small.

use crate::browser::Browser;
use crate::page::{Input, file};
use serde_json::json;
use std::{fs, path::Path, time::Duration};

/// Input that shows every special colour: a verdict, findings, notes, faults.
const FULL: Input<'_> = Input { flags: "-b 80 -d 7 --dry-run", manifest: "", packet: "nowhere" };

#[test]
fn a_narrow_window_is_not_scrolled_sideways() {
    let browser = Browser::at("");
    browser.resize(320, 640);
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
        // No element reaches outside the window.
        let wide = "return Array.from(document.querySelectorAll('textarea, input, select, button, pre, .picture, .verdict, li, p, dd, h2, h3'))
            .filter((node) => node.checkVisibility() && !node.classList.contains('unseen') && !node.closest('table, #examples'))
            .filter((node) => node.getBoundingClientRect().right > 320.5 || node.getBoundingClientRect().left < -0.5)
            .map((node) => node.outerHTML.slice(0, 80))";
        assert_eq!(browser.script(wide, &[]), json!([]), "{}", input.flags);
    }
}

#[test]
fn pages_are_small() {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut names: Vec<(String, u64)> = entries
            .map(|entry| {
                (entry.file_name().into_string().expect("UTF-8"), entry.metadata().expect("its size").len())
            })
            .collect();
        names.sort();
        names
    };
    let folder = file().parent().expect("a folder");
    let [(page, bytes), (site, _)] = &names(folder)[..] else { panic!("{:?}", names(folder)) };
    assert!((&**page, &**site) == ("index.html", "site") && *bytes <= 1_500_000, "{page} {bytes}, {site}");
    let hosted = names(&folder.join("site"));
    let [(page, bytes), (program, more)] = &hosted[..] else { panic!("{hosted:?}") };
    assert!(page == "index.html" && *bytes <= 60_000, "{hosted:?}");
    assert!(program.starts_with("program-") && *more <= 1_100_000, "{hosted:?}");
}

/// Records all layout shifts, including shifts right after input, which the web metric omits.
const WATCH_SHIFTS: &str = "
  window.shifted = [];
  const note = (list) => list.getEntries().forEach((entry) => window.shifted.push(
    [entry.value, entry.sources.map(({ node }) => node?.className || node?.id || node?.nodeName).join()]));
  new PerformanceObserver(note).observe({ type: 'layout-shift' });";

/// Holds the timers for typing pauses: a slow machine may take longer between two keys.
const HOLD_PAUSES: &str = "
  window.held = new Map();
  const set = window.setTimeout, clear = window.clearTimeout;
  window.setTimeout = (then, wait, ...more) => {
    if (!(wait >= 700)) return set(then, wait, ...more);
    const id = `held ${Math.random()}`;
    window.held.set(id, then);
    return id;
  };
  window.clearTimeout = (id) => window.held.delete(id) || clear(id);";

#[test]
fn nothing_moves_or_turns_red_while_an_address_is_typed() {
    let browser = Browser::start();
    for flags in ["-b+'*'+-i+'*'+-d+15090,15021", "--mesh+kuma"] {
        browser.open_page(&format!("flags={flags}"));
        browser.script(WATCH_SHIFTS, &[]);
        browser.script(HOLD_PAUSES, &[]);
        for key in "10.0.0.5:443".chars() {
            browser.type_on("packet", &key.to_string());
            std::thread::sleep(Duration::from_millis(120));
            let seen = browser.script(
                "return [document.getElementById('packet').getAttribute('aria-invalid'),
                  document.querySelectorAll('.problems li').length, document.querySelector('.picture').checkVisibility()]",
                &[],
            );
            assert_eq!(seen, json!(["false", 0, true]), "{flags}, at {key}");
        }
        browser.settle();
        assert!(browser.shown().parts[0].verdict.starts_with("captured: "));
        let shifts: Vec<(f64, String)> =
            serde_json::from_value(browser.script("return window.shifted", &[])).expect("shifts");
        let sum: f64 = shifts.iter().map(|(value, _)| value).sum();
        assert!(sum < 0.05, "{flags}: {sum}: {shifts:?}");
    }
    // Controls: a problem is shown after the pause, and a shift is recorded.
    browser.type_on("packet", "x");
    browser.wait("return window.held.size === 1", &[]);
    browser.script("window.held.forEach((then) => then())", &[]);
    browser.settle();
    assert_eq!(browser.texts(".problems li").len(), 1);
    browser.script("document.querySelector('.verdict').style.marginTop = '300px'", &[]);
    browser.wait("return window.shifted.some(([value]) => value > 0.05)", &[]);
}

#[test]
fn text_in_pictures_has_twelve_pixels_at_any_width() {
    let browser = Browser::at("flags=-b+'*'+-i+'*'&packet=8080");
    let mut drawn = 0;
    for width in [1920, 1280, 1152, 1100, 900, 810, 799, 640, 320] {
        browser.resize(width, 900);
        for packet in ["8080", "127.0.0.1:80"] {
            browser.fill(Input { flags: "-b '*' -i '*'", manifest: "", packet });
            let sizes = "
              const image = document.querySelector('.picture img'), list = document.querySelector('.drawn-list');
              if (!image.checkVisibility()) return list.checkVisibility() ? [] : null;
              const svg = new DOMParser().parseFromString(
                decodeURIComponent(image.src.replace('data:image/svg+xml,', '')), 'image/svg+xml').documentElement;
              const scale = image.getBoundingClientRect().width / Number(svg.getAttribute('width'));
              return Array.from(svg.querySelectorAll('text'), (text) => scale * Number(text.getAttribute('font-size')));";
            let sizes: Vec<f64> =
                serde_json::from_value(browser.script(sizes, &[])).expect("a picture or a list");
            assert!(sizes.iter().all(|size| *size >= 12.0), "{width}: {sizes:?}");
            drawn += usize::from(!sizes.is_empty());
        }
    }
    assert_eq!(drawn, 12, "down to 800 pixels it is drawn");
}

#[test]
fn fields_and_verdict_stay_in_sight() {
    let browser = Browser::at("flags=-b+'*'+-i+'*'&packet=8080");
    let scrolled = "scrollTo(0, document.documentElement.scrollHeight);
      const { top, bottom } = document.getElementById('packet').getBoundingClientRect();
      return scrollY > 300 && top >= 0 && bottom <= innerHeight";
    assert_eq!(browser.script(scrolled, &[]), json!(true));
    browser.resize(320, 640);
    browser.script("scrollTo(0, 0)", &[]);
    let summary = "const summary = document.getElementById('summary');
      return summary.checkVisibility() && summary.getBoundingClientRect().bottom <= innerHeight && summary.textContent";
    let text = browser.wait(summary, &[]);
    assert!(text.as_str().is_some_and(|text| text.starts_with("captured: ")), "{text}");
    browser.script("document.querySelector('#parts .verdict').scrollIntoView()", &[]);
    browser.wait("return document.getElementById('summary').hidden", &[]);
}
