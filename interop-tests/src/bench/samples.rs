//! Measurements of one kind, and what they amount to.

/// A collection of measurements.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// A single one.
    pub fn one(sample: f64) -> Self {
        Self(vec![sample])
    }

    /// Adds one.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Adds many.
    pub fn extend(&mut self, samples: Vec<f64>) {
        self.0.extend(samples);
    }

    /// Adds all of another collection.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The value below which this share of the measurements lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let wanted = share * (sorted.len().saturating_sub(1)) as f64;
        let position = (0..sorted.len()).find(|index| *index as f64 >= wanted.round());
        position.and_then(|index| sorted.get(index).copied()).unwrap_or(f64::NAN)
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The middle one, where there are any.
    pub fn figure(&self) -> Option<f64> {
        Some(self.median()).filter(|median| median.is_finite())
    }

    /// Between which eight of ten lie; a single measurement has no spread.
    pub fn spread(&self) -> Option<(f64, f64)> {
        (self.0.len() > 1).then(|| (self.quantile(0.1), self.quantile(0.9)))
    }

    /// How slow the slowest of a hundred is, as a measurement of its own.
    pub fn tail(&self) -> Self {
        Self::one(self.quantile(0.99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_taken_from_the_sorted_samples() {
        let samples = Samples((1..=11).rev().map(f64::from).collect());
        assert_eq!(samples.median(), 6.0);
        assert_eq!(samples.spread(), Some((2.0, 10.0)));
        assert_eq!(samples.tail().figure(), Some(11.0));
        assert!(Samples::default().median().is_nan());
        assert_eq!(Samples::default().figure(), None);
        assert_eq!(Samples::one(1.0).spread(), None);
    }
}
