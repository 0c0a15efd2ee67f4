//! Files with holes: stretches that take no room on the disk and read as zeros.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

/// Bytes copied between two words to the caller.
const PIECE: u64 = 16 << 20;

/// The next stretch from `at` on that may have bytes other than zero, if there is one before `end`; all of it where
/// the system does not tell. The position of `file` is anywhere afterwards.
pub(super) fn data_from(file: &File, at: u64, end: u64) -> Option<Range<u64>> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{SeekFrom as Find, seek};
        match seek(file, Find::Data(at)) {
            Ok(start) if start >= end => return None,
            Ok(start) => {
                let stop = seek(file, Find::Hole(start)).map_or(end, |stop| stop.min(end));
                return (stop > start).then_some(start..stop).or(Some(start..end));
            }
            // Nothing but a hole up to its end.
            Err(rustix::io::Errno::NXIO) => return None,
            Err(_) => {}
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = file;
    (at < end).then_some(at..end)
}

/// Copies a file into an empty one, holes as holes; `step` hears how many bytes are done.
pub(super) fn copy(
    source: &mut File,
    target: &mut File,
    step: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let len = source.metadata()?.len();
    let mut at = 0;
    while let Some(data) = data_from(source, at, len) {
        let count = PIECE.min(data.end - data.start);
        source.seek(SeekFrom::Start(data.start))?;
        target.seek(SeekFrom::Start(data.start))?;
        if io::copy(&mut source.take(count), target)? < count {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at = data.start + count;
        step(at)?;
    }
    target.set_len(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[cfg(target_os = "linux")]
    fn blocks(file: &File) -> u64 {
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap())
    }

    #[test]
    fn a_copy_has_the_same_bytes_and_the_same_holes() {
        for (first, hole, last) in [(10_000, 64 << 20, 5_000), (0, 64 << 20, 7), (3, 64 << 20, 0), (9, 0, 0)]
        {
            let (mut source, mut target) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            source.write_all(&vec![7; first]).unwrap();
            source.set_len(first as u64 + hole).unwrap();
            source.seek(SeekFrom::End(0)).unwrap();
            source.write_all(&vec![9; last]).unwrap();
            copy(&mut source, &mut target, &mut |_| Ok(())).unwrap();
            let (mut a, mut b) = (Vec::new(), Vec::new());
            source.rewind().unwrap();
            target.rewind().unwrap();
            source.read_to_end(&mut a).unwrap();
            target.read_to_end(&mut b).unwrap();
            assert!(a == b, "{first} {hole} {last}");
            #[cfg(target_os = "linux")]
            assert!(blocks(&target) < 1_000, "{} blocks", blocks(&target));
        }
        let (mut source, mut target) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        source.write_all(&[1; 100]).unwrap();
        let stop = &mut |_| Err(io::ErrorKind::Interrupted.into());
        assert!(copy(&mut source, &mut target, stop).is_err(), "it ends when the caller says so");
    }
}
