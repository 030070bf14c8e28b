//! Takes written values (`7d`, `3%`, `25%`, selectors), gives numbers and text that the core speaks in. A value that the
//! schema lets through and that still cannot be read becomes a refusal that names field, value and remedy.

use heapfleet_core::decision::Reason;
use heapfleet_core::plan::Limit;
use heapfleet_core::world::Refusal;
use heapfleet_crds as crds;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A refusal of the spec itself.
pub(super) fn invalid(message: String) -> Refusal {
    Refusal {
        reason: Reason::InvalidSpec,
        message,
    }
}

/// The duration written at `field`.
pub(super) fn duration(field: &str, span: &crds::TimeSpan) -> Result<SignedDuration, Refusal> {
    span.millis()
        .map(SignedDuration::from_millis)
        .ok_or_else(|| {
            invalid(format!(
                "{field}: {span} is not a duration; write it as 250ms, 30s, 5m, 1h30m or 7d."
            ))
        })
}

/// The percentage written at `field`, as a fraction.
pub(super) fn fraction(field: &str, percent: &crds::Percent) -> Result<f64, Refusal> {
    percent.fraction().ok_or_else(|| {
        invalid(format!(
            "{field}: {percent} is not a percentage; write it as 3% or 2.5%."
        ))
    })
}

/// The number or percentage written at `field`.
pub(super) fn limit(field: &str, limit: &crds::CountOrPercent) -> Result<Limit, Refusal> {
    let read = match &limit.0 {
        IntOrString::Int(count) => u32::try_from(*count).ok().map(Limit::Count),
        IntOrString::String(text) => text
            .strip_suffix('%')
            .and_then(|digits| digits.parse().ok())
            .map(Limit::Percent),
    };
    // The schema's own reading decides what is in range.
    read.filter(|_| limit.of(1).is_some()).ok_or_else(|| {
        let written = match &limit.0 {
            IntOrString::Int(count) => count.to_string(),
            IntOrString::String(text) => text.clone(),
        };
        invalid(format!("{field}: {written} is neither a number from 1 to 1000 nor a percentage from 1% to 100%."))
    })
}

/// How many blocks a duration needs at least, rounded up.
pub(super) fn blocks_up(length: SignedDuration, block: SignedDuration) -> u32 {
    let (length, block) = (length.as_millis().max(0), block.as_millis().max(1));
    u32::try_from((length + block - 1) / block).unwrap_or(u32::MAX)
}

/// How many whole blocks a duration holds.
pub(super) fn blocks_down(length: SignedDuration, block: SignedDuration) -> u32 {
    let (length, block) = (length.as_millis().max(0), block.as_millis().max(1));
    u32::try_from(length / block).unwrap_or(u32::MAX)
}

/// A count that the schema keeps above zero.
pub(super) fn count(value: i32) -> u32 {
    u32::try_from(value).unwrap_or_default()
}

/// A count as the schema stores it.
pub(super) fn stored(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// A selector in the text form that the API takes in `labelSelector`; empty selects everything.
pub fn selector_text(selector: &crds::Selector) -> String {
    let labels = selector
        .match_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().map(|expression| {
        let key = &expression.key;
        let values: Vec<&str> = expression
            .values
            .iter()
            .map(crds::LabelText::as_str)
            .collect();
        let values = values.join(",");
        match expression.operator {
            crds::SelectorOperator::In => format!("{key} in ({values})"),
            crds::SelectorOperator::NotIn => format!("{key} notin ({values})"),
            crds::SelectorOperator::Exists => key.clone(),
            crds::SelectorOperator::DoesNotExist => format!("!{key}"),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_to_the_millisecond() {
        for (text, millis) in [
            ("250ms", 250),
            ("1s", 1_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(
                duration("x", &text.into()).unwrap(),
                SignedDuration::from_millis(millis),
                "{text}"
            );
        }
        let refusal = duration("spec.analysis.minBake", &"6".into()).unwrap_err();
        assert!(
            refusal
                .message
                .starts_with("spec.analysis.minBake: 6 is not"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn blocks_are_counted_whole() {
        let ms = SignedDuration::from_millis;
        for (length, block, up, down) in [
            (60_000, 1_000, 60, 60),
            (61_500, 1_000, 62, 61),
            (21_600_000, 300_000, 72, 72),
            (0, 1_000, 0, 0),
        ] {
            assert_eq!(blocks_up(ms(length), ms(block)), up, "{length}/{block}");
            assert_eq!(blocks_down(ms(length), ms(block)), down, "{length}/{block}");
        }
    }

    #[test]
    fn limits_are_numbers_or_percentages() {
        let text = |text: &str| crds::CountOrPercent(IntOrString::String(text.to_owned()));
        assert_eq!(
            limit("x", &crds::CountOrPercent(IntOrString::Int(3))).unwrap(),
            Limit::Count(3)
        );
        assert_eq!(limit("x", &text("25%")).unwrap(), Limit::Percent(25));
        assert!((fraction("x", &"2.5%".into()).unwrap() - 0.025).abs() < 1e-12);
        for bad in [
            text("0%"),
            text("101%"),
            text("5"),
            crds::CountOrPercent(IntOrString::Int(0)),
        ] {
            assert_eq!(limit("x", &bad).unwrap_err().reason, Reason::InvalidSpec);
        }
    }

    #[test]
    fn selectors_read_as_the_api_takes_them() {
        let expression = |key: &str, operator, values: &[&str]| crds::SelectorExpression {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let mut selector = crds::Selector::labels([("app", "trace-server"), ("tier", "cache")]);
        selector.match_expressions = vec![
            expression("env", crds::SelectorOperator::In, &["prod", "stage"]),
            expression("env", crds::SelectorOperator::NotIn, &["dev"]),
            expression("canary", crds::SelectorOperator::Exists, &[]),
            expression("legacy", crds::SelectorOperator::DoesNotExist, &[]),
        ];
        assert_eq!(
            selector_text(&selector),
            "app=trace-server,tier=cache,env in (prod,stage),env notin (dev),canary,!legacy"
        );
    }
}
