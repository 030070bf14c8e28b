//! The reference vectors, through the same runner as the `vectors` example.

#[path = "../examples/vectors/run/mod.rs"]
mod run;

#[test]
fn every_reference_vector_agrees() {
    let report = run::check(include_str!("vectors/judge.yaml"));
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.passed, 26);
}

#[test]
fn a_runner_never_skips() {
    let head = "version: 1\nvectors:\n- id: a\n";
    for (vector, why) in [
        (
            "  kind: nonsense\n  input: {}\n  expect: {}\n",
            "unknown kind",
        ),
        (
            "  kind: counter\n  input: {values: [1], more: 1}\n  expect: {}\n",
            "unknown key",
        ),
        (
            "  kind: counter\n  input: {values: [1, 2]}\n  expect: {wanted: 1}\n",
            "/wanted",
        ),
        (
            "  kind: counter\n  input: {values: [1, 2]}\n  expect: {increase: 1.1}\n",
            "/increase",
        ),
    ] {
        let report = run::check(&format!("{head}{vector}"));
        assert_eq!(report.passed, 0, "{why}");
        assert!(
            report.failures.iter().any(|f| f.contains(why)),
            "{why}: {:?}",
            report.failures
        );
    }
}
