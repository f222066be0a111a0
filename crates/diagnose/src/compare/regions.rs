//! Combinations of classes joined to as few descriptions as cover them: of each axis some classes, or all.

use super::space::{AddressLocation, Axis, Cell, Space};
use std::collections::{BTreeSet, HashSet};

/// On each axis some classes; all combinations of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) classes: [BTreeSet<u32>; Axis::ALL.len()],
    /// The most usual combination.
    pub(super) example: Cell,
}

/// The axes by which a region grows, those first that a description does best without.
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

/// Regions that cover these combinations and no others but such as no packet has. Of a combination that several regions hold,
/// each has the same meaning.
pub(super) fn regions(space: &Space, cells: &[Cell]) -> Vec<Region> {
    let all: HashSet<Cell> = cells.iter().copied().collect();
    let mut covered: HashSet<Cell> = HashSet::new();
    let mut regions = Vec::new();
    for cell in cells {
        if covered.contains(cell) {
            continue;
        }
        let region = grown(space, *cell, &all);
        region.all(&mut |cell| {
            covered.insert(*cell);
            true
        });
        regions.push(region);
    }
    regions
}

fn grown(space: &Space, example: Cell, all: &HashSet<Cell>) -> Region {
    let mut region = Region { classes: example.map(|index| BTreeSet::from([index])), example };
    let fits = |region: &Region, axis: Axis, class: u32| {
        let mut any = false;
        let all_fit = region.with(axis, class).all(&mut |cell| {
            let is_one = all.contains(cell);
            any |= is_one;
            is_one || !space.is_possible(cell)
        });
        (all_fit, any)
    };
    let classes = |axis: Axis| 0..u32::try_from(space.classes(axis).len()).unwrap_or(u32::MAX);
    for axis in GROWTH {
        if classes(axis).all(|class| fits(&region, axis, class).0) {
            region.classes[axis as usize] = classes(axis).collect();
        }
    }
    let is_within = |class: u32| {
        space.place(&space.classes(Axis::Destination)[class as usize]) != AddressLocation::Elsewhere
    };
    for axis in GROWTH {
        for class in classes(axis) {
            // Calls within the pod are described on their own.
            let is_apart = axis == Axis::Destination
                && is_within(class) != is_within(example[Axis::Destination as usize]);
            if is_apart {
                continue;
            }
            if !region.classes[axis as usize].contains(&class) && fits(&region, axis, class) == (true, true) {
                region.classes[axis as usize].insert(class);
            }
        }
    }
    region
}

impl Region {
    /// The same with one class of an axis alone.
    fn with(&self, axis: Axis, class: u32) -> Self {
        let mut one = self.clone();
        one.classes[axis as usize] = BTreeSet::from([class]);
        one
    }

    /// Whether something holds of all its combinations.
    fn all(&self, holds: &mut dyn FnMut(&Cell) -> bool) -> bool {
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
