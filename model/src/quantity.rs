//! Kubernetes' quantities: `250m`, `1.5`, `64Mi`, `2e3`.

use alloc::format;
use alloc::string::String;

/// A text that is no quantity (`resource.Quantity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct ParseQuantityError;

/// The value in thousandths, rounded up as Kubernetes rounds; saturates at the ends of `i64`.
///
/// `milli_value("250m") == 250`, `milli_value("2") == 2000`.
///
/// # Errors
/// When the text is no quantity.
pub fn milli_value(text: &str) -> Result<i64, ParseQuantityError> {
    Ok(saturate(scaled(text, 1000)?))
}

/// Bytes as Kubernetes shows them in a quantity of the binary form: with the largest unit in which they are a whole
/// number. `binary(1536 * 1024) == "1536Ki"`
#[must_use]
pub fn binary(bytes: u64) -> String {
    with_unit(bytes, 1024, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// Bytes as Kubernetes shows a quantity that somebody wrote in either form: with a power of two before one of ten.
/// `shortest(1_000_000) == "1M"`
#[must_use]
pub fn shortest(bytes: u64) -> String {
    let text = binary(bytes);
    if text.ends_with('i') { text } else { with_unit(bytes, 1000, ["k", "M", "G", "T", "P", "E"]) }
}

/// With the largest unit in which it is a whole number; each is so many of the one before.
fn with_unit(mut amount: u64, base: u64, units: [&str; 6]) -> String {
    let mut unit = "";
    for larger in units {
        if amount == 0 || !amount.is_multiple_of(base) {
            break;
        }
        (amount, unit) = (amount / base, larger);
    }
    format!("{amount}{unit}")
}

/// The value in units, rounded up: bytes of a memory quantity. `value("64Ki") == 65536`.
///
/// # Errors
/// When the text is no quantity.
pub fn value(text: &str) -> Result<i64, ParseQuantityError> {
    Ok(saturate(scaled(text, 1)?))
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The number times `scale`, rounded away from zero. Digits beyond what an `i128` holds saturate.
fn scaled(text: &str, scale: i128) -> Result<i128, ParseQuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(ParseQuantityError);
    }
    let (mut numerator, mut denominator) = (scale, 1_i128);
    match suffix_factor(suffix)? {
        Factor::Binary(shift) => numerator = numerator.saturating_mul(1 << shift),
        Factor::Decimal(exponent) if exponent >= 0 => numerator = numerator.saturating_mul(power_of_ten(exponent)),
        Factor::Decimal(exponent) => denominator = power_of_ten(-exponent),
    }
    let mut digits = 0_i128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        digits = digits.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    let places = i32::try_from(fraction.len()).map_err(|_| ParseQuantityError)?;
    denominator = denominator.saturating_mul(power_of_ten(places));
    let product = digits.saturating_mul(numerator);
    let rounded_up = product / denominator + i128::from(product % denominator != 0);
    Ok(if negative { -rounded_up } else { rounded_up })
}

enum Factor {
    Binary(u32),
    Decimal(i32),
}

fn suffix_factor(suffix: &str) -> Result<Factor, ParseQuantityError> {
    Ok(match suffix {
        "" => Factor::Decimal(0),
        "n" => Factor::Decimal(-9),
        "u" => Factor::Decimal(-6),
        "m" => Factor::Decimal(-3),
        "k" => Factor::Decimal(3),
        "M" => Factor::Decimal(6),
        "G" => Factor::Decimal(9),
        "T" => Factor::Decimal(12),
        "P" => Factor::Decimal(15),
        "E" => Factor::Decimal(18),
        "Ki" => Factor::Binary(10),
        "Mi" => Factor::Binary(20),
        "Gi" => Factor::Binary(30),
        "Ti" => Factor::Binary(40),
        "Pi" => Factor::Binary(50),
        "Ei" => Factor::Binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(ParseQuantityError)?;
            let exponent: i32 = exponent.parse().map_err(|_| ParseQuantityError)?;
            Factor::Decimal(exponent.clamp(-38, 38))
        }
    })
}

const fn power_of_ten(exponent: i32) -> i128 {
    let mut power = 1_i128;
    let mut left = if exponent > 38 { 38 } else { exponent };
    while left > 0 {
        power = power.saturating_mul(10);
        left -= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_kubernetes_values() {
        for (text, milli, unit) in [
            ("0", 0, 0),
            ("1", 1000, 1),
            ("250m", 250, 1),
            ("1.5", 1500, 2),
            (".5", 500, 1),
            ("64Ki", 65_536_000, 65_536),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("128974848", 128_974_848_000, 128_974_848),
            ("129e6", 129_000_000_000, 129_000_000),
            ("129M", 129_000_000_000, 129_000_000),
            ("1u", 1, 1),
            ("-250m", -250, -1),
            ("+2", 2000, 2),
            ("12E", i64::MAX, i64::MAX),
            ("99999999999999999999999999999999999999999999", i64::MAX, i64::MAX),
        ] {
            assert_eq!(milli_value(text), Ok(milli), "{text}");
            assert_eq!(value(text), Ok(unit), "{text}");
        }
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, want) in [
            (0, "0"),
            (1, "1"),
            (1536, "1536"),
            (10_240, "10Ki"),
            (1 << 20, "1Mi"),
            (3 << 30, "3Gi"),
            (1_000_000, "1000000"),
            (5 << 60, "5Ei"),
        ] {
            assert_eq!(binary(bytes), want);
        }
    }

    #[test]
    fn limits_are_shown_as_kubernetes_shows_quantities() {
        for (bytes, want) in [
            (1 << 20, "1Mi"),
            (3 << 30, "3Gi"),
            (1_000_000, "1M"),
            (1536, "1536"),
            (10_240, "10Ki"),
            (1, "1"),
            (0, "0"),
        ] {
            assert_eq!(shortest(bytes), want);
        }
    }

    #[test]
    fn texts_that_are_no_quantity_are_refused() {
        for text in ["", ".", "m", "1mm", "1 Gi", "0x10", "1.2.3", "1e", "Ki", "--1", "1KI", "+"] {
            assert_eq!(value(text), Err(ParseQuantityError), "{text}");
        }
    }
}
