//! Conversions from API objects as a real API server answers them.
