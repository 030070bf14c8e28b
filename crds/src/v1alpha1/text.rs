//! Takes what a user wrote as text (a duration, a percentage, a size, a name), gives types that carry the rule of their
//! notation and its reading as a number; must never accept a notation that the rule refuses.

use super::rules;
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Declares a string type with its bounds and the CEL rules of its notation.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, length $min:literal to $max:literal, rules $rules:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The text as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let rules: &[(String, &str)] = &$rules;
                let rules: Vec<Rule> = rules
                    .iter()
                    .map(|(rule, message)| Rule::new(rule.as_str()).message(*message))
                    .collect();
                let mut schema = json_schema!({
                    "type": "string", "minLength": $min, "maxLength": $max,
                });
                if !rules.is_empty() {
                    schema.insert("x-kubernetes-validations".to_owned(), serde_json::json!(rules));
                }
                schema
            }
        }
    };
}

text_type! {
    /// A length of time: `7d`, or hours, minutes, seconds and milliseconds in this order (`1h30m`, `250ms`).
    TimeSpan, length 1 to 24,
    rules [(rules::matches("self", rules::SPAN),
        "must be a duration such as 250ms, 30s, 5m, 1h30m or 7d: whole numbers, and days stand alone")]
}

text_type! {
    /// A percentage with up to two decimals: `3%`, `2.5%`.
    Percent, length 1 to 7,
    rules [(rules::matches("self", rules::PERCENT),
        "must be a percentage such as 3% or 2.5%: digits, at most two decimals, and the sign")]
}

text_type! {
    /// A number of bytes, with an optional suffix: `36Gi`, `1.5Ti`, `500M`, `1073741824`.
    ByteSize, length 1 to 24,
    rules [(format!("{} && quantity(self).isGreaterThan(quantity('0'))", rules::matches("self", rules::BYTES)),
        "must be a number of bytes above zero such as 36Gi, 1.5Ti or 1073741824")]
}

text_type! {
    /// A name that is one DNS label: lower case letters, digits and `-`, at most 63 characters.
    DnsLabel, length 1 to 63,
    rules [(rules::matches("self", rules::DNS_LABEL),
        "must be a DNS label: lower case letters, digits and '-', starting and ending with a letter or digit")]
}

text_type! {
    /// A name of a Kubernetes object: DNS labels joined by dots, at most 253 characters.
    ObjectName, length 1 to 253,
    rules [(rules::matches("self", "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
        "must be an object's name: lower case letters, digits, '-' and '.', starting and ending with a letter or digit")]
}

text_type! {
    /// The name of a guardrail: letters and digits, starting with a letter. The judge's own metrics keep their names.
    GuardrailName, length 1 to 32,
    rules [
        (rules::matches("self", "^[a-z][A-Za-z0-9]*$"),
            "must be a short name such as p99 or cpuPerRequest: letters and digits, starting with a lower case letter"),
        ("!(self in ['ratio', 'peak'])".to_owned(),
            "is a metric of the judge itself (maxRegression is its bound): choose another name"),
    ]
}

text_type! {
    /// A container image with a tag or a digest, as it stands in a pod template.
    ImageRef, length 1 to 512,
    rules [(rules::matches("self",
        "^[a-zA-Z0-9][a-zA-Z0-9._:/-]*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$"),
        "must be an image with a tag or a digest, such as registry.example/app:1.2 or registry.example/app@sha256:...")]
}

text_type! {
    /// A container image pinned by digest.
    PinnedImage, length 1 to 512,
    rules [(rules::matches("self", "^[a-zA-Z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}$"),
        "must be pinned by digest, such as registry.example/jemalloc@sha256:<64 hex digits>; a tag may change under us")]
}

text_type! {
    /// The value of one allocator option. No separator of any allocator's option string can be in it.
    OptionValue, length 1 to 64,
    rules [(rules::matches("self", "^[A-Za-z0-9_.-]+$"),
        "must be an option's value: letters, digits, '_', '.' and '-'; one option per key, numbers in quotes")]
}

text_type! {
    /// The name of one allocator option, in the notation of its allocator.
    OptionName, length 1 to 64,
    rules [(rules::matches("self", "^[a-z][a-z0-9_.]*$"),
        "must be an option's name such as dirty_decay_ms or glibc.malloc.arena_max: lower case letters, digits, '_' and '.'")]
}

text_type! {
    /// The name of an environment variable that an app defines. The allocators' own variables are refused.
    VariableName, length 1 to 128,
    rules [
        (rules::matches("self", "^[A-Za-z_][A-Za-z0-9_]*$"),
            "must be an environment variable's name: letters, digits and '_', not starting with a digit"),
        (format!("!{}", rules::matches("self", rules::OWN_VARIABLES)),
            "is written by the operator itself: use options of the allocator, or the class, instead"),
    ]
}

text_type! {
    /// The value of a label or of a metric's label; a value, never a pattern.
    LabelText, length 0 to 256,
    rules [(rules::matches("self", r"^[^\x00-\x1f\x7f]*$"), "must not contain control characters")]
}

impl TimeSpan {
    /// Milliseconds, or `None` if the text is not in the notation of this type.
    pub fn millis(&self) -> Option<i64> {
        if self.0.is_empty() {
            return None;
        }
        if let Some(days) = self.0.strip_suffix('d') {
            return number(days)?.checked_mul(86_400_000);
        }
        let mut rest = self.0.as_str();
        let mut total = 0_i64;
        let mut last = i64::MAX;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (value, tail) = rest.split_at_checked(digits)?;
            let (factor, tail) = if let Some(tail) = tail.strip_prefix("ms") {
                (1, tail)
            } else if let Some(tail) = tail.strip_prefix('s') {
                (1_000, tail)
            } else if let Some(tail) = tail.strip_prefix('m') {
                (60_000, tail)
            } else {
                (3_600_000, tail.strip_prefix('h')?)
            };
            if factor >= last {
                return None;
            }
            total = total.checked_add(number(value)?.checked_mul(factor)?)?;
            last = factor;
            rest = tail;
        }
        Some(total)
    }

    /// As a standard duration, or `None` if the text is not in the notation of this type.
    pub fn duration(&self) -> Option<std::time::Duration> {
        Some(std::time::Duration::from_millis(
            u64::try_from(self.millis()?).ok()?,
        ))
    }
}

