//! Shrinks a failing list of operations to a short one that fails in the same way.

use crate::{
    check::FailureKind,
    model::{Op, Scenario},
    planted::Planting,
    world::{Extent, run},
};

/// Leaves out ever smaller groups of operations, and joins neighbouring pauses, as long as the
/// failure stays.
pub(crate) fn shrink(
    scenario: &Scenario,
    planting: Planting,
    kind: FailureKind,
    failed_early: bool,
) -> Scenario {
    // IDs that nodes issue after the repair must not stand in for the operations.
    let extent = if failed_early { Extent::WithoutEnd } else { Extent::Whole };
    let fails = |ops: &[Op]| {
        let shorter = Scenario { ops: ops.to_vec(), ..scenario.clone() };
        let failure = run(&shorter, planting, extent).failure;
        failure.is_some_and(|failure| failure.kind == kind)
    };
    let ops = shorten(&scenario.ops, joined, fails);
    Scenario { ops, ..scenario.clone() }
}

/// Returns the shortest list that still fails, found by leaving out ever smaller groups and by
/// joining neighbours.
pub(crate) fn shorten<T: Clone>(
    ops: &[T],
    join: impl Fn(&T, &T) -> Option<T>,
    fails: impl Fn(&[T]) -> bool,
) -> Vec<T> {
    let mut ops = ops.to_vec();
    let mut group = ops.len().div_ceil(2).max(1);
    loop {
        let mut any = false;
        let mut begin = 0;
        while begin < ops.len() {
            let end = (begin + group).min(ops.len());
            let shorter = [&ops[..begin], &ops[end..]].concat();
            if fails(&shorter) {
                ops = shorter;
                any = true;
            } else {
                begin = end;
            }
        }
        for begin in (1..ops.len()).rev() {
            let pair = ops.get(begin - 1).zip(ops.get(begin));
            let Some(joined) = pair.and_then(|(first, second)| join(first, second)) else {
                continue;
            };
            let shorter = [&ops[..begin - 1], &[joined], &ops[begin + 1..]].concat();
            if fails(&shorter) {
                ops = shorter;
                any = true;
            }
        }
        if group > 1 {
            group = group.div_ceil(2);
        } else if !any {
            return ops;
        }
    }
}

/// Joins two pauses.
fn joined(first: &Op, second: &Op) -> Option<Op> {
    match (first, second) {
        (Op::Advance { ms: first }, Op::Advance { ms: second }) => {
            Some(Op::Advance { ms: first + second })
        }
        _ => None,
    }
}
