//! Where parity lies: levels 3 to 6.
//!
//! Two choices, independent of one another. *Left* and *right*: whether P walks from the last member to the first, row
//! by row, or the other way. *Asymmetric* and *symmetric*: whether data fill the other members in member order, or
//! begin after the last parity and go round. Left-symmetric is md's default, as only there any n consecutive chunks lie
//! on n different members, so that a large read uses every disk; the others repeat members where one row follows the
//! other.
//!
//! At level 6 Q follows P round the members. Further layouts exist to be read: with Q kept on the last member (what md
//! makes of a level 5 on its way to level 6), and those of the DDF standard.
//!
//! The powers of the generator in Q count data members **starting after Q, in member order, skipping P**; this is the
//! order of the data only in symmetric layouts. DDF counts members from the first, P and Q included, as if these held
//! zeroes.

/// Where P lies, and in which order the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rotation {
    /// P from the last member down; data in member order.
    LeftAsymmetric,
    /// P from the first member up; data in member order.
    RightAsymmetric,
    /// P from the last member down; data from behind the parity. md's default.
    #[default]
    LeftSymmetric,
    /// P from the first member up; data from behind the parity.
    RightSymmetric,
    /// P on the first member.
    ParityFirst,
    /// P on the last member: level 4.
    ParityLast,
}

/// Where P and Q lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoubleRotation {
    /// Q on the member after P.
    Together(Rotation),
    /// A level 5 on all members but the last, which holds Q.
    LastQ(Rotation),
    /// DDF: as right-asymmetric, with Q counted from the first member.
    DdfZeroRestart,
    /// DDF: as left-asymmetric, one row on, with Q counted from the first member.
    DdfNRestart,
    /// DDF: as left-symmetric, Q before P, with Q counted from the first member.
    DdfNContinue,
}

impl Default for DoubleRotation {
    fn default() -> DoubleRotation {
        DoubleRotation::Together(Rotation::LeftSymmetric)
    }
}

/// Who holds what in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    members: usize,
    p: usize,
    q: Option<usize>,
    data: Order,
    /// Q's powers count members from the first, parities included.
    ddf: bool,
}

/// In which order members hold data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Member order, skipping parities.
    Ascending,
    /// From this member, going round after as many as `round`.
    From { first: usize, round: usize },
}

impl Rotation {
    /// The member that holds P, of the first `members`.
    fn p(self, members: usize, row: u64) -> usize {
        let turn = (row % members as u64) as usize;
        match self {
            Rotation::LeftAsymmetric | Rotation::LeftSymmetric => members - 1 - turn,
            Rotation::RightAsymmetric | Rotation::RightSymmetric => turn,
            Rotation::ParityFirst => 0,
            Rotation::ParityLast => members - 1,
        }
    }

    fn is_symmetric(self) -> bool {
        matches!(self, Rotation::LeftSymmetric | Rotation::RightSymmetric)
    }

    /// The order of data on `members` when the parities end at member `last`.
    fn order(self, members: usize, last: usize) -> Order {
        if self.is_symmetric() { Order::From { first: (last + 1) % members, round: members } } else { Order::Ascending }
    }
}

impl Stripe {
    pub(super) fn single(rotation: Rotation, members: usize, row: u64) -> Stripe {
        let p = rotation.p(members, row);
        Stripe { members, p, q: None, data: rotation.order(members, p), ddf: false }
    }

    pub(super) fn double(rotation: DoubleRotation, members: usize, row: u64) -> Stripe {
        let after = |p: usize| (p + 1) % members;
        let (p, q, data, ddf) = match rotation {
            // P and Q on the last two members, in this order: there is no room to go round.
            DoubleRotation::Together(Rotation::ParityLast) => (members - 2, members - 1, Order::Ascending, false),
            DoubleRotation::Together(rotation) => {
                let p = rotation.p(members, row);
                (p, after(p), rotation.order(members, after(p)), false)
            }
            DoubleRotation::LastQ(rotation) => {
                let p = rotation.p(members - 1, row);
                (p, members - 1, rotation.order(members - 1, p), false)
            }
            DoubleRotation::DdfZeroRestart => {
                let p = Rotation::RightAsymmetric.p(members, row);
                (p, after(p), Order::Ascending, true)
            }
            DoubleRotation::DdfNRestart => {
                let p = Rotation::LeftAsymmetric.p(members, row + 1);
                (p, after(p), Order::Ascending, true)
            }
            DoubleRotation::DdfNContinue => {
                let p = Rotation::LeftSymmetric.p(members, row);
                (p, (p + members - 1) % members, Order::From { first: after(p), round: members }, true)
            }
        };
        Stripe { members, p, q: Some(q), data, ddf }
    }

    /// The member that holds P.
    pub fn p(&self) -> usize {
        self.p
    }
    /// The member that holds Q, at level 6.
    pub fn q(&self) -> Option<usize> {
        self.q
    }
    /// All members, by number.
    pub fn members(&self) -> std::ops::Range<usize> {
        0..self.members
    }
    /// The members that hold P and Q.
    pub fn parity_members(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.p).chain(self.q)
    }
    /// How many data chunks the row has.
    pub fn data(&self) -> usize {
        self.members - 1 - usize::from(self.q.is_some())
    }

    /// The member that holds data chunk `index` of the row.
    pub fn data_member(&self, index: usize) -> usize {
        assert!(index < self.data(), "data chunk {index} of {}", self.data());
        match self.data {
            Order::From { first, round } => (first + index) % round,
            Order::Ascending => {
                let (low, high) = match self.q {
                    Some(q) => (self.p.min(q), self.p.max(q)),
                    None => (self.p, usize::MAX),
                };
                let past_low = index + usize::from(index >= low);
                past_low + usize::from(past_low >= high)
            }
        }
    }

    /// Which data chunk of the row a member holds. Panics if it holds parity.
    pub fn data_index(&self, member: usize) -> usize {
        assert!(member != self.p && Some(member) != self.q, "member {member} holds parity in this row");
        match self.data {
            Order::From { first, round } => (member + round - first) % round,
            Order::Ascending => member - usize::from(member > self.p) - usize::from(self.q.is_some_and(|q| member > q)),
        }
    }

    /// The place of data chunk `index` among the blocks of which parity is computed: its power in Q, or without Q its
    /// number.
    pub fn power_of(&self, index: usize) -> usize {
        if self.q.is_some() { self.power(self.data_member(index)) } else { index }
    }

    /// The power of the generator with which a data member enters Q. Panics if it holds parity.
    pub fn power(&self, member: usize) -> usize {
        assert!(member != self.p && Some(member) != self.q, "member {member} holds parity in this row");
        let q = self.q.expect("powers are of Q");
        if self.ddf {
            return member;
        }
        let behind_q = |member: usize| (member + self.members - q - 1) % self.members;
        behind_q(member) - usize::from(behind_q(self.p) < behind_q(member))
    }

    /// How many powers Q has: more than there are data members in DDF layouts, whose parities count as zeroes.
    pub fn powers(&self) -> usize {
        if self.ddf { self.members } else { self.data() }
    }
}
