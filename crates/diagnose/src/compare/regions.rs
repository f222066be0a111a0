//! Combinations of classes joined to few descriptions that cover them: of each axis some classes, or all.

use super::space::{AddressLocation, Axis, Cell, Space};
use std::collections::{BTreeSet, HashSet};

/// On each axis some classes; all combinations of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassRegion {
    pub(super) classes: [BTreeSet<u32>; Axis::ALL.len()],
    /// The combination that it was grown from.
    pub(super) example: Cell,
}

/// What a region with one more class covers beside impossible combinations.
struct Coverage {
    covers_only_wanted: bool,
    covers_wanted: bool,
}

/// The axes in the order in which a region is widened: those first that are best left out of a description.
const GROWTH: [Axis; Axis::ALL.len()] = [
    Axis::State,
    Axis::Connmark,
    Axis::Mark,
    Axis::SourcePort,
    Axis::Source,
    Axis::Group,
    Axis::User,
    Axis::Interface,
    Axis::Destination,
    Axis::Port,
    Axis::Protocol,
];

/// Regions that cover these combinations, and beside them only such as no packet has. They may overlap: all combinations given
/// have the same verdicts.
pub(super) fn regions(space: &Space, cells: &[Cell]) -> Vec<ClassRegion> {
    let wanted: HashSet<Cell> = cells.iter().copied().collect();
    let mut covered: HashSet<Cell> = HashSet::new();
    let mut regions = Vec::new();
    for cell in cells {
        if covered.contains(cell) {
            continue;
        }
        let region = grow(space, *cell, &wanted);
        region.all_cells(&mut |cell| {
            covered.insert(*cell);
            true
        });
        regions.push(region);
    }
    regions
}

/// Widens whole axes first, so that a description omits them, then adds single classes.
fn grow(space: &Space, example: Cell, wanted: &HashSet<Cell>) -> ClassRegion {
    let mut region = ClassRegion { classes: example.map(|index| BTreeSet::from([index])), example };
    let coverage = |region: &ClassRegion, axis: Axis, class_index: u32| {
        let mut covers_wanted = false;
        let covers_only_wanted = region.with_only(axis, class_index).all_cells(&mut |cell| {
            let is_wanted = wanted.contains(cell);
            covers_wanted |= is_wanted;
            is_wanted || !space.is_possible(cell)
        });
        Coverage { covers_only_wanted, covers_wanted }
    };
    let classes = |axis: Axis| 0..u32::try_from(space.classes(axis).len()).unwrap_or(u32::MAX);
    for axis in GROWTH {
        if classes(axis).all(|class| coverage(&region, axis, class).covers_only_wanted) {
            region.classes[axis as usize] = classes(axis).collect();
        }
    }
    let is_in_pod = |class: u32| {
        space.place(&space.classes(Axis::Destination)[class as usize]) != AddressLocation::Elsewhere
    };
    for axis in GROWTH {
        for class in classes(axis) {
            // Calls within the pod are described on their own.
            let is_apart = axis == Axis::Destination
                && is_in_pod(class) != is_in_pod(example[Axis::Destination as usize]);
            if is_apart {
                continue;
            }
            let is_gain = || {
                let coverage = coverage(&region, axis, class);
                coverage.covers_only_wanted && coverage.covers_wanted
            };
            if !region.has(axis, class) && is_gain() {
                region.classes[axis as usize].insert(class);
            }
        }
    }
    region
}

impl ClassRegion {
    /// The same with one class of an axis alone.
    fn with_only(&self, axis: Axis, class: u32) -> Self {
        let mut one = self.clone();
        one.classes[axis as usize] = BTreeSet::from([class]);
        one
    }

    /// Whether something holds of all its combinations.
    fn all_cells(&self, holds: &mut dyn FnMut(&Cell) -> bool) -> bool {
        self.all_from(0, &mut [0; Axis::ALL.len()], holds)
    }

    fn all_from(&self, axis: usize, cell: &mut Cell, holds: &mut dyn FnMut(&Cell) -> bool) -> bool {
        let Some(classes) = self.classes.get(axis) else { return holds(cell) };
        classes.iter().all(|class| {
            cell[axis] = *class;
            self.all_from(axis + 1, cell, holds)
        })
    }

    pub(super) fn has(&self, axis: Axis, class: u32) -> bool {
        self.classes[axis as usize].contains(&class)
    }
}
