//! Which rate to try next: doubled or halved until the limit lies between two, then their geometric mean.

/// Where a search is: multiples of the experiment's rates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Search {
    /// The highest at which the bound was kept.
    pub kept: Option<f64>,
    /// The lowest at which it was broken.
    pub broken: Option<f64>,
}

impl Search {
    /// The two rates are told apart no further.
    const CLOSE: f64 = 1.02;
    /// No search goes further from the rate that it began with.
    const FURTHEST: f64 = 1e6;

    /// What to try next; `None` if the search is over.
    pub fn next(&self) -> Option<f64> {
        match (self.kept, self.broken) {
            (None, None) => Some(1.0),
            (Some(kept), None) => Some(kept * 2.0).filter(|next| *next <= Self::FURTHEST),
            (None, Some(broken)) => Some(broken / 2.0).filter(|next| *next >= 1.0 / Self::FURTHEST),
            (Some(kept), Some(broken)) => (broken / kept > Self::CLOSE).then(|| (kept * broken).sqrt()),
        }
    }

    /// Takes note of what came of it.
    pub fn tell(&mut self, factor: f64, kept: bool) {
        let side = if kept { &mut self.kept } else { &mut self.broken };
        *side = Some(factor);
        assert!(
            self.kept.is_none_or(|kept| self.broken.is_none_or(|broken| kept < broken)),
            "a search tries rates between the two that it knows"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_closes_in_on_the_limit_from_either_side() {
        for limit in [0.003, 0.9, 1.0, 77.0] {
            let (mut search, mut tries) = (Search::default(), 0);
            while let Some(factor) = search.next() {
                search.tell(factor, factor <= limit);
                tries += 1;
            }
            let (kept, broken) = (search.kept.unwrap(), search.broken.unwrap());
            assert!(kept <= limit && limit < broken && broken <= kept * 1.02, "{limit}: {kept} to {broken}");
            assert!(tries <= 18, "{tries} tries");
        }
        let mut search = Search::default();
        while let Some(factor) = search.next() {
            search.tell(factor, true);
        }
        assert_eq!(search.broken, None, "what never breaks ends, too");
    }
}
