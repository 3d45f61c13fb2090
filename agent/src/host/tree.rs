//! Which processes belong to one: it and its descendants. Engines stay in the agent's tree, since
//! their keeper adopts what leaves its group.

use std::collections::{BTreeSet, HashMap};

/// `root` and its descendants among processes that are given as (pid, parent's pid).
pub fn members(root: i32, processes: impl Iterator<Item = (i32, i32)>) -> BTreeSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes {
        children.entry(parent).or_default().push(pid);
    }
    let mut members = BTreeSet::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        // A pid that was used twice while they were read cannot make a circle.
        if members.insert(pid) {
            open.extend(children.remove(&pid).unwrap_or_default());
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_all_descendants_and_has_no_circle() {
        let all = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1)];
        let of = |root| {
            members(root, all.into_iter())
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(10), [10, 11, 12]);
        assert_eq!(of(20), [20]);
        assert_eq!(of(99), [99]);
        let circle = members(1, [(1, 2), (2, 1)].into_iter());
        assert_eq!(circle.into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
