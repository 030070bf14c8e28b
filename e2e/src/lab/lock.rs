//! Takes a name, gives a lock that only one process of the machine holds; must never leave a file behind.
//!
//! The lock is an abstract socket address: the kernel frees it when its holder ends, however it ends.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    time::Duration,
};

use anyhow::{Context, Result};

use super::wait;

/// A lock that is held.
#[derive(Debug)]
pub struct Lock {
    _address: UnixListener,
}

/// Waits for the lock of that name.
///
/// # Errors
/// When another process still holds it after `limit`.
pub fn acquire(name: &str, limit: Duration) -> Result<Lock> {
    let address = SocketAddr::from_abstract_name(format!("heapfleet-lab/{name}"))?;
    wait::until(
        &format!("the lock `{name}` of the lab"),
        limit,
        None,
        || match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(wait::Look::Done(Lock { _address: listener })),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
                Ok(wait::Look::Again("another process holds it".to_owned()))
            }
            Err(e) => Err(e).context("binding an abstract socket"),
        },
    )
}
