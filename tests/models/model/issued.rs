//! Every position that was ever issued, by row, lane and code.

/// The most positions of one lane.
const POSITIONS: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Issued {
    by_code: [u64; 2],
    twice: bool,
}

impl Issued {
    pub(crate) fn add(&mut self, row: usize, lane: usize, code: usize, position: u64) {
        let bit = 1 << (place(row, lane) + usize::try_from(position).expect("few"));
        self.twice |= self.by_code[code] & bit != 0;
        self.by_code[code] |= bit;
    }

    /// Returns whether a position of a code was issued twice.
    pub(crate) const fn any_twice(&self) -> bool {
        self.twice
    }

    /// Returns one past the highest position issued on a lane.
    pub(crate) fn end(&self, row: usize, lane: usize) -> u64 {
        let of_lane = (self.by_code[0] | self.by_code[1]) >> place(row, lane);
        u64::from(u8::BITS - u8::try_from(of_lane & 0xff).expect("a byte").leading_zeros())
    }
}

const fn place(row: usize, lane: usize) -> usize {
    (row * 2 + lane) * POSITIONS
}
