//! Answers of the API server and what they are taken for.

use std::time::Duration;

use kube::core::Status;

use super::error::{Class, from_kube, human};

fn status(code: u16, reason: &str, message: &str) -> kube::Error {
    let mut status = Status::failure(message, reason);
    status.code = code;
    kube::Error::Api(status.boxed())
}

#[test]
fn every_answer_has_its_class() {
    let cases = [
        (
            status(401, "Unauthorized", "Unauthorized"),
            Class::Forbidden,
        ),
        (
            status(403, "Forbidden", "pods is forbidden"),
            Class::Forbidden,
        ),
        (
            status(404, "NotFound", "pods \"x\" not found"),
            Class::Conflict,
        ),
        (status(409, "AlreadyExists", "exists"), Class::Conflict),
        (
            status(409, "Conflict", "the object has been modified"),
            Class::Conflict,
        ),
        (
            status(410, "Expired", "the provided continue parameter is too old"),
            Class::Transient,
        ),
        (
            status(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
            ),
            Class::Conflict,
        ),
        (
            status(422, "Invalid", "Deployment.apps is invalid: spec.x"),
            Class::Invalid,
        ),
        (
            status(429, "TooManyRequests", "slow down"),
            Class::Throttled,
        ),
        (
            status(500, "InternalError", "etcdserver: request timed out"),
            Class::Transient,
        ),
        (
            status(503, "ServiceUnavailable", "apiserver is shutting down"),
            Class::Transient,
        ),
        (status(400, "BadRequest", "what?"), Class::Invalid),
    ];
    for (error, class) in cases {
        let ours = from_kube("API server of region nrt", &error);
        assert_eq!(ours.class(), class, "{ours}");
        assert!(
            ours.to_string().starts_with("API server of region nrt: "),
            "{ours}"
        );
    }
}

#[test]
fn durations_read_well() {
    for (millis, text) in [
        (250, "250ms"),
        (5_000, "5s"),
        (1_500, "1.500s"),
        (60_000, "1m"),
        (90_000, "1m30s"),
    ] {
        assert_eq!(human(Duration::from_millis(millis)), text);
    }
}
