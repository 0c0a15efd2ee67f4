//! What an administrator makes in somebody else's home belongs to whom the home belongs to.

use std::fs::File;
use std::path::Path;

/// Gives a file that this process has just made in `home` to the owner of `home`, if it may: best effort.
pub(crate) fn give(file: &File, home: &Path) {
    #[cfg(unix)]
    if let Some((user, group)) = other_owner(home) {
        let _ = std::os::unix::fs::fchown(file, Some(user), Some(group));
    }
    #[cfg(not(unix))]
    let _ = (file, home);
}

/// The same for a directory. No link is followed.
pub(crate) fn give_dir(dir: &Path, home: &Path) {
    #[cfg(unix)]
    if let Some((user, group)) = other_owner(home) {
        let _ = std::os::unix::fs::lchown(dir, Some(user), Some(group));
    }
    #[cfg(not(unix))]
    let _ = (dir, home);
}

#[cfg(unix)]
fn other_owner(home: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let found = std::fs::metadata(home).ok()?;
    (found.uid() != 0).then(|| (found.uid(), found.gid()))
}
