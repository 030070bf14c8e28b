use super::*;
use crate::probe::fixture::Node;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn scans(node: &Node) -> Scans {
    Scans(Mutex::new(Flight::new(Scanner::new(node.args()))))
}

fn node() -> Node {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    node
}

#[tokio::test]
async fn scrapes_that_come_together_share_a_scan() {
    let node = node();
    let scans = scans(&node);
    let (a, b, c) = tokio::join!(scans.latest(), scans.latest(), scans.latest());
    let a = a.unwrap();
    assert!(Arc::ptr_eq(&a, &b.unwrap()) && Arc::ptr_eq(&a, &c.unwrap()));
    tokio::time::sleep(FRESH).await;
    assert!(!Arc::ptr_eq(&a, &scans.latest().await.unwrap()));
}

#[tokio::test]
async fn a_client_that_leaves_does_not_lose_the_scanner() {
    let node = node();
    let scans = scans(&node);
    for _ in 0..20 {
        // Polled once and dropped, in the middle of a scan or before it.
        drop(timeout(Duration::ZERO, scans.latest()).await);
    }
    assert_eq!(scans.latest().await.unwrap().containers.len(), 1);
}

#[tokio::test]
async fn a_scan_that_stops_is_begun_anew_and_keeps_the_counts() {
    let node = node();
    let scans = scans(&node);
    {
        let mut flight = scans.0.lock().await;
        flight.idle = None;
        flight.errors.add(Stage::Maps);
        flight.running = Some(spawn_blocking(|| panic!("a scan that stops")));
    }
    assert_eq!(scans.latest().await.unwrap_err(), Missing::Stopped);
    let snapshot = scans.latest().await.unwrap();
    assert_eq!(
        (snapshot.containers.len(), snapshot.errors.of(Stage::Maps)),
        (1, 1)
    );
}

#[tokio::test]
async fn a_scan_that_hangs_is_an_error_and_is_not_begun_twice() {
    let node = node();
    let scans = scans(&node);
    let (release, hang) = std::sync::mpsc::channel::<()>();
    {
        let mut flight = scans.0.lock().await;
        let scanner = flight.idle.take().unwrap();
        flight.running = Some(spawn_blocking(move || {
            // Ends when the sender is dropped.
            hang.recv().unwrap_err();
            (scanner, Err(Late))
        }));
    }
    assert_eq!(scans.latest().await.unwrap_err(), Missing::Hangs);
    drop(release);
    assert_eq!(scans.latest().await.unwrap_err(), Missing::Late(Late));
    assert_eq!(scans.latest().await.unwrap().containers.len(), 1);
}

#[tokio::test]
async fn answers_over_a_socket() {
    let node = node();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener, Scanner::new(node.args())));
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask("/healthz").await.ends_with("\r\n\r\nok\n"));
    assert!(ask("/nothing").await.starts_with("HTTP/1.1 404 "));
    let metrics = ask("/metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains(CONTENT_TYPE_LINE), "{metrics}");
    assert!(metrics.contains("\nheapfleet_probe_rss_bytes{namespace=\"shop\",pod=\"trace-1\""));
    server.abort();
}

const CONTENT_TYPE_LINE: &str = "content-type: text/plain; version=0.0.4; charset=utf-8\r\n";
