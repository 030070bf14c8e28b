//! Takes connections, gives `/metrics` and `/healthz` by HTTP/1.1, one request each; must never allocate in proportion
//! to what a client sends, and must never wait for a client without a deadline.

use super::cache::Cache;
use super::metrics::{self, Counters};
use super::procfs;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for one read or write, and for a whole request head. Short, because one thread answers all: each more
/// would take an arena of its own and change what is measured.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest request head.
const HEAD_BYTES: usize = 4096;
/// Pause after a failed accept (no descriptor left, for example), so that it cannot spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Starts the responder; it ends with the process.
///
/// # Errors
/// The listener cannot be shared or the thread cannot be started.
pub(super) fn start(
    listener: &TcpListener,
    cache: &Arc<Cache>,
    counters: &Arc<Counters>,
) -> anyhow::Result<()> {
    let listener = listener.try_clone().context("share the listener")?;
    let (cache, counters) = (Arc::clone(cache), Arc::clone(counters));
    thread::Builder::new()
        .name("http".into())
        .spawn(move || serve(&listener, &cache, &counters))
        .context("start the responder thread")?;
    Ok(())
}

fn serve(listener: &TcpListener, cache: &Cache, counters: &Counters) {
    let (mut page, mut answer) = (
        String::with_capacity(16 << 10),
        String::with_capacity(16 << 10),
    );
    loop {
        match listener.accept() {
            // A client that leaves early is its own affair.
            Ok((stream, _)) => drop(converse(stream, &mut page, &mut answer, cache, counters)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn converse(
    mut stream: TcpStream,
    page: &mut String,
    answer: &mut String,
    cache: &Cache,
    counters: &Counters,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = [0; HEAD_BYTES];
    let length = read_head(&mut stream, &mut head)?;
    page.clear();
    let (status, kind) = match path(head.get(..length).unwrap_or_default()) {
        Ok("/metrics") => {
            metrics::write(page, cache, counters, procfs::usage());
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8")
        }
        Ok("/healthz") => {
            page.push_str("ok\n");
            ("200 OK", "text/plain; charset=utf-8")
        }
        Ok(_) => {
            page.push_str("only /metrics and /healthz are here\n");
            ("404 Not Found", "text/plain; charset=utf-8")
        }
        Err(status) => (status, "text/plain; charset=utf-8"),
    };
    answer.clear();
    let head = write!(
        answer,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    if head.is_ok() {
        answer.push_str(page);
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// Reads up to the empty line, the end, the bound or the deadline, and says how many bytes it were.
fn read_head(stream: &mut impl Read, head: &mut [u8]) -> std::io::Result<usize> {
    let begin = Instant::now();
    let mut length = 0;
    while let Some(rest) = head.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let read = stream.read(rest)?;
        length += read;
        let whole = head.get(..length).unwrap_or_default();
        if read == 0
            || begin.elapsed() > PATIENCE
            || whole.windows(4).any(|four| four == b"\r\n\r\n")
        {
            break;
        }
    }
    Ok(length)
}

/// The path of a GET request without its query, or the status that answers anything else.
fn path(head: &[u8]) -> Result<&str, &'static str> {
    if !head.windows(4).any(|four| four == b"\r\n\r\n") {
        return Err(if head.len() == HEAD_BYTES {
            "431 Request Header Fields Too Large"
        } else {
            "400 Bad Request"
        });
    }
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "400 Bad Request")?;
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) => {
            Ok(target.split('?').next().unwrap_or_default())
        }
        (Some(_), Some(_), Some("HTTP/1.1" | "HTTP/1.0")) => Err("405 Method Not Allowed"),
        _ => Err("400 Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_get_requests() {
        assert_eq!(
            path(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
            Ok("/metrics")
        );
        assert_eq!(path(b"GET /healthz?a=b HTTP/1.0\r\n\r\n"), Ok("/healthz"));
        assert_eq!(
            path(b"POST /metrics HTTP/1.1\r\n\r\n"),
            Err("405 Method Not Allowed")
        );
        assert_eq!(path(b"GET /metrics\r\n\r\n"), Err("400 Bad Request"));
        assert_eq!(path(b"GET /metrics HTTP/1.1\r\n"), Err("400 Bad Request"));
        assert_eq!(path(b"\xff\xff x HTTP/1.1\r\n\r\n"), Err("400 Bad Request"));
        assert_eq!(
            path(&[b'a'; HEAD_BYTES]),
            Err("431 Request Header Fields Too Large")
        );
    }

    #[test]
    fn a_head_in_pieces_is_put_together() {
        let mut pieces = (&b"GET /healthz HT"[..]).chain(&b"TP/1.1\r\n\r\n"[..]);
        let mut head = [0; HEAD_BYTES];
        let length = read_head(&mut pieces, &mut head).unwrap();
        assert_eq!(path(&head[..length]), Ok("/healthz"));
    }

    #[test]
    fn answers_over_a_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cache = Arc::new(Cache::new(1 << 20, 1000));
        start(&listener, &cache, &Arc::default()).unwrap();
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        assert!(ask("/healthz").ends_with("\r\n\r\nok\n"));
        assert!(ask("/nothing").starts_with("HTTP/1.1 404 "));
        let metrics = ask("/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"));
        let (head, body) = metrics.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(body.contains("trace_cache_capacity_bytes 1048576\n"));
    }
}
