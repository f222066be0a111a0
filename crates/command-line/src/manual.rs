//! Manual pages: each command's help in man(7) macros, which every page viewer supports.

use clap::Command;
use std::{fs, io, path::Path};

/// Columns of help in a page, which is indented by seven.
const WIDTH: usize = 72;

/// Writes a page for each command into a folder, which is created if missing.
///
/// # Errors
/// The file or folder that can't be written, with the cause.
pub fn write(program: &Command, folder: &Path) -> io::Result<()> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("{path} can't be written: {error}"))
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut program = program.clone().term_width(WIDTH);
    program.build();
    let name = program.get_name().to_owned();
    let version = format!("{name} {}", program.get_version().unwrap_or_default());
    let mut pages = Vec::new();
    collect(&mut program, &name, &version, &mut pages);
    for (name, page) in pages {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page).map_err(failed(&path))?;
    }
    Ok(())
}

fn collect(command: &mut Command, name: &str, version: &str, pages: &mut Vec<(String, String)>) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let help = command.render_long_help().to_string();
    pages.push((name.to_owned(), page(name, &about, version, &help)));
    let is_shown =
        |below: &&mut Command| !below.is_hide_set() && !["help", "version"].contains(&below.get_name());
    for below in command.get_subcommands_mut().filter(is_shown) {
        let name = format!("{name}-{}", below.get_name());
        collect(below, &name, version, pages);
    }
}

/// A help line that follows an empty one and ends with a colon starts a section.
fn page(name: &str, about: &str, version: &str, help: &str) -> String {
    let (title, escaped_name) = (escaped(&name.to_uppercase()), escaped(name));
    let mut text = format!(
        ".TH {title} 1 \"\" \"{version}\" \"User Commands\"\n.SH NAME\n{escaped_name} \\- {}\n.SH DESCRIPTION\n.nf\n",
        escaped(about)
    );
    let mut is_blank = false;
    for line in help.lines() {
        let heading = line.strip_suffix(':').filter(|heading| is_blank && !heading.starts_with(' '));
        let section = heading.map(|heading| (heading.to_uppercase(), ""));
        let usage = line.strip_prefix("Usage: ").map(|usage| ("SYNOPSIS".to_owned(), usage));
        match section.or(usage) {
            Some((section, below)) => {
                text.push_str(&format!(".fi\n.SH {}\n.nf\n{}", escaped(&section), escaped(below)));
                text.push_str(if below.is_empty() { "" } else { "\n" });
            }
            None if line.trim().is_empty() => {}
            None if is_blank => text.push_str(&format!("\n{}\n", escaped(line))),
            None => text.push_str(&format!("{}\n", escaped(line))),
        }
        is_blank = line.trim().is_empty();
    }
    text + ".fi\n"
}

/// Escapes characters that roff interprets or renders differently.
fn escaped(text: &str) -> String {
    let mut written = String::new();
    for c in text.chars() {
        match c {
            '\\' => written.push_str("\\e"),
            '-' => written.push_str("\\-"),
            '\'' => written.push_str("\\(aq"),
            '`' => written.push_str("\\(ga"),
            '^' => written.push_str("\\(ha"),
            '~' => written.push_str("\\(ti"),
            c => written.push(c),
        }
    }
    if written.starts_with('.') { format!("\\&{written}") } else { written }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_becomes_sections() {
        assert_eq!(
            page(
                "a-b",
                "Does it",
                "a 1",
                "Does it:\n.x 'y'\n\nExit status:\n  0  done\n\n  1\n\nUsage: a b [-x]\n"
            ),
            ".TH A\\-B 1 \"\" \"a 1\" \"User Commands\"\n.SH NAME\na\\-b \\- Does it\n.SH DESCRIPTION\n.nf\nDoes it:\n\
             \\&.x \\(aqy\\(aq\n.fi\n.SH EXIT STATUS\n.nf\n  0  done\n\n  1\n.fi\n.SH SYNOPSIS\n.nf\na b [\\-x]\n.fi\n"
        );
    }
}
