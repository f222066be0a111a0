//! The life of a state, by the commands of the binary: it is set, found in place and kept by a second run that writes nothing;
//! what is broken is repaired, another state takes its place, and cleaning leaves nothing.

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
        life.say(&["diff", "--backend", state.choice()], 3);
        assert_eq!(life.held(), empty, "{state:?}: looking changed something");
        life.say(&["apply", "--backend", state.choice()], 0);
        assert_eq!(life.held(), fresh(*state), "{state:?}");
        life.is_kept_by_second_runs();
        life.say(&["verify"], 0);
        life.is_repaired();
        life.gives_way(*next);
        run(&life.namespace, &["clean"]).with(0, &format!("{state:?}: clean"));
        assert_eq!(life.held(), empty, "{state:?}, {next:?}: cleaning left something");
    }
}

fn say(goal: Goal, namespace: &Namespace, command: &[&str]) -> Outcome {
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

    fn say(&self, command: &[&str], code: i32) -> String {
        let Self { state, namespace } = self;
        say(state.goal, namespace, command).with(code, &format!("{state:?}: {command:?}")).text()
    }

    fn is_kept_by_second_runs(&self) {
        let Self { state, namespace } = self;
        let name = format!("{}-{}", state.goal.mesh, state.choice());
        let before = self.held();
        let monitors = ["nft monitor", "ip monitor all"].map(|line| Monitor::start(namespace, &name, line));
        for _ in 0..scope::runs(10, 1) {
            // With the backend told, and found.
            for backend in [&["--backend", state.choice()][..], &[]] {
                let again = self.say(&[&["apply", "--format", "json"], backend].concat(), 0);
                assert!(again.contains("\"changed\": false"), "{state:?}:\n{again}");
            }
            self.say(&["diff"], 0);
        }
        monitors.into_iter().for_each(|monitor| monitor.assert_silent(namespace));
        assert_eq!(self.held(), before, "{state:?}: a second run changed something");
    }

    fn is_repaired(&self) {
        let Self { state, namespace } = self;
        let before = self.held();
        match state.backend {
            NATIVE => namespace.stdout("nft", &["delete", "table", "inet", state.goal.owner().table]),
            _ => namespace.stdout(state.choice(), &["-w", "-t", "nat", "-F", "OUTPUT"]),
        };
        self.say(&["diff", "--backend", state.choice()], 3);
        self.say(&["apply", "--backend", state.choice()], 0);
        assert_eq!(self.held(), before, "{state:?}: not repaired");
    }

    fn gives_way(&self, next: State) {
        let Self { state, namespace } = self;
        let replace = ["apply", "--replace", "--backend", next.choice()];
        say(next.goal, namespace, &replace).with(0, &format!("from {state:?} to {next:?}"));
        assert_eq!(self.held(), fresh(next), "from {state:?}");
        say(next.goal, namespace, &["diff"]).with(0, &format!("from {state:?} to {next:?}: check"));
        self.say(&["diff", "--backend", state.choice()], 3);
    }
}
