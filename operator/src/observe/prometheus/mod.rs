//! Takes regions and what must be seen of their pods, gives samples with the times at which they were scraped. Never takes
//! a partial answer for a whole one; never lets a user's text into a query unescaped.

mod answer;
mod client;
mod error;
mod look;
#[cfg(test)]
mod look_tests;
mod merge;
mod place;
mod promql;

pub use client::{Limits, Prometheus};
pub use error::PrometheusError;
pub use look::{Ask, look};
