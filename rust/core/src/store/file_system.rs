//! What kind of file system a path is on: one that other machines reach as well cannot carry a store, because its
//! locks and its page cache do not hold across machines.
//!
//! On Linux the kernel names the kind by a number; FUSE is one number for all, so its mount table entry tells which.
//! Of FUSE only kinds that are known to be local are taken for local.

use super::failure::Context;
use crate::error::Result;
use std::path::Path;

/// The file system a path is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name, such as `ext4` or `nfs`; a number in hexadecimal for a kind without a name here, `unknown` where the
    /// system does not tell.
    pub name: String,
    /// Whether other machines may reach its files, the host of a virtual machine among them.
    pub network: bool,
}

/// The file system of `path`, or of the directory it would be made in.
///
/// # Errors
/// [`crate::error::Error::Store`] when the system does not tell.
pub fn file_system(path: &Path) -> Result<FileSystem> {
    let there = path.ancestors().find(|dir| dir.as_os_str().is_empty() || dir.symlink_metadata().is_ok());
    let there = there.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    system::file_system(there).map_err(|error| Context::new(path, path).io(error))
}

#[cfg(target_os = "linux")]
mod system {
    use super::{FUSE, FileSystem, by_magic, by_mount_table};
    use std::io;
    use std::path::Path;

    pub(super) fn file_system(path: &Path) -> io::Result<FileSystem> {
        let magic = rustix::fs::statfs(path)?.f_type as u64 & 0xFFFF_FFFF;
        if magic != FUSE {
            return Ok(by_magic(magic));
        }
        let device = rustix::fs::stat(path)?.st_dev;
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        // Without /proc nothing says that it is local.
        let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        Ok(by_mount_table(&String::from_utf8_lossy(&table), device))
    }
}

#[cfg(target_vendor = "apple")]
mod system {
    use super::FileSystem;
    use std::io;
    use std::path::Path;

