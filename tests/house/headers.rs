//! Numbers in system call structures (`header.rs` in `sys` and below) match the linked C library's kernel headers. The C compiler
//! compares them, since enums in headers have no readable values.

use crate::repository::files;
use std::{
    io::Write,
    process::{Command, Stdio},
};

#[test]
fn numbers_are_those_of_the_kernels_headers() {
    let mut claims = String::new();
    for line in files("crates/sys/src/header*").iter().flat_map(|file| file.text.lines()) {
        if let Some(header) = line.strip_prefix("// ").filter(|header| header.ends_with(".h")) {
            claims.push_str(&format!("#include <{header}>\n"));
        }
        if let Some((name, value)) = claim(line) {
            claims.push_str(&format!("_Static_assert({name} == {value}, \"{name} is not {value}\");\n"));
        }
    }
    let count = claims.matches("_Static_assert").count();
    assert!(count > 50, "only {count} numbers found");
    let mut compiler = Command::new("cc")
        .args(["-xc", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the C compiler that Rust links with");
    compiler.stdin.take().expect("a pipe").write_all(claims.as_bytes()).expect("the compiler reads");
    assert!(
        compiler.wait().expect("the compiler ends").success(),
        "the compiler names the wrong numbers above"
    );
}

fn claim(line: &str) -> Option<(&str, &str)> {
    let item = line.strip_prefix("pub(crate) const ").or_else(|| line.strip_prefix("pub const "))?;
    let (name, rest) = item.split_once(": ")?;
    Some((name, rest.split_once(" = ")?.1.strip_suffix(';')?))
}
