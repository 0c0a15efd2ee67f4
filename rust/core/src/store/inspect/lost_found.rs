//! `lost+found`: bytes that could not be brought back, as files.

use super::super::failure::Context;
use super::super::handle::sync_parent;
use crate::error::{Error, Result};
use crate::files::owner;
use crate::time::{Clock, SystemClock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Longest name of a file in it.
const NAME: usize = 120;

/// A directory of its own for one repair, made with its first file.
#[derive(Debug)]
pub(super) struct LostFound {
    home: PathBuf,
    dir: Option<PathBuf>,
    count: usize,
}

impl LostFound {
    pub(super) fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), dir: None, count: 0 }
    }

    /// Writes one file; returns its name within the directory.
    pub(super) fn keep(&mut self, name: &str, bytes: &[u8]) -> Result<String> {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => self.make()?,
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        let mut name: String = name.chars().map(plain).take(NAME).collect();
        if fs::symlink_metadata(dir.join(&name)).is_ok() {
            self.count += 1;
            name = format!("{name}-{}", self.count + 1);
        }
        let path = dir.join(&name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Not synced one by one: the damaged file has the same bytes.
        let written = options.open(&path).and_then(|mut file| {
            owner::give(&file, &self.home);
            file.write_all(bytes)
        });
        written.map_err(|error| Context::new(&self.home, &path).io(error))?;
        Ok(name)
    }

    fn make(&mut self) -> Result<PathBuf> {
        let root = self.home.join("lost+found");
        let at = |path: &Path, error| Context::new(&self.home, path).io(error);
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&root) {
            Ok(()) => owner::give_dir(&root, &self.home),
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(&root, error)),
            Err(_) => {}
        }
        // The home may have come with a cloned repository: a link in it may lead anywhere.
        if fs::symlink_metadata(&root).is_ok_and(|found| !found.is_dir()) {
            return Err(Error::store(&root, "is not a directory; remove it, then repeat"));
        }
        let stamp = stamp();
        for count in 1.. {
            let dir = root.join(format!("{stamp}-{count}"));
            match builder.create(&dir) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&dir, error)),
                Ok(()) => {
                    owner::give_dir(&dir, &self.home);
                    self.dir = Some(dir.clone());
                    return Ok(dir);
                }
            }
        }
        Err(Error::store(&root, "is full; move its contents away, then repeat"))
    }

    /// Makes the files durable. Returns the directory, if there are any.
    pub(super) fn finish(self) -> Result<Option<PathBuf>> {
        if let Some(dir) = &self.dir {
            let root = self.home.join("lost+found");
            let synced = File::open(dir).and_then(|dir| dir.sync_all());
            let synced = synced.and_then(|()| sync_parent(dir)).and_then(|()| sync_parent(&root));
            synced.map_err(|error| Context::new(&self.home, dir).io(error))?;
        }
        Ok(self.dir)
    }
}

/// The present time for names of files, in UTC: `2026-05-31-235959`.
pub(super) fn stamp() -> String {
    let now = SystemClock.now();
    let (year, month, day) = now.date();
    let seconds = now.unix_micros().div_euclid(1_000_000).rem_euclid(86_400);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}-{hour:02}{minute:02}{second:02}")
}
