//! A file that is never written, under a database that believes it writes.
//!
//! redb's own check repairs what it finds. Over this storage it repairs memory: reads come from the file, writes and
//! new lengths stay here, locks are nobody's.

use super::super::backend::Backend;
use redb::StorageBackend;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PIECE: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Arc<Backend>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    len: u64,
    /// How much of the file still shows through: shrunk and grown again, its end is zeros.
    shown: u64,
    written: BTreeMap<u64, Box<[u8; PIECE as usize]>>,
}

impl Overlay {
    pub(super) fn over(file: Arc<Backend>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, state: Mutex::new(State { len, shown: len, written: BTreeMap::new() }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self, shown: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = shown.saturating_sub(offset).min(out.len() as u64) as usize;
        out[there..].fill(0);
        if there == 0 { Ok(()) } else { self.file.read(offset, &mut out[..there]) }
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= state.len);
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        self.below(state.shown, offset, out)?;
        for (start, piece) in state.written.range(offset / PIECE * PIECE..end) {
            let (low, high) = (offset.max(*start), end.min(start + PIECE));
            let (from, to) = ((low - start) as usize, (high - start) as usize);
            out[(low - offset) as usize..(high - offset) as usize].copy_from_slice(&piece[from..to]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.shown = state.shown.min(len);
        let mut beyond = state.written.split_off(&(len / PIECE * PIECE));
        if let Some(mut last) = beyond.remove(&(len / PIECE * PIECE)) {
            last[(len % PIECE) as usize..].fill(0);
            state.written.insert(len / PIECE * PIECE, last);
        }
        state.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let start = at / PIECE * PIECE;
            let from = (at - start) as usize;
            let count = (PIECE as usize - from).min(data.len() - done);
            if !state.written.contains_key(&start) {
                let mut piece = Box::new([0; PIECE as usize]);
                self.below(state.shown, start, piece.as_mut_slice())?;
                state.written.insert(start, piece);
            }
            if let Some(piece) = state.written.get_mut(&start) {
                piece[from..from + count].copy_from_slice(&data[done..done + count]);
            }
            done += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_behaves_like_a_file_and_leaves_the_file_alone() {
        use super::super::super::backend::Patience;
        let dir = tempfile::tempdir().unwrap();
        let (path, twin) = (dir.path().join("a"), dir.path().join("b"));
        let bytes: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(&twin, &bytes).unwrap();
        let open = |path| {
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
            Backend::file(file, Patience::new(Duration::ZERO), None, None).unwrap()
        };
        let (overlay, file) = (Overlay::over(Arc::new(open(&path))).unwrap(), open(&twin));
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for step in 0..2_000_u64 {
            let len = file.len().unwrap();
            match random(10) {
                0 => {
                    let len = random(60_000) + 1;
                    overlay.set_len(len).unwrap();
                    file.set_len(len).unwrap();
                }
                1..5 => {
                    let at = random(len);
                    let data = vec![step as u8; random(9_000).min(len - at) as usize];
                    overlay.write(at, &data).unwrap();
                    file.write(at, &data).unwrap();
                }
                _ => {
                    let at = random(len);
                    let count = random(20_000).min(len - at) as usize;
                    let (mut a, mut b) = (vec![1; count], vec![2; count]);
                    overlay.read(at, &mut a).unwrap();
                    file.read(at, &mut b).unwrap();
                    assert_eq!(a, b, "step {step}: {count} bytes at {at} of {len}");
                }
            }
        }
        assert!(overlay.read(overlay.len().unwrap(), &mut [0]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
