//! How large mail is: quantiles of the 2,327 mails in a real person's mailboxes (294 MB in all).

use sealpost_base::SeededRandom;

use super::super::scenario::uniform;

/// `(share of the mails of at most this size, bytes)`.
const QUANTILES: &[(f64, u32)] = &[
    (0.000, 723),
    (0.025, 1_357),
    (0.050, 1_870),
    (0.075, 2_471),
    (0.100, 2_975),
    (0.125, 3_438),
    (0.150, 3_889),
    (0.175, 4_440),
    (0.200, 4_688),
    (0.225, 4_945),
    (0.250, 5_230),
    (0.275, 5_427),
    (0.300, 5_766),
    (0.325, 6_261),
    (0.350, 6_763),
    (0.375, 7_545),
    (0.400, 8_708),
    (0.425, 10_235),
    (0.450, 11_435),
    (0.475, 12_947),
    (0.500, 15_037),
    (0.525, 16_568),
    (0.550, 18_027),
    (0.575, 20_511),
    (0.600, 22_837),
    (0.625, 26_348),
    (0.650, 29_035),
    (0.675, 31_885),
    (0.700, 35_491),
    (0.725, 40_738),
    (0.750, 47_027),
    (0.775, 52_665),
    (0.800, 62_668),
    (0.825, 72_414),
    (0.850, 92_040),
    (0.875, 113_788),
    (0.900, 148_109),
    (0.925, 208_331),
    (0.950, 312_418),
    (0.960, 416_953),
    (0.970, 582_005),
    (0.980, 868_992),
    (0.985, 1_105_030),
    (0.990, 1_463_982),
    (0.995, 3_551_263),
    (0.998, 13_225_829),
    (0.999, 16_418_977),
    (1.000, 20_584_130),
];

/// A size, in bytes: from the quantiles, and between them interpolated by ratio.
pub fn draw(random: &SeededRandom) -> usize {
    at(uniform(random))
}

fn at(share: f64) -> usize {
    let above =
        QUANTILES.iter().position(|(quantile, _)| *quantile >= share).unwrap_or(QUANTILES.len() - 1).max(1);
    let ((low, small), (high, large)) = (QUANTILES[above - 1], QUANTILES[above]);
    let (small, large) = (f64::from(small), f64::from(large));
    (small * (large / small).powf((share - low) / (high - low))) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_distributed_as_they_were() {
        let random = SeededRandom::new(5);
        let mut sizes: Vec<usize> = (0..20_000).map(|_| draw(&random)).collect();
        sizes.sort_unstable();
        let near = |size: usize, expected: f64, within: f64| {
            assert!((size as f64 / expected - 1.0).abs() < within, "{size} for {expected}");
        };
        near(sizes[10_000], 15_037.0, 0.08);
        near(sizes[18_000], 148_283.0, 0.15);
        near(sizes.iter().sum::<usize>() / sizes.len(), 126_473.0, 0.25);
        assert!(sizes[0] >= 723 && sizes[19_999] <= 20_584_130);
    }

    #[test]
    fn the_ends_are_the_smallest_and_the_largest() {
        assert_eq!((at(0.0), at(1.0)), (723, 20_584_130));
    }
}
