//! The holder note, `<home>/holder`: who holds the write lock, so that whoever waits in vain can name it.
//!
//! The lock itself knows no owner (the kernel reports none for locks of open file descriptions), so each holder
//! writes its pid, command and time after it got the lock, and marks them released before it lets go. The note is
//! an aid: it is never synced, and no failure to write it fails a write. Two small writes to the page cache cost
//! about 1 % of a commit. A handle that has the store to itself writes it once and says so in it.

use crate::error::Holder;
use crate::time::{Clock, SystemClock};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Every note fills exactly this many bytes, so that none leaves a tail of a longer one.
const NOTE_BYTES: usize = 256;
/// Words of a command that are told: interpreter, script and what it was asked to do, never the text it was given.
const COMMAND_WORDS: usize = 3;
/// A longer word is text.
const WORD_CHARS: usize = 40;
const RELEASED: &[u8] = b"last ";

/// How long a holder holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tenure {
    /// For one transaction.
    Commit,
    /// For the life of its handle, which is exclusive.
    Life,
}

impl Tenure {
    fn word(self) -> &'static str {
        match self {
            Self::Commit => "held ",
            Self::Life => "sole ",
        }
    }
}

/// Where the note of `home` is.
pub(super) fn note_path(home: &Path) -> PathBuf {
    home.join("holder")
}

/// This process's side of the note.
#[derive(Debug)]
pub(super) struct HolderNote {
    file: Option<File>,
    identity: String,
}

impl HolderNote {
    /// Opens the note beside the store; without one nothing is ever written.
    pub(super) fn open(home: &Path) -> Self {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let path = note_path(home);
        let is_new = path.symlink_metadata().is_err();
        let file = open_regular(&mut options, &path);
        if let (true, Some(file)) = (is_new, &file) {
            crate::files::owner::give(file, home);
        }
        let arguments = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
        Self { file, identity: format!("{} {{}} {}", std::process::id(), told(arguments)) }
    }

    /// To be called right after the lock was got.
    pub(super) fn taken(&self, tenure: Tenure) {
        if let Some(file) = &self.file {
            let mut note = Vec::with_capacity(NOTE_BYTES);
            note.extend_from_slice(tenure.word().as_bytes());
            note.extend_from_slice(
                self.identity.replacen("{}", &SystemClock.now().to_string(), 1).as_bytes(),
            );
            note.resize(NOTE_BYTES - 1, b' ');
            note.push(b'\n');
            write_at_start(file, &note);
        }
    }

    /// To be called right before the lock is given back: afterwards the note belongs to the next holder.
    pub(super) fn released(&self) {
        if let Some(file) = &self.file {
            write_at_start(file, RELEASED);
        }
    }
}

/// The first words of a command line, paths by their last part. The note outlives the process, so what is remembered
/// must not stand in it: words end at the first that may be text.
fn told(arguments: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = Vec::new();
    for argument in arguments {
        let word = argument.rsplit(['/', '\\']).next().unwrap_or_default();
        let text = word.is_empty() || word.chars().any(|c| c.is_whitespace() || c.is_control());
        let most = COMMAND_WORDS + usize::from(words.iter().any(|word| word == "-m"));
        if words.len() == most || (!words.is_empty() && (text || word.chars().count() > WORD_CHARS)) {
            break;
        }
        words.push(word.chars().filter(|c| !c.is_whitespace() && !c.is_control()).take(WORD_CHARS).collect());
    }
    let mut command = words.join(" ");
    while command.len() > NOTE_BYTES - 64 {
        command.pop();
    }
    command
}

#[cfg(unix)]
fn write_at_start(file: &File, bytes: &[u8]) {
    let _ = std::os::unix::fs::FileExt::write_all_at(file, bytes, 0);
}

#[cfg(windows)]
fn write_at_start(file: &File, bytes: &[u8]) {
    let _ = std::os::windows::fs::FileExt::seek_write(file, bytes, 0);
}

/// Opens the note only if it is a file of its own: the home may have come with a cloned repository, and a link in it
/// leads to any file of this user, a pipe to a wait without end.
fn open_regular(options: &mut OpenOptions, path: &Path) -> Option<File> {
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    let file = options.open(path).ok()?;
    let found = file.metadata().ok()?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&found) != 1 {
        return None;
    }
    found.is_file().then_some(file)
}

/// Who holds the lock of the store in `home`, and for how long, if the note says so and that process lives.
pub(super) fn current(home: &Path) -> Option<(Holder, Tenure)> {
    let file = open_regular(OpenOptions::new().read(true), &note_path(home))?;
    let mut note = String::new();
    file.take(NOTE_BYTES as u64).read_to_string(&mut note).ok()?;
    let tenure = [Tenure::Commit, Tenure::Life].into_iter().find(|tenure| note.starts_with(tenure.word()))?;
    let mut parts = note[tenure.word().len()..].trim_end().splitn(3, ' ');
    let pid: u32 = parts.next()?.parse().ok()?;
    let since = parts.next()?.to_owned();
    let command = parts.next().unwrap_or_default().to_owned();
    is_alive(pid).then_some((Holder { pid, command, since }, tenure))
}

#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    // Not being allowed to signal it proves that it is there.
    matches!(rustix::process::test_kill_process(pid), Ok(()) | Err(rustix::io::Errno::PERM))
}

#[cfg(not(unix))]
fn is_alive(_pid: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_without_paths_and_without_what_is_remembered() {
        let command = |words: &[&str]| told(words.iter().map(|word| (*word).to_owned()));
        let long = "/a/very/long/path/to/a/place/where/programs/of/all/kinds/are/kept/python3";
        assert_eq!(command(&[long, "/x/bin/otolith", "remember", "secret"]), "python3 otolith remember");
        assert_eq!(command(&[long, "-m", "otolith", "remember", "secret"]), "python3 -m otolith remember");
        assert_eq!(command(&["python3", "-c", "print('a secret')"]), "python3 -c");
        assert_eq!(command(&["otolith", "my secret text"]), "otolith");
        assert!(command(&["x".repeat(500).as_str()]).len() < NOTE_BYTES - 64);
        assert!(command(&["记".repeat(500).as_str(), "忆", "录"]).len() < NOTE_BYTES - 64);
        assert_eq!(command(&[]), "");
    }

    #[test]
    fn the_note_names_a_living_holder_only_while_it_holds() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(current(home.path()), None);
        let note = HolderNote::open(home.path());
        note.taken(Tenure::Life);
        assert_eq!(current(home.path()).unwrap().1, Tenure::Life);
        note.taken(Tenure::Commit);
        let (holder, tenure) = current(home.path()).unwrap();
        assert_eq!(tenure, Tenure::Commit);
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.command.is_empty() && !holder.command.contains('/'));
        assert!(holder.since.parse::<crate::time::Moment>().is_ok(), "{}", holder.since);
        note.released();
        assert_eq!(current(home.path()), None);
        std::fs::write(note_path(home.path()), "held 2147483646 2026-01-01T00:00:00Z gone").unwrap();
        assert_eq!(current(home.path()), None, "a process that is gone holds nothing");
        std::fs::write(note_path(home.path()), [0xFF; 256]).unwrap();
        assert_eq!(current(home.path()), None);
    }
}
