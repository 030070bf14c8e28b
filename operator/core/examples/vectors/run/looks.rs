//! The kind `look`: one decision from reduced inputs.

use heapfleet_core::judge::rule::Rule;
use heapfleet_core::judge::verdict::{self, Case, CountWeighed, Weighed};
use heapfleet_core::judge::{Verdict, gates};
use serde_json::{Map, Value as Json, json};
use serde_yaml::Value as Yaml;

use super::defaults::Defaults;
use super::kinds;
use super::reading::{Fields, expand};

/// Runs one look.
pub(crate) fn look(input: &Fields<'_>, defaults: &Defaults) -> Result<Json, String> {
    input.only(&[
        "hard",
        "gates",
        "metrics",
        "counts",
        "bake_blocks",
        "min_bake_blocks",
        "max_bake_blocks",
        "alpha_promote",
        "min_gain_pct",
    ])?;
    let hard = match input.get("hard") {
        Some(Yaml::Sequence(list)) => list.first().and_then(Yaml::as_str).map(str::to_owned),
        _ => None,
    };
    if hard.is_some() {
        let (verdict, reason) = verdict::decide(&Case {
            hard,
            ..Case::default()
        });
        return Ok(json!({
            "verdict": verdict.as_str(), "reason": reason.to_string(), "metrics": {}}));
    }
    let min_gain = input.number_or("min_gain_pct", 100.0 * defaults.min_gain)? / 100.0;
    let closed = match input.get("gates") {
        Some(v) => gates::closed(&kinds::facts(&Fields::of(v, "gates")?, defaults)?),
        None => Vec::new(),
    };
    let (mut metrics, mut shown) = (Vec::new(), Map::new());
    for (name, value) in Fields::of(input.need("metrics")?, "metrics")?.entries() {
        let weighed = metric(name, value, defaults, min_gain)?;
        shown.insert(name.to_owned(), show(&weighed));
        metrics.push(weighed);
    }
    let mut counts = Vec::new();
    if let Some(value) = input.get("counts").filter(|v| !v.is_null()) {
        for (name, value) in Fields::of(value, "counts")?.entries() {
            let f = Fields::of(value, name)?;
            f.only(&["x", "n", "odds0", "alpha"])?;
            let alpha = f.number_or("alpha", defaults.alpha_counts)?;
            let (x, n, odds) = (f.number("x")?, f.number("n")?, f.number("odds0")?);
            let count = CountWeighed::of(name, x, n, odds, alpha);
            shown.insert(name.to_owned(), json!({"log_e": count.log_e}));
            counts.push(count);
        }
    }
    let bake_blocks = input.count_or("bake_blocks", 0)?;
    let case = Case {
        hard: None,
        not_active: false,
        closed,
        metrics,
        counts,
        bake_blocks,
        min_bake: input.count_or("min_bake_blocks", defaults.min_bake)?,
        gain_asked: min_gain > 0.0,
        alpha_promote: input.number_or("alpha_promote", defaults.alpha_promote)?,
    };
    let (verdict, reason) = verdict::decide(&case);
    let mut out = json!({
        "verdict": verdict.as_str(), "reason": reason.to_string(), "metrics": Json::Object(shown)});
    if verdict == Verdict::Inconclusive {
        let most = input.count_or("max_bake_blocks", defaults.max_bake)?;
        insert(&mut out, "final", json!(bake_blocks >= most));
    }
    Ok(out)
}

/// One metric with its overrides, rule R4 included.
fn metric(name: &str, value: &Yaml, defaults: &Defaults, min_gain: f64) -> Result<Weighed, String> {
    let f = Fields::of(value, name)?;
    f.only(&[
        "D",
        "omega2",
        "tau2",
        "D_without_extreme",
        "tau2_without_extreme",
        "tol",
        "margin",
        "alpha",
        "g",
        "g_ramp",
        "stride",
        "starts",
        "w_level",
        "w_ramp",
        "min_m",
        "recent",
    ])?;
    let rule = rule(name, &f, defaults)?;
    let d = f.numbers("D")?;
    let (omega2, tau2) = (f.number("omega2")?, f.number("tau2")?);
    let mut weighed = verdict::weigh(&rule, &d, omega2, tau2, min_gain);
    if let Some(without) = f.get("D_without_extreme") {
        let without = expand(without).ok_or("D_without_extreme is no list of numbers")?;
        let tau2 = f.number_or("tau2_without_extreme", tau2)?;
        weighed.survives = verdict::survives(&rule, &without, omega2, tau2);
    }
    Ok(weighed)
}

fn rule(name: &str, f: &Fields<'_>, defaults: &Defaults) -> Result<Rule, String> {
    let mut rule = defaults.rule(name);
    let percent = |key: &str, log: f64| -> Result<f64, String> {
        Ok(if f.get(key).is_some() {
            (f.number(key)? / 100.0).ln_1p()
        } else {
            log
        })
    };
    rule.tolerance = percent("tol", rule.tolerance)?;
    rule.margin = percent("margin", rule.margin)?;
    rule.alpha = f.number_or("alpha", rule.alpha)?;
    rule.min_blocks = f.count_or("min_m", rule.min_blocks)?;
    rule.recent = f.count_or("recent", rule.recent)?;
    let m = &mut rule.mixture;
    m.g = f.number_or("g", m.g)?;
    m.g_ramp = f.number_or("g_ramp", m.g_ramp)?;
    m.w_level = f.number_or("w_level", m.w_level)?;
    m.w_ramp = f.number_or("w_ramp", m.w_ramp)?;
    m.onsets = f.count_or("starts", m.onsets)?;
    m.stride = f.count_or("stride", m.stride)?;
    Ok(rule)
}

/// The numbers of one metric under the names of the vectors.
fn show(w: &Weighed) -> Json {
    let mut out = json!({
        "blocks": w.blocks, "log_e": w.log_e, "line": w.line, "line_promote": w.line_promote});
    if w.blocks > 0 {
        insert(&mut out, "theta_pct", json!(100.0 * w.theta.exp_m1()));
    }
    if let Some(trend) = w.trend {
        insert(&mut out, "projected", json!(trend.projected));
        insert(&mut out, "growth", json!(trend.growth));
    }
    out
}

/// Adds a key to an object.
fn insert(object: &mut Json, key: &str, value: Json) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}
