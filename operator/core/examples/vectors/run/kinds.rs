//! What each kind of vector computes, from its input alone.

use heapfleet_core::judge::diagnosis::{Ends, Finding, Span, diagnose};
use heapfleet_core::judge::gates::{self, ArmFacts, Churn, Facts};
use heapfleet_core::judge::noise::{self, OneOff};
use heapfleet_core::judge::rule::Mixture;
use heapfleet_core::judge::{counts, difference, evidence, hygiene, num};
use serde_json::{Value as Json, json};
use serde_yaml::Value as Yaml;

use super::defaults::Defaults;
use super::looks;
use super::reading::{Fields, number};

/// Runs one vector.
pub(crate) fn run(kind: &str, input: &Fields<'_>, defaults: &Defaults) -> Result<Json, String> {
    match kind {
        "block" => block(input, defaults),
        "counter" => {
            input.only(&["values"])?;
            let r = hygiene::increase(values(input, "values")?);
            Ok(json!({"increase": r.increase, "resets": r.resets}))
        }
        "stuck" => {
            input.only(&["t", "values"])?;
            let times = values(input, "t")?;
            let samples: Vec<(i64, f64)> = times
                .iter()
                .zip(values(input, "values")?)
                .filter_map(|(t, v)| num::millis(*t).map(|t| (t, v)))
                .collect();
            Ok(json!({"stuck": hygiene::is_stuck(&samples, 600_000)}))
        }
        "arm_mean" => {
            input.only(&["values"])?;
            Ok(json!({"mean": difference::arm_mean(&values(input, "values")?)}))
        }
        "lrv" => {
            input.only(&["series"])?;
            let r = noise::long_run(&values(input, "series")?, None);
            Ok(json!({"nu": r.nu, "ewc": r.ewc, "used": r.used}))
        }
        "tau2" => tau2(input, defaults),
        "log_e" => log_e(input, defaults),
        "bound" => {
            input.only(&["D", "omega2", "tau2", "alpha"])?;
            let d = input.numbers("D")?;
            let (omega2, tau2) = (input.number("omega2")?, input.number("tau2")?);
            let half = evidence::bound(d.len(), omega2, tau2, input.number("alpha")?);
            Ok(json!({"lower": num::mean(&d) - half, "upper": num::mean(&d) + half}))
        }
        "count_e" => {
            input.only(&["x", "n", "odds0"])?;
            let (x, n) = (input.number("x")?, input.number("n")?);
            Ok(json!({"log_e": counts::log_e(x, n, input.number("odds0")?)}))
        }
        "gates" => {
            let codes = gates::closed(&facts(input, defaults)?);
            Ok(json!({"closed": codes.iter().map(|c| c.as_str()).collect::<Vec<_>>()}))
        }
        "diagnosis" => diagnosis(input),
        "look" => looks::look(input, defaults),
        other => Err(format!("unknown kind {other}")),
    }
}

/// A list of numbers that may hold NaN and nulls.
fn values(input: &Fields<'_>, key: &str) -> Result<Vec<f64>, String> {
    input
        .list(key)?
        .iter()
        .map(|v| {
            if v.is_null() {
                Some(f64::NAN)
            } else {
                number(v)
            }
        })
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{key} holds something that is no number"))
}

fn block(input: &Fields<'_>, defaults: &Defaults) -> Result<Json, String> {
    input.only(&["start", "expected", "samples"])?;
    let start = num::millis(input.number("start")?).ok_or("start is no time")?;
    let length = num::millis(defaults.block).ok_or("block_s is no time")?;
    let mut samples = Vec::new();
    for sample in input.list("samples")? {
        let Some([t, rss, cache]) = sample.as_sequence().map(Vec::as_slice) else {
            return Err("a sample is not [t, rss, cache]".to_owned());
        };
        let value = |v: &Yaml| number(v).unwrap_or(f64::NAN);
        // A time that is none lies outside every block.
        let t = number(t).and_then(num::millis).unwrap_or(i64::MIN);
        samples.push((t, value(rss), value(cache)));
    }
    let r = hygiene::block(&samples, start, length, input.number_or("expected", 20.0)?);
    let d = r.dropped;
    Ok(json!({
        "count": r.count, "valid": r.valid, "mean": r.mean, "peak": r.peak,
        "dropped": {"nonfinite": d.nonfinite, "nonpositive": d.nonpositive,
                    "duplicate": d.duplicate, "outside": d.outside},
    }))
}

