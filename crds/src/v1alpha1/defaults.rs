//! Gives the default of every field that has one; must never disagree with the descriptions in the schemas (the golden
//! files hold both).

use super::{Percent, Selector, TargetKind, TimeSpan};

/// Declares functions for `serde(default = ...)`.
macro_rules! defaults {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(pub(super) fn $name() -> $type {
            $value
        })*
    };
}

defaults! {
    pod_label: String = "pod".to_owned();
    block_duration: TimeSpan = "5m".into();
    delay: TimeSpan = "60s".into();
    baseline: TimeSpan = "7d".into();
    min_bake: TimeSpan = "6h".into();
    max_bake: TimeSpan = "24h".into();
    verify_deadline: TimeSpan = "15m".into();
    gate_timeout: TimeSpan = "72h".into();
    max_regression: Percent = "3%".into();
    min_gain: Percent = "5%".into();
    max_increase: Percent = "8%".into();
    workload_deadline: TimeSpan = "15m".into();
    stability_window: TimeSpan = "1h".into();
    unreachable_deadline: TimeSpan = "1h".into();
    max_concurrent_regions: i32 = 1;
    time_zone: String = "UTC".to_owned();
    history_limit: i32 = 10;
    target_kinds: Vec<TargetKind> = vec![TargetKind::Deployment];
    opted_in: Selector = Selector::labels([("heapfleet.dev/enabled", "true")]);
}
