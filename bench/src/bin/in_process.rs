//! `make bench`: the generator in this process, beside the limits of the machine and its peers.

use std::io;

use raindrop_bench::report::{Part, Report};

fn main() -> io::Result<()> {
    Report::new(Part::InProcess).finish()
}
