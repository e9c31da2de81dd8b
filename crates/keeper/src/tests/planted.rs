//! The tests of a build with planted bugs: the explorer, which needs optimised code. The others run
//! without the feature, and would take longer to optimise than the explorer takes to run.

mod explorer;
#[expect(dead_code, reason = "the other tests use the rest")]
mod faulty_store;
#[expect(dead_code, reason = "the other tests use the rest")]
mod world;
