//! Takes the body of a query's answer, gives its series. Never takes a partial answer for a whole one, and never lets a
//! value through that is not a finite number.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::{PrometheusError, stable, status_clause};

/// One series as stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawSeries {
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Milliseconds since the epoch, value; in the order of the answer.
    pub(super) samples: Vec<(i64, f64)>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    status: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<Data<'a>>,
    #[serde(rename = "errorType", default)]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(rename = "resultType")]
    result_type: Cow<'a, str>,
    #[serde(borrow)]
    result: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(borrow, default)]
    values: Vec<Sample<'a>>,
}

#[derive(Deserialize)]
struct Sample<'a>(f64, #[serde(borrow)] Cow<'a, str>);

/// The series of a matrix answer.
pub(super) fn matrix(who: &str, code: u16, body: &[u8]) -> Result<Vec<RawSeries>, PrometheusError> {
    let answer: Answer<'_> = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        // A scalar or vector has another shape, a proxy's page is no JSON; either way it is not what was asked for.
        Err(_) if (200..300).contains(&code) => {
            return Err(PrometheusError::Answer {
                who: who.to_owned(),
                because: "an answer that is not a matrix of samples".to_owned(),
            });
        }
        Err(_) => {
            return Err(PrometheusError::Status {
                who: who.to_owned(),
                code,
                clause: status_clause(code),
            });
        }
    };
    if answer.status != "success" {
        return Err(refusal(who, code, &answer));
    }
    if let Some(warning) = answer
        .warnings
        .iter()
        .find(|text| !text.starts_with("PromQL info:"))
    {
        return Err(PrometheusError::Partial {
            who: who.to_owned(),
            warning: stable(warning),
        });
    }
    let data = answer
        .data
        .filter(|data| data.result_type == "matrix")
        .ok_or_else(|| PrometheusError::Answer {
            who: who.to_owned(),
            because: "an answer that is not a matrix of samples".to_owned(),
        })?;
    Ok(data.result.into_iter().map(series).collect())
}

fn refusal(who: &str, code: u16, answer: &Answer<'_>) -> PrometheusError {
    let who = who.to_owned();
    match (code, answer.error_type.as_str()) {
        (401 | 403 | 404 | 429, _)
        | (500..=599, "" | "unavailable" | "internal" | "server_error") => {
            PrometheusError::Status {
                who,
                code,
                clause: status_clause(code),
            }
        }
        (_, "timeout") => PrometheusError::Query {
            who,
            lasting: false,
            clause: "the query timed out there".to_owned(),
        },
        (_, "canceled") => PrometheusError::Query {
            who,
            lasting: false,
            clause: "the query was cancelled there".to_owned(),
        },
        (_, kind) => PrometheusError::Query {
            who,
            lasting: kind == "bad_data",
            clause: format!("the query was refused: {}", stable(&answer.error)),
        },
    }
}

fn series(item: Item<'_>) -> RawSeries {
    let samples = item.values.into_iter().filter_map(|Sample(at, value)| {
        let value: f64 = value.parse().ok()?;
        let at = millis(at)?;
        value.is_finite().then_some((at, value))
    });
    RawSeries {
        samples: samples.collect(),
        labels: item.metric,
    }
}

/// Seconds to whole milliseconds, the resolution of Prometheus.
fn millis(seconds: f64) -> Option<i64> {
    let millis = (seconds * 1_000.0).round();
    if !(0.0..9.0e15).contains(&millis) {
        return None;
    }
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "whole and in range, as checked"
    )]
    let whole = millis as i64;
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::Class;

    fn ok(body: &str) -> Result<Vec<RawSeries>, PrometheusError> {
        matrix("Prometheus of region nrt", 200, body.as_bytes())
    }

    #[test]
    fn samples_keep_their_times_and_only_finite_values_come_through() {
        let series = ok(
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},"values":[[1700000000.25,"1.5"],[1700000001,"NaN"],[1700000002,"+Inf"],[1700000003,"-Inf"],[1700000004.001,"2e9"],[1700000005,"x"]]}]}}"#,
        )
        .unwrap();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].labels["pod"], "a");
        assert_eq!(
            series[0].samples,
            [(1_700_000_000_250, 1.5), (1_700_000_004_001, 2e9)]
        );
    }

    #[test]
    fn an_empty_answer_is_whole() {
        let body = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
        assert_eq!(ok(body).unwrap(), []);
    }

    #[test]
    fn warnings_make_an_answer_partial_and_infos_do_not() {
        let with = |warnings: &str| {
            ok(&format!(
                r#"{{"status":"success","data":{{"resultType":"matrix","result":[]}},"warnings":[{warnings}]}}"#
            ))
        };
        let partial = with(r#""store 10.0.0.7:10901 timed out""#).unwrap_err();
        assert_eq!(
            partial.to_string(),
            "Prometheus of region nrt: partial answer: store … timed out"
        );
        assert_eq!(partial.class(), Class::Transient);
        assert!(with(r#""PromQL info: metric might not be a counter""#).is_ok());
    }

    #[test]
    fn refusals_are_told_apart() {
        let cases = [
            (
                503,
                "Service Unavailable",
                Class::Transient,
                "it is not ready",
            ),
            (
                404,
                "404 page not found",
                Class::Invalid,
                "no Prometheus API",
            ),
            (401, "Unauthorized", Class::Forbidden, "credentials"),
            (
                422,
                r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}"#,
                Class::Transient,
                "too many samples",
            ),
            (
                400,
                r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:7: parse error"}"#,
                Class::Invalid,
                "refused",
            ),
            (
                503,
                r#"{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}"#,
                Class::Transient,
                "timed out",
            ),
            (200, "<html>", Class::Invalid, "not a matrix"),
            (
                200,
                r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
                Class::Invalid,
                "not a matrix",
            ),
        ];
        for (code, body, class, words) in cases {
            let error = matrix("Prometheus of region nrt", code, body.as_bytes()).unwrap_err();
            assert_eq!(error.class(), class, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
