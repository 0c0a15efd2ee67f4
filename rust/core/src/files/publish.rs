//! Files that appear whole or not at all.

use super::owner;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

/// Makes the directory `dir` of `home` unless it is there, for its owner alone.
///
/// # Errors
/// What the operating system says; [`ErrorKind::NotADirectory`] when there is something else of that name, a link
/// included.
pub(crate) fn make_dir(dir: &Path, home: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(dir) {
        Ok(()) => owner::give_dir(dir, home),
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    // The home may have come with a cloned repository: a link in it may lead anywhere.
    if fs::symlink_metadata(dir)?.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(ErrorKind::NotADirectory, "is not a directory; remove it, then repeat"))
    }
}

/// Writes the file `name` of `dir`: beside under a hidden name, synced, renamed. The rename is durable only after
/// [`sync_dir`], so that several files cost one.
///
/// # Errors
/// What `write` or the operating system says; then nothing is left.
pub(crate) fn publish(
    dir: &Path,
    name: &str,
    home: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let draft = dir.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        }
        let file = options.open(&draft)?;
        owner::give(&file, home);
        let mut buffered = BufWriter::with_capacity(1 << 20, &file);
        write(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        file.sync_all()?;
        fs::rename(&draft, dir.join(name))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Makes renames and removals in `dir` durable.
///
/// # Errors
/// What the operating system says; on Windows directories cannot be synced and nothing is done.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(dir)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}