fn tau2(input: &Fields<'_>, defaults: &Defaults) -> Result<Json, String> {
    input.only(&[
        "e_canary",
        "e_control",
        "omega2",
        "p",
        "M",
        "moved",
        "hist",
        "sigma0",
        "nu0",
        "sigma_floor",
        "sigma_reg",
        "slack",
    ])?;
    let mut prior = defaults.ratio.prior;
    prior.sigma0 = input.number_or("sigma0", prior.sigma0)?;
    prior.nu0 = input.number_or("nu0", prior.nu0)?;
    prior.floor = input.number_or("sigma_floor", prior.floor)?;
    prior.region = input.number_or("sigma_reg", prior.region)?;
    prior.slack = input.number_or("slack", prior.slack)?;
    let hist = if input.get("hist").is_some() {
        input.numbers("hist")?
    } else {
        vec![0.0, 0.0]
    };
    let [sum, df] = hist.as_slice() else {
        return Err("hist is not [H, h]".to_owned());
    };
    let canary = values(input, "e_canary")?;
    let controls = [values(input, "e_control")?];
    let one = OneOff {
        canary: &canary,
        controls: &controls,
        draws: 1.0,
        omega2: input.number("omega2")?,
        terms: input.count_or("p", 1)?,
        baseline: input.count_or("M", 1)?,
        moved: input.number("moved")?,
        spread: 0.0,
        lottery: (*sum, *df),
    };
    Ok(json!({"tau2": noise::one_off(&prior, &one)}))
}

fn log_e(input: &Fields<'_>, defaults: &Defaults) -> Result<Json, String> {
    input.only(&[
        "D", "delta", "omega2", "tau2", "g", "g_ramp", "stride", "starts", "w_level", "w_ramp",
    ])?;
    let m = defaults.ratio.mixture;
    let mixture = Mixture {
        g: input.number_or("g", m.g)?,
        g_ramp: input.number_or("g_ramp", m.g_ramp)?,
        w_level: input.number_or("w_level", m.w_level)?,
        w_ramp: input.number_or("w_ramp", m.w_ramp)?,
        onsets: input.count_or("starts", m.onsets)?,
        stride: input.count_or("stride", m.stride)?,
    };
    let d = input.numbers("D")?;
    let (delta, omega2, tau2) = (
        input.number("delta")?,
        input.number("omega2")?,
        input.number("tau2")?,
    );
    Ok(json!({
        "level": evidence::log_e_level(&d, delta, omega2, tau2, mixture.g),
        "mix": evidence::log_e(&d, delta, omega2, tau2, &mixture),
    }))
}

/// Facts of the gates; what is missing closes its gate.
pub(crate) fn facts(input: &Fields<'_>, defaults: &Defaults) -> Result<Facts, String> {
    input.only(&[
        "canary",
        "control",
        "baseline_hours",
        "load_ratio",
        "blocks",
        "target",
        "source",
    ])?;
    let target = input
        .text("target")
        .unwrap_or_else(|| "jemalloc".to_owned());
    let source = input.text("source").unwrap_or_else(|| "glibc".to_owned());
    let (canary, turned) = arm(input.get("canary"), &target, defaults)?;
    let (control, control_turned) = arm(input.get("control"), &source, defaults)?;
    Ok(Facts {
        canary,
        controls: vec![control],
        baseline: input.number_or("baseline_hours", 0.0)? >= 24.0,
        load: input.get("load_ratio").and_then(number),
        blocks: input.count_or("blocks", 0)?,
        churn: Churn::Turnovers(turned, control_turned),
    })
}

/// One arm's facts and its turnovers.
fn arm(value: Option<&Yaml>, wanted: &str, defaults: &Defaults) -> Result<(ArmFacts, f64), String> {
    let Some(value) = value else {
        return Ok((ArmFacts::default(), 0.0));
    };
    let f = Fields::of(value, "arm")?;
    f.only(&[
        "pods_reporting",
        "pods_expected",
        "version",
        "fill",
        "evictions_15m",
        "turnovers",
        "age_s",
        "allocator",
        "stuck_pods",
    ])?;
    let pods = f.count_or("pods_reporting", 0)?;
    let facts = ArmFacts {
        gone: false,
        reported: pods > 0,
        pods,
        expected: f.count_or("pods_expected", 1)?,
        stuck: f.count_or("stuck_pods", 0)?,
        age_blocks: f.number_or("age_s", 0.0)? / defaults.block,
        population_changed: false,
        version: f.text("version"),
        verified: f.text("allocator").as_deref() == Some(wanted),
        full: gates::is_full(f.number_or("fill", 0.0)?, false),
        evicting: f.number_or("evictions_15m", 0.0)? > 0.0,
    };
    Ok((facts, f.number_or("turnovers", 0.0)?))
}

fn diagnosis(input: &Fields<'_>) -> Result<Json, String> {
    input.only(&["capacity", "purges", "a", "b"])?;
    let ends = |key: &str| -> Result<Ends, String> {
        let f = Fields::of(input.need(key)?, key)?;
        f.only(&[
            "rss",
            "cache",
            "allocated",
            "active",
            "resident",
            "metadata",
        ])?;
        Ok(Ends {
            rss: f.number("rss")?,
            cache: f.number("cache")?,
            allocated: f.get("allocated").and_then(number),
            active: f.get("active").and_then(number),
            resident: f.get("resident").and_then(number),
            metadata: f.get("metadata").and_then(number),
        })
    };
    let span = Span {
        a: ends("a")?,
        b: ends("b")?,
        capacity: input.get("capacity").and_then(number),
        purges: input.number_or("purges", 0.0)?,
    };
    let found: Vec<&str> = diagnose(&span).into_iter().map(Finding::as_str).collect();
    Ok(json!({ "diagnosis": found }))
}
