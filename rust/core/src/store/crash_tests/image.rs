//! What a process finds that opens a crashed file.

use super::Random;
use super::model::{Model, Rows, new_episode, rows_of};
use crate::error::Error;
use crate::store::{STORE_FILE, Store, StoreOptions, Wait};
use redb::{Builder, ConcurrencyMode};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// How an image fails.
#[derive(Debug)]
pub(super) enum Violation {
    /// It cannot be opened, read or written, or redb finds its pages damaged.
    Error(#[allow(dead_code, reason = "shown by Debug")] String),
    /// It holds another state than it must.
    State(#[allow(dead_code, reason = "shown by Debug")] String),
}

/// What an image was found to be.
pub(super) struct Found {
    /// It holds more than was acknowledged.
    pub(super) in_flight: bool,
    /// It could be read before it was repaired, and that was tried.
    pub(super) read_only: bool,
}

fn failed(what: &str, error: &Error) -> Violation {
    Violation::Error(format!("{what}: {error}"))
}

/// Opens an image only to read. Returns what it shows, nothing if it has to be repaired first.
fn check_read_only(home: &Path, image: &[u8]) -> Result<Option<Rows>, Violation> {
    let path = home.join(STORE_FILE);
    put_sparse(&path, image);
    let found = match Store::open(home, &StoreOptions { read_only: true, ..StoreOptions::default() }) {
        Ok(store) => Some(rows_of(&store).map_err(|e| failed("read read-only", &e))?),
        Err(Error::Store { message, .. }) if message.contains("cannot be repaired read-only") => None,
        Err(error) => return Err(failed("open read-only", &error)),
    };
    if std::fs::read(&path).unwrap() != image {
        return Err(Violation::State("a reader changed the file".to_owned()));
    }
    Ok(found)
}

/// Opens an image, compares it, writes to it. With `deep` it is
/// read without a writer before, and redb checks every page after.
pub(super) fn check(home: &Path, image: &[u8], allowed: &[&Rows], deep: bool) -> Result<Found, Violation> {
    let seen = if deep { check_read_only(home, image)? } else { None };
    let path = home.join(STORE_FILE);
    put_sparse(&path, image);
    let store = Store::open(home, &StoreOptions::default()).map_err(|e| failed("open", &e))?;
    let found = rows_of(&store).map_err(|e| failed("read", &e))?;
    let Some(state) = allowed.iter().position(|state| **state == found) else {
        return Err(Violation::State(difference(&found, allowed)));
    };
    if seen.as_ref().is_some_and(|seen| *seen != found) {
        return Err(Violation::State("a reader saw another state than the writer after it".to_owned()));
    }
    let probe = new_episode(&Model::default(), &mut Random(image.len() as u64));
    let stored = probe.clone();
    let sequence = store
        .write(&Wait::default(), move |view| {
            view.put_episode(&stored, None)?;
            view.last_sequence()
        })
        .map_err(|e| failed("write", &e))?;
    let back = store.read(|view| view.episode(probe.id)).map_err(|e| failed("read back", &e))?;
    if back.as_ref() != Some(&probe) {
        return Err(Violation::State("the record written after the crash is not there".to_owned()));
    }
    store.close().map_err(|e| failed("close", &e))?;
    let store = Store::open(home, &StoreOptions::default()).map_err(|e| failed("open again", &e))?;
    let mut after = rows_of(&store).map_err(|e| failed("read again", &e))?;
    // Without the probe it is what it was.
    let probes = |key: &[u8]| key.windows(16).any(|part| part == probe.id.as_bytes());
    after.retain(|(table, key), body| {
        !(probes(key)
            || (*table == "keys" && probes(body))
            || (*table == "changes" && key == &sequence.to_le_bytes()))
    });
    let last = ("meta", b"last_sequence".to_vec());
    after.insert(last, (sequence - 1).to_le_bytes().to_vec());
    if after != found {
        return Err(Violation::State(format!("after one more write: {}", difference(&after, &[&found]))));
    }
    drop(store);
    if deep {
        let mut builder = Builder::new();
        builder.set_concurrency_mode(ConcurrencyMode::MultiWriter).set_check_integrity_on_open(true);
        drop(builder.open(&path).map_err(|e| Violation::Error(format!("integrity: {e}")))?);
    }
    Ok(Found { in_flight: state > 0, read_only: seen.is_some() })
}

/// Writes what is not zero: most of a small file is.
pub(super) fn put_sparse(path: &Path, image: &[u8]) {
    let _ = std::fs::remove_file(path);
    let mut file = File::create_new(path).unwrap();
    file.set_len(image.len() as u64).unwrap();
    for (page, offset) in image.chunks(4096).zip((0..).step_by(4096)) {
        if page.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.write_all(page).unwrap();
        }
    }
}

/// The first row in which a state differs from each that it may be.
fn difference(found: &Rows, allowed: &[&Rows]) -> String {
    let describe = |wanted: &&Rows| {
        let missing = wanted.iter().find(|(key, body)| found.get(*key) != Some(*body));
        let foreign = found.keys().find(|key| !wanted.contains_key(*key));
        let short = |table: &str, key: &[u8]| format!("{table} {}", key.escape_ascii());
        format!(
            "lacks or has other: {}; has besides: {}",
            missing.map_or("nothing".to_owned(), |((table, key), _)| short(table, key)),
            foreign.map_or("nothing".to_owned(), |(table, key)| short(table, key)),
        )
    };
    allowed.iter().map(describe).collect::<Vec<_>>().join(" / or ")
}
