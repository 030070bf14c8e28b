//! Takes the text of one option's value, gives what is wrong with it. Never takes what an allocator would read as
//! something else: a leading zero is octal to most of them, a minus sign wraps, a suffix is cut off.

/// The values that an option takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `true` or `false`, spelled so.
    Bool,
    /// A decimal number from the first to the last, both included.
    Number(i128, i128),
    /// That, or this word.
    NumberOr(&'static str, i128, i128),
    /// A decimal fraction from 0 to this whole number.
    Fraction(u64),
    /// That, or this word.
    FractionOr(&'static str, u64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// Letters of this set, each at most once.
    Letters(&'static str),
    /// Text without a separator of any allocator.
    Text,
}

/// Digits behind the point that jemalloc reads.
const FRACTION_DIGITS: usize = 14;

impl Kind {
    /// What is wrong with a value, as a clause with the remedy.
    pub(super) fn check(self, value: &str) -> Result<(), String> {
        let good = match self {
            Self::Bool => matches!(value, "true" | "false"),
            Self::Number(min, max) => in_range(value, min, max),
            Self::NumberOr(word, min, max) => value == word || in_range(value, min, max),
            Self::Fraction(max) => fraction(value, max),
            Self::FractionOr(word, max) => value == word || fraction(value, max),
            Self::Words(words) => words.contains(&value),
            Self::Letters(set) => {
                value.chars().all(|letter| set.contains(letter))
                    && value
                        .chars()
                        .all(|letter| value.chars().filter(|other| *other == letter).count() == 1)
            }
            Self::Text => {
                !value.is_empty()
                    && value
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
            }
        };
        if good { Ok(()) } else { Err(self.wanted()) }
    }

    fn wanted(self) -> String {
        match self {
            Self::Bool => "it must be true or false, in small letters".to_owned(),
            Self::Number(min, max) => format!(
                "it must be a decimal number from {min} to {max}, without leading zeros and without a unit"
            ),
            Self::NumberOr(word, min, max) => format!(
                "it must be {word} or a decimal number from {min} to {max}, without leading zeros and without a unit"
            ),
            Self::Fraction(max) => format!("it must be a decimal fraction from 0 to {max}"),
            Self::FractionOr(word, max) => {
                format!("it must be {word} or a decimal fraction from 0 to {max}")
            }
            Self::Words(words) => format!("it must be one of {}", words.join(", ")),
            Self::Letters(set) => format!("it must be letters of {set}, each at most once"),
            Self::Text => "it must be letters, digits, '_', '.' and '-'".to_owned(),
        }
    }
}

/// Decimal digits without a leading zero.
fn plain(digits: &str) -> bool {
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn in_range(value: &str, min: i128, max: i128) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    plain(digits)
        && value != "-0"
        && value
            .parse::<i128>()
            .is_ok_and(|number| (min..=max).contains(&number))
}

fn fraction(value: &str, max: u64) -> bool {
    let (whole, rest) = value.split_once('.').unwrap_or((value, "0"));
    let digits = !rest.is_empty()
        && rest.len() <= FRACTION_DIGITS
        && rest.bytes().all(|byte| byte.is_ascii_digit());
    let nothing = rest.bytes().all(|byte| byte == b'0');
    let fits = |number: u64| number < max || (number == max && nothing);
    plain(whole) && digits && whole.parse().is_ok_and(fits)
}
