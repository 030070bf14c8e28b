//! Takes a Kubernetes quantity (`36Gi`, `500M`, `1e9`, `1500m`), gives bytes. Never guesses: what is not one gives nothing.

/// Bytes, rounded up as Kubernetes does.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || part.contains('.') {
        return None;
    }
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let (factor, divisor) = scale(suffix)?;
    let below = 10_u128
        .checked_pow(u32::try_from(part.len()).ok()?)?
        .checked_mul(divisor)?;
    let total = digits.checked_mul(factor)?.div_ceil(below);
    u64::try_from(total).ok()
}

/// Factor and divisor of a suffix.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    const WORDS: [(&str, u128, u128); 16] = [
        ("", 1, 1),
        ("n", 1, 1_000_000_000),
        ("u", 1, 1_000_000),
        ("m", 1, 1_000),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("Pi", 1 << 50, 1),
        ("Ei", 1 << 60, 1),
    ];
    if let Some((_, factor, divisor)) = WORDS.iter().find(|(word, _, _)| *word == suffix) {
        return Some((*factor, *divisor));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let cases = [
            ("36Gi", Some(36 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("500M", Some(500_000_000)),
            ("128974848", Some(128_974_848)),
            ("129e6", Some(129_000_000)),
            ("1E3", Some(1_000)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("1500m", Some(2)),
            ("100u", Some(1)),
            ("0.5", Some(1)),
            (".5Ki", Some(512)),
            ("16Ki", Some(16_384)),
            ("", None),
            (".", None),
            ("-1", None),
            ("1 Gi", None),
            ("1GiB", None),
            ("1..5", None),
            ("99999999999Ei", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
