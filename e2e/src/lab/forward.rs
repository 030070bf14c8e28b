//! Takes addresses inside regions, gives each a port on 127.0.0.1 of the machine; must never listen on another address.
//!
//! The forwarder is a process of its own that lives as long as its lab. It listens in the machine's network; for each
//! connection a new thread enters the region's network, connects there and copies.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns};

use super::{
    child::{self, Ident},
    lab_program, wait,
};

const CONNECT: Duration = Duration::from_secs(5);
const STACK: usize = 128 * 1024;

/// One forward: `NAME=PID,ADDRESS:PORT`, where PID is a process inside the network.
#[derive(Clone, Debug)]
pub struct Forward {
    /// What the port is called, for example `ore/api`.
    pub name: String,
    /// A process inside the network.
    pub pid: i32,
    /// Where to connect inside.
    pub to: SocketAddr,
}

impl FromStr for Forward {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split_once('=')
            .and_then(|(name, rest)| Some((name, rest.split_once(',')?)));
        let (name, (pid, to)) =
            parts.with_context(|| format!("`{text}` is not NAME=PID,ADDRESS:PORT"))?;
        Ok(Self {
            name: name.to_owned(),
            pid: pid.parse()?,
            to: to.parse()?,
        })
    }
}

/// Starts the forwarder's process and gives the ports it chose, by name.
pub fn start(root: &Path, forwards: &[Forward]) -> Result<(Ident, BTreeMap<String, u16>)> {
    let (out, log) = (root.join("forwards.json"), root.join("logs/forwarder.log"));
    let mut command = Command::new(lab_program()?);
    command.arg("forward").arg("--out").arg(&out);
    for f in forwards {
        command.arg(format!("{}={},{}", f.name, f.pid, f.to));
    }
    let process = child::spawn_session(&mut command, root, &log)?;
    let ports = wait::until(
        "the forwards to 127.0.0.1",
        Duration::from_secs(20),
        Some(&log),
        || {
            ensure!(
                process.alive(),
                "the forwarder ended{}",
                wait::tail_note(&log)
            );
            Ok(match fs::read(&out) {
                Ok(text) => wait::Look::Done(serde_json::from_slice(&text)?),
                Err(e) => wait::Look::Again(e.to_string()),
            })
        },
    )?;
    Ok((process, ports))
}

/// The forwarder's process: writes the ports as JSON to `out`, then serves until it is killed.
pub fn serve(out: &PathBuf, forwards: &[Forward]) -> Result<()> {
    nix::unistd::setsid().context("setsid")?;
    let mut ports = BTreeMap::new();
    let mut listeners = Vec::new();
    for forward in forwards {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening on 127.0.0.1")?;
        let net = File::open(format!("/proc/{}/ns/net", forward.pid))
            .with_context(|| format!("opening the network of {}", forward.name))?;
        ports.insert(forward.name.clone(), listener.local_addr()?.port());
        listeners.push((listener, Arc::new(net), forward.to));
    }
    let new = out.with_extension("new");
    fs::write(&new, serde_json::to_vec(&ports)?)?;
    fs::rename(&new, out)?;
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|(listener, net, to)| thread::spawn(move || accept(&listener, &net, to)))
        .collect();
    for thread in threads {
        ensure!(
            thread.join().is_ok(),
            "a listener of the forwarder panicked"
        );
    }
    Ok(())
}

fn accept(listener: &TcpListener, net: &Arc<File>, to: SocketAddr) {
    // An error here is a connection that was given up again, or too many open files: the next accept tells.
    for outside in listener.incoming().flatten() {
        let net = Arc::clone(net);
        let copier = thread::Builder::new().stack_size(STACK).spawn(move || {
            // The peer sees an error as the end of its connection.
            let _closed = connect_and_copy(outside, &net, to);
        });
        drop(copier);
    }
}

fn connect_and_copy(outside: TcpStream, net: &File, to: SocketAddr) -> io::Result<()> {
    setns(net, CloneFlags::CLONE_NEWNET)?;
    let inside = TcpStream::connect_timeout(&to, CONNECT)?;
    outside.set_nodelay(true)?;
    inside.set_nodelay(true)?;
    let (from_outside, to_inside) = (outside.try_clone()?, inside.try_clone()?);
    let there = thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || copy(from_outside, to_inside))?;
    copy(inside, outside);
    drop(there.join());
    Ok(())
}

/// Copies until either side ends, then tells the other.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    if io::copy(&mut from, &mut to).is_err() {
        // Broken: end both directions, or the other thread would wait for ever.
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    } else {
        drop(to.shutdown(Shutdown::Write));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_is_read_as_it_is_written() {
        let forward: Forward = "ore/api=42,198.18.0.11:6443".parse().unwrap();
        assert_eq!((forward.name.as_str(), forward.pid), ("ore/api", 42));
        assert_eq!(forward.to.to_string(), "198.18.0.11:6443");
        assert!("ore/api".parse::<Forward>().is_err());
    }
}