impl Percent {
    /// The percentage as a fraction (`3%` is 0.03), or `None` if the text is not in the notation of this type.
    pub fn fraction(&self) -> Option<f64> {
        let value = self.0.strip_suffix('%')?;
        let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if !plain || value.starts_with('.') || value.ends_with('.') {
            return None;
        }
        value.parse::<f64>().ok().map(|value| value / 100.0)
    }
}

impl ByteSize {
    /// Bytes, rounded down, or `None` if the text is not in the notation of this type or does not fit.
    pub fn bytes(&self) -> Option<u64> {
        const SUFFIXES: [(&str, u64); 10] = [
            ("Ki", 1 << 10),
            ("Mi", 1 << 20),
            ("Gi", 1 << 30),
            ("Ti", 1 << 40),
            ("Pi", 1 << 50),
            ("k", 1_000),
            ("M", 1_000_000),
            ("G", 1_000_000_000),
            ("T", 1_000_000_000_000),
            ("P", 1_000_000_000_000_000),
        ];
        let (value, factor) = SUFFIXES
            .iter()
            .find_map(|(suffix, factor)| Some((self.0.strip_suffix(suffix)?, *factor)))
            .unwrap_or((self.0.as_str(), 1));
        let (whole, thousandths) = match value.split_once('.') {
            None => (value, 0),
            Some((whole, part)) if (1..=3).contains(&part.len()) => {
                (whole, u64::try_from(number(&format!("{part:0<3}"))?).ok()?)
            }
            Some(_) => return None,
        };
        let whole = u64::try_from(number(whole)?).ok()?.checked_mul(factor)?;
        whole.checked_add(factor.checked_mul(thousandths)? / 1_000)
    }
}

/// A whole number written in digits alone.
fn number(digits: &str) -> Option<i64> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_in_milliseconds() {
        let cases = [
            ("250ms", Some(250)),
            ("1s", Some(1_000)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1m500ms", Some(60_500)),
            ("7d", Some(604_800_000)),
            ("72h", Some(259_200_000)),
            ("", None),
            ("5", None),
            ("m5", None),
            ("30m1h", None),
            ("1d12h", None),
            ("-5m", None),
            ("+5m", None),
            ("1.5h", None),
            ("5 m", None),
            ("1s1s", None),
        ];
        for (text, millis) in cases {
            assert_eq!(TimeSpan::from(text).millis(), millis, "{text}");
        }
    }

    #[test]
    fn percentages_are_read_as_fractions() {
        for (text, fraction) in [("3%", 0.03), ("2.5%", 0.025), ("0%", 0.0), ("100%", 1.0)] {
            let read = Percent::from(text).fraction().unwrap();
            assert!((read - fraction).abs() < 1e-12, "{text}");
        }
        for text in ["3", "%", "-3%", ".5%", "5.%", "1.2.3%", "inf%", "1e2%"] {
            assert_eq!(Percent::from(text).fraction(), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_in_bytes() {
        let cases = [
            ("36Gi", Some(36 << 30)),
            ("1.5Ti", Some(3 << 39)),
            ("500M", Some(500_000_000)),
            ("1073741824", Some(1 << 30)),
            ("1.5", Some(1)),
            ("Gi", None),
            ("-1Gi", None),
            ("1.2345Gi", None),
            ("1..5Gi", None),
            ("999999999999999Pi", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(ByteSize::from(text).bytes(), bytes, "{text}");
        }
    }
}
