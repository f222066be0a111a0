//! Writes the rules of every scenario into a folder, for `scripts/fuzz`.

use std::{env, fs, path::PathBuf};
use testkit::scenarios::scenarios;

fn main() {
    let folder = PathBuf::from(env::args_os().nth(1).expect("a folder"));
    for case in scenarios(|_| true) {
        for file in ["v4.rules", "v6.rules"] {
            let Some(text) = case.text(file) else { continue };
            fs::write(folder.join(format!("{}-{file}", case.name())), text).expect("a file");
        }
    }
}
