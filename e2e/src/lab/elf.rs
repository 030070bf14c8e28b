//! Takes a program or library of this machine, gives the files that the loader needs to run it elsewhere; must never
//! run the program itself.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::child;

const LIMIT: Duration = Duration::from_secs(20);

/// The loader and all libraries that `file` needs, directly or not, by the paths at which the loader finds them;
/// empty for a static program. `file` itself is not among them.
pub fn closure(file: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = child::run(Command::new("ldd").arg(file), LIMIT)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        // A static program is one that `ldd` refuses in these words.
        if said.contains("not a dynamic executable")
            || complaint.contains("not a dynamic executable")
        {
            return Ok(BTreeSet::new());
        }
        bail!("ldd {}: {}", file.display(), complaint.trim());
    }
    parse(&said).with_context(|| format!("reading what ldd says of {}", file.display()))
}

fn parse(said: &str) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for line in said.lines().map(str::trim) {
        if line.contains("statically linked") || line.starts_with("linux-vdso") {
            continue;
        }
        let path = match line.split_once(" => ") {
            Some((name, "not found")) => bail!("the library {name} is not installed"),
            Some((_, rest)) => rest,
            None => line,
        };
        let path = path.split_whitespace().next().unwrap_or_default();
        if path.starts_with('/') {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Where the loader finds a library by its bare name, from the loader's cache.
pub fn find_library(soname: &str) -> Result<PathBuf> {
    let listed = child::run_ok(Command::new("/sbin/ldconfig").arg("-p"), LIMIT)?;
    listed
        .lines()
        .filter(|line| line.split_whitespace().next() == Some(soname))
        .find_map(|line| {
            line.split_once(" => ")
                .map(|(_, path)| PathBuf::from(path.trim()))
        })
        .with_context(|| format!("the library {soname} is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_is_read() {
        let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<_> = parse(said).unwrap().into_iter().collect();
        assert_eq!(
            found,
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert!(parse("\tlibx.so.1 => not found\n").is_err());
    }

    #[test]
    fn this_test_needs_a_loader_and_a_libc() {
        let found = closure(&std::env::current_exe().unwrap()).unwrap();
        let names: Vec<_> = found.iter().map(|p| p.display().to_string()).collect();
        assert!(names.iter().any(|n| n.contains("ld-linux")), "{names:?}");
        assert!(names.iter().any(|n| n.contains("libc.so")), "{names:?}");
    }
}
