//! The flags of a command, as its help lists them.

/// The long flags, each with what stands for its value; switches have none.
pub(crate) fn listed(help: &str) -> Vec<(String, Option<String>)> {
    let lines = help.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
    let flag = |line: &str| {
        let (_, form) = line.split_once("--")?;
        let end = form.find([' ', '[']).unwrap_or(form.len());
        let value = form.split_once(" <").map(|(_, value)| value.trim_end_matches('>').to_owned());
        Some((form[..end].to_owned(), value))
    };
    lines.filter_map(flag).filter(|(name, _)| !["help", "version"].contains(&name.as_str())).collect()
}
