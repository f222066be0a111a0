//! The destinations of requests as a table: a row for each environment, a column for each Service.

use crate::routes::Plan;
use mesh::visible;

const GAP: usize = 2;
const ANY: &str = "any";

/// Splits a table wider than `width` characters into several below each other; `header` is the title of the first column.
pub fn table(plan: &Plan, header: &str, width: usize) -> String {
    let rows: Vec<(&str, Option<&str>)> = [("(none)", None)]
        .into_iter()
        .chain(plan.environments.iter().map(|value| (value.as_str(), Some(value.as_str()))))
        .chain([("(another)", None)])
        .collect();
    let titles = rows.iter().map(|(title, _)| *title);
    let first: Vec<String> = [header].into_iter().chain(titles).map(visible).collect();
    let columns = plan.services.iter().filter_map(|service| {
        let choices = service.choices.as_ref()?;
        let cells = rows.iter().map(|(_, value)| choices.subset(*value).unwrap_or(ANY));
        Some([&*service.name].into_iter().chain(cells).map(visible).collect())
    });
    let columns: Vec<Vec<String>> = columns.collect();
    let widest = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let margin = widest(&first);
    let mut parts: Vec<Vec<&[String]>> = Vec::new();
    let mut used = 0;
    for cells in &columns {
        let more = GAP + widest(cells);
        match parts.last_mut() {
            Some(part) if used + more <= width => {
                part.push(cells);
                used += more;
            }
            _ => {
                parts.push(vec![cells]);
                used = margin + more;
            }
        }
    }
    let part = |columns: &Vec<&[String]>| -> String {
        let line = |(at, title): (usize, &String)| {
            let mut line = format!("{title:margin$}");
            for cells in columns {
                line += &format!("{:GAP$}{:width$}", "", cells[at], width = widest(cells));
            }
            format!("{}\n", line.trim_end())
        };
        first.iter().enumerate().map(line).collect()
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}
