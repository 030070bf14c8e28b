//! A cache server whose memory grows.
fn main() {}
