//! The numbers in `crates/sys/src/header.rs` and below it are those of the kernel's headers, which come with the C library that Rust links
//! against. The C compiler compares them, as the headers' enums have no values to read off.

use std::{
    io::Write,
    process::{Command, Stdio},
};

#[test]
fn numbers_are_those_of_the_kernels_headers() {
    let mut claims = String::new();
    let mut count = 0;
    let texts = [
        include_str!("../../crates/sys/src/header.rs"),
        include_str!("../../crates/sys/src/header/nf_tables.rs"),
    ];
    for line in texts.into_iter().flat_map(str::lines) {
        if let Some(header) = line.strip_prefix("// ").filter(|header| header.ends_with(".h")) {
            claims.push_str(&format!("#include <{header}>\n"));
        }
        if let Some((name, value)) = line.strip_prefix("pub const ").and_then(claim) {
            claims.push_str(&format!("_Static_assert({name} == {value}, \"{name} is not {value}\");\n"));
            count += 1;
        }
    }
    assert!(count > 50, "only {count} numbers found");
    let mut compiler = Command::new("cc")
        .args(["-xc", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the C compiler that Rust links with");
    compiler.stdin.take().expect("a pipe").write_all(claims.as_bytes()).expect("it reads");
    assert!(compiler.wait().expect("it ends").success(), "see above what it complains of");
}

/// `NAME: TYPE = VALUE;`.
fn claim(rest: &str) -> Option<(&str, &str)> {
    let (name, rest) = rest.split_once(": ")?;
    Some((name, rest.split_once(" = ")?.1.strip_suffix(';')?))
}
