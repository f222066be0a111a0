//! Templates in Go's language, filled for pods: the cases of `rendered.txt`, each with what it changes of the [`World`] and the
//! template. They make the calls that templates of Istio's releases make, in words of their own. `UPDATE_GOLDENS=1` writes what is
//! made.

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
fn templates_are_filled_as_written() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go_template/rendered.txt");
    testkit::sections::answers(file, ", rendered", rendered);
}
