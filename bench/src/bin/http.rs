//! `make bench-http`: the service, beside bare servers and other sources of IDs.

use std::io;

use raindrop_bench::report::{Part, Report};

fn main() -> io::Result<()> {
    Report::new(Part::Http).finish()
}
