//! From a failing list of operations to a short one that fails in the same way.

use raindrop::core::policy::Policy;

use crate::{
    check::FailureKind,
    model::{Op, Scenario},
    planted::Planting,
    world::{Extent, run},
};

/// Leaves out operations, ever smaller groups of them, and joins neighbouring pauses, as long as
/// the failure stays.
pub(crate) fn shrink<P: Policy>(
    scenario: &Scenario,
    planting: Planting,
    kind: FailureKind,
    failed_early: bool,
) -> Scenario {
    // What is issued when all was put right must not take the part of the operations.
    let extent = if failed_early { Extent::WithoutEnd } else { Extent::Whole };
    let fails = |ops: &[Op]| {
        let shorter = Scenario { ops: ops.to_vec(), ..scenario.clone() };
        let failure = run::<P>(&shorter, planting, extent).failure;
        failure.is_some_and(|failure| failure.kind == kind)
    };
    let mut ops = scenario.ops.clone();
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
            let Some(joined) = joined(&ops, begin - 1) else { continue };
            if fails(&joined) {
                ops = joined;
                any = true;
            }
        }
        if group > 1 {
            group = group.div_ceil(2);
        } else if !any {
            return Scenario { ops, ..scenario.clone() };
        }
    }
}

/// The operations with two pauses made one.
fn joined(ops: &[Op], at: usize) -> Option<Vec<Op>> {
    let (Op::Advance { ms: first }, Op::Advance { ms: second }) =
        (*ops.get(at)?, *ops.get(at + 1)?)
    else {
        return None;
    };
    let pause = Op::Advance { ms: first + second };
    Some([&ops[..at], &[pause], &ops[at + 2..]].concat())
}
