//! Reading YAML strictly: every key is asked for or is an error.

use serde_yaml::{Mapping, Value};

/// A mapping with a name for messages.
pub(crate) struct Fields<'a> {
    map: &'a Mapping,
    name: String,
}

/// A number, or the words NaN and Inf, which most readers hand over as text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(s) => s.trim_start_matches('.').parse().ok(),
        Value::Null
        | Value::Bool(_)
        | Value::Sequence(_)
        | Value::Mapping(_)
        | Value::Tagged(_) => None,
    }
}

/// A list of numbers, or `[[v, k], …]` for v repeated k times.
pub(crate) fn expand(value: &Value) -> Option<Vec<f64>> {
    let list = value.as_sequence()?;
    let mut out = Vec::new();
    for item in list {
        if let Some(pair) = item.as_sequence() {
            let [v, k] = pair.as_slice() else { return None };
            let times = usize::try_from(k.as_u64()?).ok()?;
            out.extend(std::iter::repeat_n(number(v)?, times));
        } else {
            out.push(number(item)?);
        }
    }
    Some(out)
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value, name: &str) -> Result<Self, String> {
        let map = value
            .as_mapping()
            .ok_or_else(|| format!("{name} is no mapping"))?;
        Ok(Self {
            map,
            name: name.to_owned(),
        })
    }

    /// An error for a key that is not among these.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), String> {
        for key in self.map.keys() {
            if !key.as_str().is_some_and(|k| known.contains(&k)) {
                return Err(format!("{} has an unknown key {key:?}", self.name));
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.map
            .iter()
            .filter_map(|(k, v)| k.as_str().map(|k| (k, v)))
    }

    pub(crate) fn need(&self, key: &str) -> Result<&'a Value, String> {
        self.get(key)
            .ok_or_else(|| format!("{} lacks {key}", self.name))
    }

    pub(crate) fn number(&self, key: &str) -> Result<f64, String> {
        number(self.need(key)?).ok_or_else(|| format!("{}.{key} is no number", self.name))
    }

    pub(crate) fn number_or(&self, key: &str, default: f64) -> Result<f64, String> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => number(value).ok_or_else(|| format!("{}.{key} is no number", self.name)),
        }
    }

    pub(crate) fn count_or(&self, key: &str, default: usize) -> Result<usize, String> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| format!("{}.{key} is no count", self.name)),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let value = self.get(key)?;
        let number = || value.as_f64().map(|n| n.to_string());
        value.as_str().map(str::to_owned).or_else(number)
    }

    pub(crate) fn list(&self, key: &str) -> Result<&'a Vec<Value>, String> {
        self.need(key)?
            .as_sequence()
            .ok_or_else(|| format!("{}.{key} is no list", self.name))
    }

    pub(crate) fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        expand(self.need(key)?).ok_or_else(|| format!("{}.{key} is no list of numbers", self.name))
    }
}
