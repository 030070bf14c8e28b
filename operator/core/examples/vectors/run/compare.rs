//! Compares a result with what a vector expects, within the file's tolerances.

use serde_json::Value as Json;
use serde_yaml::Value as Yaml;

use super::reading::{Fields, number};

/// The tolerances of one file.
pub(crate) struct Tolerance {
    absolute: f64,
    theta_pct: f64,
    relative: f64,
}

impl Tolerance {
    pub(crate) fn read(value: Option<&Yaml>) -> Result<Self, String> {
        let mut out = Self {
            absolute: 2e-6,
            theta_pct: 6e-5,
            relative: 1e-5,
        };
        let Some(value) = value else { return Ok(out) };
        let fields = Fields::of(value, "tolerance")?;
        fields.only(&["absolute", "theta_pct", "relative"])?;
        out.absolute = fields.number_or("absolute", out.absolute)?;
        out.theta_pct = fields.number_or("theta_pct", out.theta_pct)?;
        out.relative = fields.number_or("relative", out.relative)?;
        Ok(out)
    }

    fn within(&self, got: f64, want: f64, key: &str) -> bool {
        let limit = match key {
            "tau2" | "ewc" | "used" => self.relative * want.abs(),
            "theta_pct" => self.theta_pct,
            _ => self.absolute + 1e-9 * want.abs(),
        };
        (got - want).abs() <= limit
    }
}

/// The place of the first disagreement, if there is one.
pub(crate) fn agree(
    got: &Json,
    want: &Yaml,
    tolerance: &Tolerance,
    at: &str,
) -> Result<(), String> {
    let here = |good: bool| if good { Ok(()) } else { Err(at.to_owned()) };
    match want {
        Yaml::Mapping(map) => {
            for (key, value) in map {
                let key = key.as_str().ok_or_else(|| at.to_owned())?;
                let path = format!("{at}/{key}");
                let found = got.get(key).ok_or_else(|| path.clone())?;
                agree(found, value, tolerance, &path)?;
            }
            here(got.is_object())
        }
        Yaml::Sequence(list) => {
            let found = got.as_array().filter(|f| f.len() == list.len());
            for (i, (g, w)) in found
                .ok_or_else(|| at.to_owned())?
                .iter()
                .zip(list)
                .enumerate()
            {
                agree(g, w, tolerance, &format!("{at}/{i}"))?;
            }
            Ok(())
        }
        Yaml::Number(n) => {
            let key = at.rsplit('/').next().unwrap_or_default();
            let want = number(want).ok_or_else(|| at.to_owned())?;
            let exact = n.is_i64() || n.is_u64();
            here(got.as_f64().is_some_and(|g| {
                if exact {
                    (g - want).abs() <= 0.0
                } else {
                    tolerance.within(g, want, key)
                }
            }))
        }
        Yaml::String(text) => here(got.as_str() == Some(text)),
        Yaml::Bool(b) => here(got.as_bool() == Some(*b)),
        Yaml::Null => here(got.is_null()),
        Yaml::Tagged(_) => here(false),
    }
}
