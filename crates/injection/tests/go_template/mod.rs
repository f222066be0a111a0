//! Go templates rendered for pods: the cases of `rendered.txt`, each with changes to the [`World`] and a template. The templates
//! make the same calls as Istio's releases, in different wording. `UPDATE_GOLDENS=1` writes the results.

mod functions;
mod safety;
mod trial;
mod world;

use self::world::World;
use mesh::pod::values;

fn rendered(case: &str) -> String {
    let (head, template) = case.split_once("---\n").expect("a head and a template");
    let world = World::changed(&values("head", head).expect("YAML").remove(0));
    match world.render(template) {
        Ok(made) => format!("{made:#}\n"),
        Err(problems) => format!("{problems}\n"),
    }
}

#[test]
fn go_templates_match_their_cases() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go_template/rendered.txt");
    testkit::sections::answers(file, ", rendered", rendered);
}
