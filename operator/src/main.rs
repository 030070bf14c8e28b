//! Entry point of the `heapfleet` binary.
fn main() {}
