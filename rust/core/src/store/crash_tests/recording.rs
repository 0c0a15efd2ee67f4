//! A file that keeps a log of what redb does to it, and the images that a crash makes of such a log.

use super::Random;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk writes as a whole or not at all.
const SECTOR: u64 = 512;

/// One call that changes the file or makes changes durable.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Write { offset: u64, data: Box<[u8]> },
    SetLen(u64),
    Sync,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    /// Every second sync does nothing.
    drops_syncs: bool,
    syncs: u64,
}

/// The log of one file, shared by every opening of it.
#[derive(Debug)]
pub(in crate::store) struct Recorder(Mutex<Log>);

impl Recorder {
    pub(super) fn new(drops_syncs: bool) -> Self {
        Self(Mutex::new(Log { drops_syncs, ..Log::default() }))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap()
    }

    /// How many calls there were so far.
    pub(super) fn len(&self) -> usize {
        self.log().entries.len()
    }

    /// The calls so far; the log begins anew.
    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.log().entries)
    }

    /// Makes a change and records it, in one order for all threads.
    fn change(&self, entry: Entry, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut log = self.log();
        make()?;
        log.entries.push(entry);
        Ok(())
    }

    fn sync(&self) {
        let mut log = self.log();
        log.syncs += 1;
        if !log.drops_syncs || log.syncs.is_multiple_of(2) {
            log.entries.push(Entry::Sync);
        }
    }
}

/// A file of redb, its locks included, with every change in a log.
#[derive(Debug)]
pub(in crate::store) struct RecordedFile {
    pub(in crate::store) file: FileBackend,
    pub(in crate::store) recorder: Arc<Recorder>,
}

impl StorageBackend for RecordedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.recorder.change(Entry::SetLen(len), || self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.recorder.sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.recorder.change(Entry::Write { offset, data: data.into() }, || self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

/// A disk at one moment: what is durable, and what was written since the last sync.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<Entry>,
}

impl Disk {
    pub(super) fn new(durable: Vec<u8>) -> Self {
        Self { durable, unsynced: Vec::new() }
    }

    /// The disk after one more call.
    pub(super) fn apply(&mut self, entry: &Entry) {
        if matches!(entry, Entry::Sync) {
            for change in self.unsynced.drain(..) {
                change_whole(&mut self.durable, &change);
            }
        } else {
            self.unsynced.push(entry.clone());
        }
    }

    /// The file after the process was killed: the system writes everything in the end.
    pub(super) fn after_kill(&self) -> Vec<u8> {
        let mut image = self.durable.clone();
        for change in &self.unsynced {
            change_whole(&mut image, change);
        }
        image
    }

    /// The file after a power cut: of the unsynced changes any may be there, some in part.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut image = self.durable.clone();
        let (shape, chosen) = (random.below(5), random.below(self.unsynced.len().max(1) as u64) as usize);
        for (at, change) in self.unsynced.iter().enumerate() {
            let survives = match shape {
                0 => false,
                1 => at != chosen,
                2 => at == chosen,
                _ => random.chance(2),
            };
            if !survives {
                continue;
            }
            match change {
                Entry::Write { offset, data } if random.chance(4) => {
                    change_in_part(&mut image, *offset, data, random);
                }
                change => change_whole(&mut image, change),
            }
        }
        image
    }
}

fn change_whole(image: &mut Vec<u8>, change: &Entry) {
    match change {
        Entry::Write { offset, data } => put(image, *offset as usize, data),
        Entry::SetLen(len) => image.resize(*len as usize, 0),
        Entry::Sync => {}
    }
}

/// Some of the sectors that a write touches.
fn change_in_part(image: &mut [u8], offset: u64, data: &[u8], random: &mut Random) {
    let mut at = 0;
    while at < data.len() {
        let to_boundary = SECTOR - (offset + at as u64) % SECTOR;
        let end = data.len().min(at + to_boundary as usize);
        if random.chance(2) {
            put(image, offset as usize + at, &data[at..end]);
        }
        at = end;
    }
}

/// What lies behind the end is gone: the growth of the file did not survive.
fn put(image: &mut [u8], offset: usize, data: &[u8]) {
    let end = image.len().min(offset + data.len());
    if let Some(place) = image.get_mut(offset..end) {
        place.copy_from_slice(&data[..end - offset]);
    }
}
