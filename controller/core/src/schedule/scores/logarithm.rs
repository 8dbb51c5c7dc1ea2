//! The natural logarithm of whole numbers, from the four operations alone: those are exact to the last bit on every
//! machine, and the logarithm of a platform's own library is not.

/// ln 2, as near as a float can say it.
const LN_2: f64 = std::f64::consts::LN_2;

/// The natural logarithm; 0 for 0.
pub(super) fn of(number: usize) -> f64 {
    if number == 0 {
        return 0.0;
    }
    // number = mantissa * 2^exponent, with a mantissa around 1.
    let mut exponent = f64::from(number.ilog2());
    let mut mantissa = number as f64 / (1_u64 << number.ilog2()) as f64;
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), a series that gains more than a digit with each term.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..16).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    exponent * LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_tables() {
        let table = [
            (1, 0.0),
            (2, LN_2),
            (3, 1.098_612_288_668_109_8),
            (5, 1.609_437_912_434_100_3),
            (7, 1.945_910_149_055_313_2),
            (10, std::f64::consts::LN_10),
            (1_000, 6.907_755_278_982_137),
            (5_002, 8.517_593_111_437_565),
            (100_002, 11.512_945_464_770_23),
        ];
        for (number, want) in table {
            let difference = (of(number) - want).abs();
            assert!(difference < 1e-13, "{number}: {} and {want}", of(number));
        }
    }
}
