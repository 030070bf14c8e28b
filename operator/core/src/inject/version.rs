//! Takes the text of a version, gives its numbers. Never compares what a distribution adds to them.

/// Major, minor and patch.
pub(super) type Version = (u32, u32, u32);

/// The numbers of a version without what a distribution adds; what is missing is 0. `None`: it does not begin with one.
pub(super) fn version(text: &str) -> Option<Version> {
    let upstream = text.split(['-', '+']).next()?;
    let mut parts = upstream.split('.').map(str::parse);
    let major = parts.next()?.ok()?;
    let mut next = || parts.next().and_then(Result::ok).unwrap_or(0);
    Some((major, next(), next()))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_read_as_far_as_they_are_numbers() {
        for (text, expected) in [
            ("5.3.0", Some((5, 3, 0))),
            ("2.36", Some((2, 36, 0))),
            ("2.10-1ubuntu2", Some((2, 10, 0))),
            ("5.3.0-12-gabc", Some((5, 3, 0))),
            ("1.34.1+k3s1", Some((1, 34, 1))),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