    pub(super) fn file_system(path: &Path) -> io::Result<FileSystem> {
        let found = rustix::fs::statfs(path)?;
        let name = found.f_fstypename.iter().take_while(|c| **c != 0).map(|c| char::from(*c as u8)).collect();
        Ok(FileSystem { name, network: found.f_flags & libc::MNT_LOCAL as u32 == 0 })
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod system {
    use super::FileSystem;
    use std::io;
    use std::path::Path;

    #[allow(clippy::unnecessary_wraps)] // elsewhere the system may fail
    pub(super) fn file_system(_path: &Path) -> io::Result<FileSystem> {
        Ok(FileSystem { name: "unknown".to_owned(), network: false })
    }
}

#[cfg(any(target_os = "linux", test))]
const FUSE: u64 = 0x6573_5546;

/// Kinds by the number in `statfs`, from the kernel's `magic.h` and the sources of those that are not in it.
#[cfg(any(target_os = "linux", test))]
const KINDS: [(u64, &str, bool); 37] = [
    (0x6969, "nfs", true),
    (0x517B, "smb", true),
    (0xFF53_4D42, "cifs", true),
    (0xFE53_4D42, "smb2", true),
    (0x0102_1997, "9p", true),
    (0x5346_414F, "afs", true),
    (0x6B41_4653, "afs", true),
    (0x7375_7245, "coda", true),
    (0x564C, "ncp", true),
    (0x00C3_6400, "ceph", true),
    (0x0BD0_0BD0, "lustre", true),
    (0x4750_4653, "gpfs", true),
    (0x1983_0326, "fhgfs", true),
    (0xAAD7_AAEA, "panfs", true),
    (0x0116_1970, "gfs2", true),
    (0x7461_636F, "ocfs2", true),
    (0x2003_0528, "orangefs", true),
    (0x786F_4256, "vboxsf", true),
    (0xBACB_ACBC, "vmhgfs", true),
    (0x013A_51F4, "acfs", true),
    (0xEF53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683E, "btrfs", false),
    (0x0102_1994, "tmpfs", false),
    (0x8584_58F6, "ramfs", false),
    (0x794C_7630, "overlay", false),
    (0x2FC1_2FC1, "zfs", false),
    (0xF2F5_2010, "f2fs", false),
    (0xCA45_1A4E, "bcachefs", false),
    (0xF15F, "ecryptfs", false),
    (0x7371_7368, "squashfs", false),
    (0xE0F5_E1E2, "erofs", false),
    (0x5265_4973, "reiserfs", false),
    (0x3153_464A, "jfs", false),
    (0x4D44, "vfat", false),
    (0x2011_BAB0, "exfat", false),
    (0x7366_746E, "ntfs3", false),
];

/// FUSE file systems whose files only this machine reaches.
#[cfg(any(target_os = "linux", test))]
const LOCAL_FUSE: [&str; 18] = [
    "fuseblk",
    "fuse.ntfs",
    "fuse.ntfs-3g",
    "fuse.exfat",
    "fuse.ext2",
    "fuse.ext4",
    "fuse.fuse2fs",
    "fuse.fuse-ext2",
    "fuse.apfs",
    "fuse.zfs",
    "fuse.bindfs",
    "fuse.mergerfs",
    "fuse.unionfs",
    "fuse.fuse-overlayfs",
    "fuse.encfs",
    "fuse.gocryptfs",
    "fuse.cryfs",
    "fuse.securefs",
];

#[cfg(any(target_os = "linux", test))]
fn by_magic(magic: u64) -> FileSystem {
    match KINDS.iter().find(|(number, ..)| *number == magic) {
        Some((_, name, network)) => FileSystem { name: (*name).to_owned(), network: *network },
        None => FileSystem { name: format!("{magic:#x}"), network: false },
    }
}

/// The FUSE file system mounted with this device number, by the text of `/proc/self/mountinfo`.
#[cfg(any(target_os = "linux", test))]
fn by_mount_table(table: &str, (major, minor): (u32, u32)) -> FileSystem {
    let device = format!("{major}:{minor}");
    let kind = table.lines().find_map(|line| {
        // 36 35 0:98 /root /mount/point rw,noatime master:1 - fuse.sshfs source options
        let (mount, kind) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == device).then(|| kind.split(' ').next())?
    });
    let kind = kind.unwrap_or("fuse");
    FileSystem { name: kind.to_owned(), network: !LOCAL_FUSE.contains(&kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_are_sorted_into_network_and_local() {
        let sorted = |magic| {
            let found = by_magic(magic);
            (found.name, found.network)
        };
        for (magic, name) in
            [(0x6969, "nfs"), (0xFF53_4D42, "cifs"), (0xFE53_4D42, "smb2"), (0x0102_1997, "9p")]
        {
            assert_eq!(sorted(magic), (name.to_owned(), true));
        }
        for (magic, name) in
            [(0xEF53, "ext4"), (0x9123_683E, "btrfs"), (0x0102_1994, "tmpfs"), (0x794C_7630, "overlay")]
        {
            assert_eq!(sorted(magic), (name.to_owned(), false));
        }
        assert_eq!(sorted(0x1234_5678), ("0x12345678".to_owned(), false), "a kind that nobody listed");
        let mut numbers: Vec<u64> = KINDS.iter().map(|kind| kind.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), KINDS.len(), "each number once");
        assert!(!numbers.contains(&FUSE), "it does not tell which");
    }

    #[test]
    fn fuse_is_told_apart_by_the_mount_table() {
        let table = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
40 22 0:51 / /mnt/far\\040away rw,nosuid shared:7 - fuse.sshfs me@host:/ rw,user_id=0\n\
41 22 0:52 / /mnt/bucket rw - fuse.rclone bucket: rw\n\
42 22 8:17 / /media/usb rw - fuseblk /dev/sdb1 rw\n\
43 22 0:53 /sub /home/me/private rw master:3 propagate_from:2 - fuse.gocryptfs /home/me/.c rw\n\
44 22 0:54 / /mnt/shared rw - virtiofs share rw\n\
45 22 0:5 / /mnt/new rw - fuse.never-heard-of x rw\n\
a broken line\n";
        let sorted = |device| {
            let found = by_mount_table(table, device);
            (found.name, found.network)
        };
        assert_eq!(sorted((0, 51)), ("fuse.sshfs".to_owned(), true));
        assert_eq!(sorted((0, 52)), ("fuse.rclone".to_owned(), true));
        assert_eq!(sorted((8, 17)), ("fuseblk".to_owned(), false));
        assert_eq!(sorted((0, 53)), ("fuse.gocryptfs".to_owned(), false));
        assert_eq!(sorted((0, 54)), ("virtiofs".to_owned(), true), "the host reaches it as well");
        assert_eq!(sorted((0, 5)), ("fuse.never-heard-of".to_owned(), true), "not known to be local");
        assert_eq!(sorted((9, 9)), ("fuse".to_owned(), true), "not in the table");
    }

    #[test]
    fn a_path_that_is_not_there_is_on_the_file_system_above_it() {
        let home = tempfile::tempdir().unwrap();
        let here = file_system(home.path()).unwrap();
        assert!(!here.name.is_empty());
        assert_eq!(file_system(&home.path().join("not/made/yet")).unwrap(), here);
        assert!(!file_system(Path::new("not-made-yet")).unwrap().name.is_empty());
    }
}
