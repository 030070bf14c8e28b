//! The settings that hold where a vector is silent, as the file states them (those of the study).

use heapfleet_core::judge::rule::Rule;
use serde_yaml::Value;

use super::reading::Fields;

/// Rules and limits of the vectors of one file.
pub(crate) struct Defaults {
    /// Length of a block, seconds.
    pub(crate) block: f64,
    /// The ratio's rule.
    pub(crate) ratio: Rule,
    /// The peak's.
    pub(crate) peak: Rule,
    /// That of p99.
    pub(crate) p99: Rule,
    /// Error share of a count.
    pub(crate) alpha_counts: f64,
    /// Error of a promotion.
    pub(crate) alpha_promote: f64,
    /// Gain asked for, fraction.
    pub(crate) min_gain: f64,
    /// Fewest blocks of a bake.
    pub(crate) min_bake: usize,
    /// Most blocks of a bake.
    pub(crate) max_bake: usize,
}

impl Defaults {
    pub(crate) fn read(value: Option<&Value>) -> Result<Self, String> {
        let mut out = Self {
            block: 300.0,
            ratio: Rule::ratio(0.03),
            peak: Rule::peak(),
            p99: Rule::guardrail("p99", 0.02, 0.15, 0.010),
            alpha_counts: 0.005,
            alpha_promote: 0.05,
            min_gain: 0.0,
            min_bake: 72,
            max_bake: 288,
        };
        let Some(value) = value else { return Ok(out) };
        let all = Fields::of(value, "defaults")?;
        all.only(&[
            "block_s", "ratio", "p99", "peak", "counts", "evidence", "tau", "rules", "trend",
        ])?;
        out.block = all.number_or("block_s", out.block)?;
        if let Some(v) = all.get("evidence") {
            out.evidence(&Fields::of(v, "defaults.evidence")?)?;
        }
        if let Some(v) = all.get("tau") {
            out.tau(&Fields::of(v, "defaults.tau")?)?;
        }
        for (name, rule) in [
            ("ratio", &mut out.ratio),
            ("p99", &mut out.p99),
            ("peak", &mut out.peak),
        ] {
            if let Some(v) = all.get(name) {
                metric(rule, &Fields::of(v, name)?)?;
            }
        }
        if let Some(v) = all.get("counts") {
            let f = Fields::of(v, "defaults.counts")?;
            f.only(&["alpha", "multiples"])?;
            out.alpha_counts = f.number_or("alpha", out.alpha_counts)?;
            same(
                &f.numbers("multiples")?,
                &[1.5, 2.0, 4.0],
                "counts.multiples",
            )?;
        }
        if let Some(v) = all.get("rules") {
            out.rules(&Fields::of(v, "defaults.rules")?)?;
        }
        if let Some(v) = all.get("trend") {
            let f = Fields::of(v, "defaults.trend")?;
            f.only(&["z", "horizon_blocks", "drift_pct", "margin_pct"])?;
            let got: Result<Vec<f64>, String> = ["z", "horizon_blocks", "drift_pct", "margin_pct"]
                .iter()
                .map(|k| f.number(k))
                .collect();
            same(&got?, &[2.8, 144.0, 1.2, 5.0], "trend")?;
        }
        Ok(out)
    }

    fn evidence(&mut self, f: &Fields<'_>) -> Result<(), String> {
        f.only(&[
            "e_share", "g", "g_ramp", "w_level", "w_ramp", "starts", "stride",
        ])?;
        for rule in [&mut self.ratio, &mut self.p99] {
            rule.e_share = f.number_or("e_share", rule.e_share)?;
            let m = &mut rule.mixture;
            m.g = f.number_or("g", m.g)?;
            m.g_ramp = f.number_or("g_ramp", m.g_ramp)?;
            m.w_level = f.number_or("w_level", m.w_level)?;
            m.w_ramp = f.number_or("w_ramp", m.w_ramp)?;
            m.onsets = f.count_or("starts", m.onsets)?;
            m.stride = f.count_or("stride", m.stride)?;
        }
        Ok(())
    }

    fn tau(&mut self, f: &Fields<'_>) -> Result<(), String> {
        f.only(&["sigma0", "nu0", "sigma_floor", "sigma_reg", "slack"])?;
        let p = &mut self.ratio.prior;
        p.sigma0 = f.number_or("sigma0", p.sigma0)?;
        p.nu0 = f.number_or("nu0", p.nu0)?;
        p.floor = f.number_or("sigma_floor", p.floor)?;
        p.region = f.number_or("sigma_reg", p.region)?;
        p.slack = f.number_or("slack", p.slack)?;
        Ok(())
    }

    fn rules(&mut self, f: &Fields<'_>) -> Result<(), String> {
        f.only(&[
            "recent_z",
            "keep_without_extreme",
            "alpha_promote",
            "min_gain_pct",
            "min_bake_blocks",
            "max_bake_blocks",
        ])?;
        for rule in [&mut self.ratio, &mut self.p99, &mut self.peak] {
            rule.recent_z = f.number_or("recent_z", rule.recent_z)?;
        }
        same(
            &[f.number_or("keep_without_extreme", 0.5)?],
            &[0.5],
            "keep_without_extreme",
        )?;
        self.alpha_promote = f.number_or("alpha_promote", self.alpha_promote)?;
        self.min_gain = f.number_or("min_gain_pct", 0.0)? / 100.0;
        self.min_bake = f.count_or("min_bake_blocks", self.min_bake)?;
        self.max_bake = f.count_or("max_bake_blocks", self.max_bake)?;
        Ok(())
    }

    /// The rule of a metric by its name; an unknown name is judged like the ratio.
    pub(crate) fn rule(&self, name: &str) -> Rule {
        let mut rule = match name {
            "peak" => self.peak.clone(),
            "p99" => self.p99.clone(),
            _ => self.ratio.clone(),
        };
        name.clone_into(&mut rule.name);
        rule.trend = name == "ratio";
        rule
    }
}

fn metric(rule: &mut Rule, f: &Fields<'_>) -> Result<(), String> {
    f.only(&[
        "tol_pct",
        "margin_pct",
        "alpha",
        "min_blocks",
        "recent_blocks",
    ])?;
    let percent = |key: &str, log: f64| -> Result<f64, String> {
        Ok((f.number_or(key, 100.0 * log.exp_m1())? / 100.0).ln_1p())
    };
    rule.tolerance = percent("tol_pct", rule.tolerance)?;
    rule.margin = percent("margin_pct", rule.margin)?;
    rule.alpha = f.number_or("alpha", rule.alpha)?;
    rule.min_blocks = f.count_or("min_blocks", rule.min_blocks)?;
    rule.recent = f.count_or("recent_blocks", rule.recent)?;
    Ok(())
}

/// Constants of the judge that no vector can change.
fn same(got: &[f64], want: &[f64], what: &str) -> Result<(), String> {
    let equal = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9);
    if equal {
        Ok(())
    } else {
        Err(format!(
            "defaults.{what} is {got:?}, the judge's is {want:?}"
        ))
    }
}
