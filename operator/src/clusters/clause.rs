//! Takes the error of an HTTP client with its chain of causes, gives one clause that says what is wrong with the
//! connection. Never passes an address, a port or a library's own wording on.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;

/// The longest chain of causes that is followed.
const DEPTH: usize = 12;

/// What is wrong with a connection, as `connection refused` or `the server's certificate has expired`.
pub fn transport_clause(error: &(dyn StdError + 'static)) -> String {
    let mut cause = Some(error);
    let mut found: Option<&'static str> = None;
    for _ in 0..DEPTH {
        let Some(this) = cause else { break };
        if let Some(clause) = clause_of(this) {
            found = Some(clause);
        }
        cause = next(this);
    }
    found.unwrap_or("the connection failed").to_owned()
}

/// `io::Error` hides what it wraps from `source`, which skips to the cause of that.
fn next<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn clause_of(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls_clause(tls));
    }
    if let Some(io) = error.downcast_ref::<io::Error>()
        && let Some(clause) = io_clause(io.kind())
    {
        return Some(clause);
    }
    // These types are private to their crates; the words are theirs since years.
    let text = error.to_string();
    let known = [
        ("dns error", "the host name cannot be resolved"),
        (
            "failed to lookup address",
            "the host name cannot be resolved",
        ),
        (
            "connection closed before message completed",
            "the connection broke off",
        ),
        ("unexpected EOF", "the connection broke off"),
        (
            "end of file before message length reached",
            "the connection broke off",
        ),
        ("error reading a body", "the connection broke off"),
        ("deadline has elapsed", "the connection timed out"),
        ("operation timed out", "the connection timed out"),
        ("invalid HTTP", "the server does not speak HTTP"),
    ];
    known
        .iter()
        .find(|(words, _)| text.contains(words))
        .map(|(_, clause)| *clause)
}

fn io_clause(kind: io::ErrorKind) -> Option<&'static str> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the list of kinds is open")]
    match kind {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            Some("connection reset")
        }
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            Some("the connection broke off")
        }
        io::ErrorKind::TimedOut => Some("the connection timed out"),
        io::ErrorKind::HostUnreachable => Some("the host cannot be reached"),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            Some("the network cannot be reached")
        }
        _ => None,
    }
}

fn tls_clause(error: &rustls::Error) -> &'static str {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the lists of errors are open"
    )]
    match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer => {
                "the server's certificate is signed by an unknown authority"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another host"
            }
            _ => "the server's certificate is not accepted",
        },
        rustls::Error::AlertReceived(_) => "the server ended the TLS handshake",
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS",
        _ => "the TLS handshake failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn the_innermost_known_cause_speaks() {
        let refused = Outer(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert_eq!(transport_clause(&refused), "connection refused");
        let tls = Outer(io::Error::other(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer,
        )));
        assert_eq!(
            transport_clause(&tls),
            "the server's certificate is signed by an unknown authority"
        );
        let strange = Outer(io::Error::other("port 4711 said 0x2a"));
        assert_eq!(transport_clause(&strange), "the connection failed");
    }
}
