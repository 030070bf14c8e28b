//! Takes a command and a time limit, gives its output or a named, logged process group; must never leave a
//! process without a log file, signal a pid that now belongs to somebody else, or wait without a limit.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use super::{interrupt, wait};

/// Environment variable that every process of a lab inherits: the state folder it belongs to. The sweep of
/// [`super::cleanup`] finds processes by it, so that nothing has to be recorded first.
pub const MARK: &str = "HEAPFLEET_LAB_CHILD_OF";

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ident {
    /// Pid in the namespace of the lab's owner.
    pub pid: i32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug)]
struct Stat {
    state: char,
    group: i32,
    start: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself hold spaces and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        state,
        group,
        start,
    })
}

impl Ident {
    /// The process that has this pid now; `None` when there is none or only its zombie.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = stat(pid)?;
        (stat.state != 'Z').then_some(Self {
            pid,
            start: stat.start,
        })
    }

    /// This process.
    pub fn own() -> Result<Self> {
        Self::of(nix::unistd::getpid().as_raw()).context("reading /proc/self/stat")
    }

    /// Whether this very process still runs; a zombie does not.
    pub fn alive(self) -> bool {
        reap(self.pid);
        Self::of(self.pid) == Some(self)
    }

    /// Sends SIGKILL to this process alone.
    pub fn kill(self) {
        if self.alive() {
            // It may end between the two lines: that is what was wanted.
            let _gone = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
            reap(self.pid);
        }
    }

    /// [`Self::kill`], and waits until it is gone.
    ///
    /// # Errors
    /// When it is still there after ten seconds.
    pub fn end(self) -> Result<()> {
        self.kill();
        let what = format!("the end of process {}", self.pid);
        wait::until(&what, Duration::from_secs(10), None, || {
            Ok(if self.alive() {
                wait::Look::Again(String::new())
            } else {
                wait::Look::Done(())
            })
        })
    }
}

/// Collects the exit status of a child that has ended; nothing happens for a pid that is no child.
fn reap(pid: i32) {
    let _not_ours = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
}

/// All pids of the machine that this process may see.
pub fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

/// Processes, zombies excepted, whose environment carries the mark of the lab in `root`, without this process.
pub fn marked(root: &Path) -> Vec<Ident> {
    let mark = format!("{MARK}={}", root.display());
    let own = nix::unistd::getpid().as_raw();
    pids()
        .into_iter()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|b| *b == 0).any(|var| var == mark.as_bytes()))
        })
        .filter_map(Ident::of)
        .collect()
}

fn group_alive(group: i32) -> bool {
    reap(group);
    pids()
        .into_iter()
        .filter_map(stat)
        .any(|s| s.group == group && s.state != 'Z')
}

/// Starts a process that lives on, in a process group of its own, with `/dev/null` as input and `log` as output.
pub fn spawn(command: &mut Command, root: &Path, log: &Path) -> Result<Ident> {
    spawn_session(command.process_group(0), root, log)
}

/// [`spawn`] for a program that makes a session of its own, which the leader of a process group may not.
pub fn spawn_session(command: &mut Command, root: &Path, log: &Path) -> Result<Ident> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut out = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("opening the log {}", log.display()))?;
    let args: Vec<_> = command
        .get_args()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    writeln!(out, "# {program} {}", args.join(" "))?;
    let child = command
        .env(MARK, root)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let pid = i32::try_from(child.id())?;
    let start =
        stat(pid).with_context(|| format!("{program} ended at once, see {}", log.display()))?;
    Ok(Ident {
        pid,
        start: start.start,
    })
}

/// Ends the process group that `leader` leads: SIGTERM, and after `grace` SIGKILL.
///
/// # Errors
/// When the group is still there 10 s after SIGKILL.
pub fn stop_group(leader: Ident, grace: Duration) -> Result<()> {
    // The leader may have ended before the rest of its group, but a group's number is not given away while it lives.
    if !group_alive(leader.pid) || stat(leader.pid).is_some_and(|s| s.start != leader.start) {
        return Ok(());
    }
    let gone = |limit: Duration| {
        wait::until("the end of a process group", limit, None, || {
            Ok(if group_alive(leader.pid) {
                wait::Look::Again(String::new())
            } else {
                wait::Look::Done(())
            })
        })
    };
    signal_group(leader.pid, Signal::SIGTERM)?;
    if !grace.is_zero() && gone(grace).is_ok() {
        return Ok(());
    }
    signal_group(leader.pid, Signal::SIGKILL)?;
    gone(Duration::from_secs(10))
        .with_context(|| format!("process group {} does not end", leader.pid))
}

fn signal_group(group: i32, signal: Signal) -> Result<()> {
    match killpg(Pid::from_raw(group), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(e) => Err(e).with_context(|| format!("sending {signal} to process group {group}")),
    }
}

/// Runs a command to its end and gives its output, whatever its exit status.
///
/// # Errors
/// When it cannot be started, does not end within `limit` (it is then killed), or the lab was interrupted.
pub fn run(command: &mut Command, limit: Duration) -> Result<Output> {
    run_with(command, None, limit)
}

/// [`run`] with `input` on standard input.
pub fn run_with(command: &mut Command, input: Option<&str>, limit: Duration) -> Result<Output> {
    let shown = shown(command);
    let mut child = command
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting `{shown}`"))?;
    let writer = child
        .stdin
        .take()
        .zip(input.map(str::to_owned))
        .map(|(mut pipe, text)| {
            // A program may end without reading its input; its status says whether that was right.
            thread::spawn(move || drop(pipe.write_all(text.as_bytes())))
        });
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    let status = match await_end(&mut child, limit) {
        Ok(Some(status)) => status,
        Ok(None) => {
            let said = stderr.map(join).unwrap_or_default();
            bail!(
                "`{shown}` did not end within {limit:?}: {}",
                String::from_utf8_lossy(&said).trim()
            )
        }
        Err(e) => return Err(e).with_context(|| format!("running `{shown}`")),
    };
    if let Some(writer) = writer {
        drop(writer.join());
    }
    Ok(Output {
        status,
        stdout: stdout.map(join).unwrap_or_default(),
        stderr: stderr.map(join).unwrap_or_default(),
    })
}

/// Waits for the end of a child that leads a process group; kills the group at the limit (`None`) and on an interrupt.
fn await_end(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let stop = interrupt::check();
        if stop.is_err() || begun.elapsed() > limit {
            signal_group(i32::try_from(child.id())?, Signal::SIGKILL)?;
            child.wait()?;
            return stop.map(|()| None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// [`run`] for a slow program whose output, of both kinds, goes to a file.
pub fn run_to(command: &mut Command, out: File, limit: Duration) -> Result<ExitStatus> {
    let shown = shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting `{shown}`"))?;
    await_end(&mut child, limit)?.with_context(|| format!("`{shown}` did not end within {limit:?}"))
}

/// [`run`], but an exit status other than 0 is an error that quotes what the command said; gives standard output.
pub fn run_ok(command: &mut Command, limit: Duration) -> Result<String> {
    let output = run(command, limit)?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({}): {}{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim(),
            String::from_utf8_lossy(&output.stdout).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

fn reader<R: Read + Send + 'static>(mut pipe: R) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        // A broken pipe ends the output early; what came is kept.
        let _read = pipe.read_to_end(&mut all);
        all
    })
}

fn join(handle: thread::JoinHandle<Vec<u8>>) -> Vec<u8> {
    handle.join().unwrap_or_default()
}
