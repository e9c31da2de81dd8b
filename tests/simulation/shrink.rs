//! From a failing list of operations to a short one that fails in the same way.

use raindrop::core::policy::Policy;

use crate::{
    check::FailureKind,
    model::{Op, Scenario},
    planted::Planting,
    world::run,
};

/// Leaves out operations, ever smaller groups of them, as long as the failure stays.
pub(crate) fn shrink<P: Policy>(
    scenario: &Scenario,
    planting: Planting,
    kind: FailureKind,
) -> Scenario {
    let fails = |ops: &[Op]| {
        let shorter = Scenario { ops: ops.to_vec(), ..scenario.clone() };
        let failure = run::<P>(&shorter, planting, false).failure;
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
        if group > 1 {
            group = group.div_ceil(2);
        } else if !any {
            return Scenario { ops, ..scenario.clone() };
        }
    }
}
