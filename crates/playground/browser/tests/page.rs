//! The page: built once, opened, filled in and read.

use crate::ROOT;
use crate::browser::Browser;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The page as a file, built by `scripts/playground`.
pub(crate) fn file() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground");
        let script = Path::new(ROOT).join("scripts/playground");
        let output = Command::new(script).arg(&folder).output().expect("scripts/playground");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder.join("index.html")
    })
}

#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct Input<'a> {
    pub(crate) flags: &'a str,
    pub(crate) manifest: &'a str,
    pub(crate) packet: &'a str,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Shown {
    /// In the order of the fields.
    pub(crate) problems: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) is_stale: bool,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) notes: Vec<String>,
    /// Empty without a packet.
    pub(crate) verdict: String,
    pub(crate) way: String,
    pub(crate) picture: String,
    /// Findings in the terminal's format.
    pub(crate) lint: String,
    pub(crate) iptables: String,
    pub(crate) nft: String,
}

const FILL: &str = "
  for (const [name, value] of Object.entries(arguments[0])) document.getElementById(name).value = value;
  document.getElementById('flags').dispatchEvent(new Event('input', { bubbles: true }));";

const READ: &str = "
  const texts = (items) => Array.from(items, (item) => item.textContent);
  const parts = Array.from(document.querySelectorAll('#parts:not([hidden]) > article'), (article) => {
    const seen = (selector) => {
      const found = article.querySelector(selector);
      return found.closest('[hidden]') ? '' : found.textContent;
    };
    const image = article.querySelector('.picture img');
    const finding = (item) => {
      const [level, code, option, text, remedy] = ['level', 'code', 'option', 'text', 'remedy']
        .map((name) => item.querySelector(`.${name}`)?.textContent);
      const advice = remedy ? `${' '.repeat(15)}${remedy.replace('→', '->')}\n` : '';
      return `${level.padEnd(8)} ${code} ${option ? `${option}: ` : ''}${text}\n${advice}`;
    };
    const findings = Array.from(article.querySelectorAll('.findings li'), finding).join('');
    return {
      title: seen('.title'), notes: texts(article.querySelectorAll('.about li')),
      verdict: article.querySelector('.verdict .badge') ? seen('.verdict') : '',
      way: seen('.way'),
      lint: findings || `${article.querySelector('.count').textContent}\n`, iptables: seen('.iptables'), nft: seen('.nft'),
      picture: decodeURIComponent(image.getAttribute('src').replace('data:image/svg+xml,', '')),
    };
  });
  return {
    problems: texts(document.querySelectorAll('.problems li')), notes: texts(document.querySelectorAll('#notes li')),
    is_stale: !document.getElementById('stale').hidden, parts,
  };";

const ANSWERED: &str = "
  const output = document.getElementById('output'), done = arguments[1];
  const look = () => output.getAttribute('aria-busy') === 'false' ? done(read()) : setTimeout(look, 5);
  look();";

impl Browser {
    /// Opens the page from its file, with `fragment` after the `#` of its address.
    pub(crate) fn open_page(&self, fragment: &str) {
        // A change of only the fragment would not reload the page.
        self.open("about:blank");
        self.visit(&format!("file://{}#{fragment}", file().display()));
    }

    pub(crate) fn at(fragment: &str) -> Self {
        let browser = Self::start();
        browser.open_page(fragment);
        browser
    }

    pub(crate) fn visit(&self, url: &str) {
        self.open(url);
        self.settle();
    }

    pub(crate) fn press_button(&self, selector: &str) {
        self.script("document.querySelector(arguments[0]).click()", &[json!(selector)]);
        self.settle();
    }

    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let list = "return Array.from(document.querySelectorAll(arguments[0]), (one) => one.textContent)";
        serde_json::from_value(self.script(list, &[json!(selector)])).expect("texts")
    }

    pub(crate) fn allow_copies(&self) {
        let permissions = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
        self.devtools("Browser.grantPermissions", &permissions);
    }

    pub(crate) fn copied(&self) -> String {
        let text = self.script_that_calls_back("navigator.clipboard.readText().then(arguments[0])", &[]);
        text.as_str().expect("a string").to_owned()
    }

    pub(crate) fn settle(&self) {
        self.wait("return document.getElementById('output').getAttribute('aria-busy') === 'false'", &[]);
    }

    /// Fills all fields at once, like a paste.
    pub(crate) fn fill(&self, input: Input<'_>) {
        self.script(FILL, &[json!(input)]);
        self.settle();
    }

    pub(crate) fn shown(&self) -> Shown {
        serde_json::from_value(self.script(READ, &[])).expect("the script's result")
    }

    pub(crate) fn answer(&self, input: Input<'_>) -> Shown {
        let body = format!("{FILL} const read = () => {{ {READ} }}; {ANSWERED}");
        let shown = self.script_that_calls_back(&body, &[json!(input)]);
        serde_json::from_value(shown).expect("the script's result")
    }

    pub(crate) fn value(&self, id: &str) -> String {
        let value = self.script("return document.getElementById(arguments[0]).value", &[json!(id)]);
        value.as_str().expect("a string").to_owned()
    }
}
