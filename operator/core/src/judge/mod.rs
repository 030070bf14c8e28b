//! Judges a canary against its control.
