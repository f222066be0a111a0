//! A state's life through the binary's commands: it is set, found in place and kept by a second run that writes nothing; it is
//! repaired, replaced by another state, and removed completely.

use crate::apply::rerun::Monitor;
use crate::support::namespace::{Namespace, run};
use crate::support::program::{Outcome, binary};
use crate::support::scope;
use crate::takeover::meshes::Goal;
use crate::takeover::packets::{NATIVE, everything, own_lines};
use crate::takeover::scene::fresh;
use crate::takeover::states::{State, states};

#[test]
fn each_state_is_set_kept_repaired_replaced_and_removed() {
    let states = states();
    for (state, next) in states.iter().zip(states.iter().cycle().skip(1)) {
        let life = Life { state: *state, namespace: Namespace::new() };
        let empty = life.held();
        life.execute(&["diff", "--backend", state.choice()], 3);
        assert_eq!(life.held(), empty, "{state:?}: reading changed the state");
        life.execute(&["apply", "--backend", state.choice()], 0);
        assert_eq!(life.held(), fresh(*state), "{state:?}");
        life.is_kept_by_second_runs();
        life.execute(&["verify"], 0);
        life.is_repaired();
        life.gives_way(*next);
        run(&life.namespace, &["clean"]).with(0, &format!("{state:?}: clean"));
        assert_eq!(life.held(), empty, "{state:?}, {next:?}: cleaning left rules");
    }
}

fn execute(goal: Goal, namespace: &Namespace, command: &[&str]) -> Outcome {
    namespace.outcome(binary(command).args(goal.flags()))
}

struct Life {
    state: State,
    namespace: Namespace,
}

impl Life {
    fn held(&self) -> Vec<String> {
        own_lines(&everything(&self.namespace))
    }

    fn execute(&self, command: &[&str], code: i32) -> String {
        let Self { state, namespace } = self;
        execute(state.goal, namespace, command).with(code, &format!("{state:?}: {command:?}")).text()
    }

    fn is_kept_by_second_runs(&self) {
        let Self { state, namespace } = self;
        let name = format!("{}-{}", state.goal.mesh, state.choice());
        let before = self.held();
        let monitors = ["nft monitor", "ip monitor all"].map(|line| Monitor::start(namespace, &name, line));
        for _ in 0..scope::runs(10, 1) {
            // With a given backend, and with the one in use.
            for backend in [&["--backend", state.choice()][..], &[]] {
                let again = self.execute(&[&["apply", "--output", "json"], backend].concat(), 0);
                assert!(again.contains("\"changed\": false"), "{state:?}:\n{again}");
            }
            self.execute(&["diff"], 0);
        }
        monitors.into_iter().for_each(|monitor| monitor.assert_silent(namespace));
        assert_eq!(self.held(), before, "{state:?}: a second run changed the state");
    }

    fn is_repaired(&self) {
        let Self { state, namespace } = self;
        let before = self.held();
        match state.backend {
            NATIVE => namespace.stdout("nft", &["delete", "table", "inet", state.goal.owner().table]),
            _ => namespace.stdout(state.choice(), &["-w", "-t", "nat", "-F", "OUTPUT"]),
        };
        self.execute(&["diff", "--backend", state.choice()], 3);
        self.execute(&["apply", "--backend", state.choice()], 0);
        assert_eq!(self.held(), before, "{state:?}: not repaired");
    }

    fn gives_way(&self, next: State) {
        let Self { state, namespace } = self;
        let replace = ["apply", "--replace", "--backend", next.choice()];
        execute(next.goal, namespace, &replace).with(0, &format!("from {state:?} to {next:?}"));
        assert_eq!(self.held(), fresh(next), "from {state:?}");
        execute(next.goal, namespace, &["diff"]).with(0, &format!("from {state:?} to {next:?}: check"));
        self.execute(&["diff", "--backend", state.choice()], 3);
    }
}
