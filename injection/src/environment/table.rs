//! Where requests go, as a table for people: a row for each environment, a column for each Service.

use super::routes::{Choices, Plan};

const GAP: usize = 2;
/// The pods of all environments.
const ANY: &str = "any";

/// The table of a plan. Where it is wider than so many columns, it is cut into several that stand below each other; `header`
/// is the one that names the environment.
pub fn table(plan: &Plan, header: &str, width: usize) -> String {
    let choices =
        plan.services.iter().filter_map(|service| Some((&*service.name, service.choices.as_ref()?)));
    let services: Vec<(&str, &Choices)> = choices.collect();
    let rows: Vec<(&str, Option<&str>)> = [("(none)", None)]
        .into_iter()
        .chain(plan.environments.iter().map(|value| (value.as_str(), Some(value.as_str()))))
        .chain([("(another)", None)])
        .collect();
    let first: Vec<&str> = [header].into_iter().chain(rows.iter().map(|(title, _)| *title)).collect();
    let column = |(name, choices): &(&str, &Choices)| -> Vec<String> {
        let cells = rows.iter().map(|(_, value)| choices.subset(*value).unwrap_or(ANY).to_owned());
        [(*name).to_owned()].into_iter().chain(cells).collect()
    };
    let columns: Vec<Vec<String>> = services.iter().map(column).collect();
    let widest = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let margin = first.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let mut parts: Vec<Vec<&[String]>> = Vec::new();
    let mut used = usize::MAX;
    for cells in &columns {
        let more = GAP + widest(cells);
        match parts.last_mut() {
            Some(part) if used.saturating_add(more) <= width => {
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
        let line = |(at, title): (usize, &&str)| {
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
