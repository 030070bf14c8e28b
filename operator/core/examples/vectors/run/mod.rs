//! One file of vectors: text in, what passed and what failed out. Never skips: an unknown kind, an unknown input key or
//! a missing expected key is a failure.

mod compare;
mod defaults;
mod kinds;
mod looks;
mod reading;

use std::collections::BTreeSet;

use serde_yaml::Value;

use compare::Tolerance;
use defaults::Defaults;
use reading::Fields;

/// What became of one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Vectors that agree.
    pub(crate) passed: usize,
    /// One line for each that does not.
    pub(crate) failures: Vec<String>,
}

/// Runs all vectors of one file.
pub(crate) fn check(text: &str) -> Report {
    let mut report = Report::default();
    match document(text, &mut report) {
        Ok(()) => {}
        Err(error) => report.failures.push(error),
    }
    report
}

fn document(text: &str, report: &mut Report) -> Result<(), String> {
    let value: Value = serde_yaml::from_str(text).map_err(|e| format!("no YAML: {e}"))?;
    let file = Fields::of(&value, "the file")?;
    file.only(&["version", "tolerance", "defaults", "vectors"])?;
    if file.number_or("version", 1.0)?.to_bits() != 1_f64.to_bits() {
        return Err("only version 1 is known".to_owned());
    }
    let tolerance = Tolerance::read(file.get("tolerance"))?;
    let defaults = Defaults::read(file.get("defaults"))?;
    let mut ids = BTreeSet::new();
    for vector in file.list("vectors")? {
        let id = vector
            .get("id")
            .and_then(Value::as_str)
            .unwrap_or("(no id)")
            .to_owned();
        if !ids.insert(id.clone()) {
            report.failures.push(format!("{id}: the id is used twice"));
            continue;
        }
        match one(vector, &defaults, &tolerance) {
            Ok(()) => report.passed += 1,
            Err(error) => report.failures.push(format!("{id}: {error}")),
        }
    }
    Ok(())
}

fn one(vector: &Value, defaults: &Defaults, tolerance: &Tolerance) -> Result<(), String> {
    let fields = Fields::of(vector, "the vector")?;
    fields.only(&["id", "kind", "note", "input", "expect"])?;
    let input = Fields::of(fields.need("input")?, "input")?;
    let kind = fields.need("kind")?.as_str().ok_or("the kind is no text")?;
    let got = kinds::run(kind, &input, defaults)?;
    let expect = fields.need("expect")?;
    compare::agree(&got, expect, tolerance, "").map_err(|at| {
        let want = serde_yaml::to_string(expect).unwrap_or_default();
        format!(
            "at {at}: expected {} got {got}",
            want.trim().replace('\n', "; ")
        )
    })
}
