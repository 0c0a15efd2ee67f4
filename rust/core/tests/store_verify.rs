//! Damage is found wherever it touches what is stored, and a whole file is called whole.
#![allow(clippy::unwrap_used)] // helpers of tests, too
#![allow(clippy::print_stdout, reason = "the long forms print their figures")]

use otolith_core::episode::{EmbeddedText, Episode, Origin, Scope};
use otolith_core::ids::RecordId;
use otolith_core::store::{Embedded, EmbeddingRow, Loss, Repaired, Store, StoreOptions, Verified};
use otolith_core::time::{Clock, SystemClock};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

const DIM: usize = 16;

fn episode(n: usize) -> Episode {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    Episode {
        summary: format!("note {n} {}", "word ".repeat(n % 40)),
        key: n.is_multiple_of(3).then(|| format!("key-{n}")),
        working_dir: n.is_multiple_of(4).then(|| format!("/work/{}", n % 7)),
        ..Episode::new(id, now, Scope::root(), Origin::User)
    }
}

/// A store with `count` records of every shape, some of them forgotten, some large. Returns those that are there.
fn fill(home: &Path, count: usize) -> Vec<Episode> {
    let store = Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap();
    let mut there = Vec::new();
    for start in (0..count).step_by(25) {
        let mut batch: Vec<Episode> = (start..count.min(start + 25)).map(episode).collect();
        if start == 0 {
            batch[0].body = Some("long ".repeat(9_000));
        }
        let rows = batch.clone();
        store
            .write(&store.wait(), move |view| {
                let number = view.register_embedder("test", DIM as u32)?;
                view.set_home_embedder(number)?;
                for (n, episode) in rows.iter().enumerate() {
                    view.put_episode(episode, None)?;
                    if n % 5 != 0 {
                        let vector = (0..DIM).map(|d| (d + n) as f32).collect();
                        let text_hash = EmbeddedText::of(episode).hash;
                        let row = EmbeddingRow { chunk: 0, text_hash, vector: Embedded::Row(vector) };
                        view.put_embeddings(number, episode.id, &[row])?;
                    }
                }
                Ok(())
            })
            .unwrap();
        there.extend(batch);
    }
    let forgotten: Vec<Episode> = there.extract_if(.., |e| e.summary.starts_with("note 7")).collect();
    store
        .write(&store.wait(), move |view| {
            for episode in &forgotten {
                view.delete_episode(episode)?;
            }
            Ok(())
        })
        .unwrap();
    store.close().unwrap();
    there
}

fn verify(home: &Path) -> Verified {
    Store::verify(home, &StoreOptions::default(), &mut |_, _| false).unwrap()
}

#[test]
fn a_whole_file_is_called_whole_also_after_a_crash() {
    let home = tempfile::tempdir().unwrap();
    let there = fill(home.path(), 300);
    let found = verify(home.path());
    assert_eq!(found.problems, []);
    assert_eq!(found.records, there.len() as u64);
    // What a killed process leaves: the file as it was while it was open.
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    for n in 0..40 {
        let one = episode(n);
        store.write(&store.wait(), move |view| view.put_episode(&one, None)).unwrap_or(());
        let crashed = tempfile::tempdir().unwrap();
        std::fs::copy(home.path().join("episodes.redb"), crashed.path().join("episodes.redb")).unwrap();
        assert_eq!(verify(crashed.path()).problems, [], "crash {n}");
    }
    assert_eq!(verify(home.path()).problems, []);
}

/// The answer of redb's own repairing check, on a copy. None where it panics.
fn redb_finds_it_whole(file: &Path) -> bool {
    let copy = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(file, copy.path()).unwrap();
    let path = copy.path().to_owned();
    std::panic::catch_unwind(move || {
        let mut builder = redb::Builder::new();
        let builder = builder.set_check_integrity_on_open(true);
        builder.open(&path).is_ok_and(|mut db| db.check_integrity().unwrap_or(false))
    })
    .unwrap_or(false)
}

/// One flipped bit anywhere: told exactly when it is in a byte that is in use.
#[test]
fn every_flipped_bit_in_use_is_seen() {
    let home = tempfile::tempdir().unwrap();
    fill(home.path(), 300);
    let path = home.path().join("episodes.redb");
    let whole = std::fs::read(&path).unwrap();
    let tries: u64 = std::env::var("OTOLITH_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(80);
    let mut seed = 11_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut seen, mut harmless) = (0, 0);
    for n in 0..tries {
        let at = if n % 8 == 0 { random(320) } else { random(whole.len() as u64) };
        let bit = random(8);
        let mut damaged = whole.clone();
        damaged[at as usize] ^= 1 << bit;
        std::fs::write(&path, &damaged).unwrap();
        let found = verify(home.path());
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "it wrote");
        if found.problems.is_empty() {
            harmless += 1;
            assert!(redb_finds_it_whole(&path), "byte {at}, bit {bit}: redb finds it, verify does not");
        } else {
            seen += 1;
        }
    }
    println!("{tries} flips: {seen} seen, {harmless} in bytes nobody uses");
    assert!(seen > tries / 10 && harmless > 0);
}

fn repair(home: &Path) -> Repaired {
    Store::repair(home, &StoreOptions::default(), false, &mut |_, _| false).unwrap()
}

/// Everything that is in the store, by id.
fn contents(home: &Path) -> BTreeMap<RecordId, Episode> {
    let store = Store::open(home, &StoreOptions::default()).unwrap();
    let mut all = BTreeMap::new();
    store
        .read(|view| {
            view.episodes(None, false, &mut |id, row| {
                all.insert(id, row?);
                Ok(ControlFlow::Continue(()))
            })
        })
        .unwrap();
    for episode in all.values() {
        if let Some(key) = &episode.key {
            let found = store.read(|view| view.id_for_key(&episode.scope, key)).unwrap();
            assert_eq!(found, Some(episode.id), "the key leads to its record");
        }
    }
    store.close().unwrap();
    all
}

fn contains(file: &[u8], bytes: &[u8]) -> bool {
    // The rarest part first: an id stands once or twice.
    file.windows(bytes.len()).any(|window| window[10..46] == bytes[10..46] && window == bytes)
}

struct Damaged {
    home: tempfile::TempDir,
    there: BTreeMap<RecordId, Episode>,
    whole: Vec<u8>,
}

impl Damaged {
    fn new(count: usize) -> Self {
        let home = tempfile::tempdir().unwrap();
        let there = fill(home.path(), count).into_iter().map(|e| (e.id, e)).collect();
        let whole = std::fs::read(home.path().join("episodes.redb")).unwrap();
        Self { home, there, whole }
    }

    /// Damages a fresh copy, repairs it, and checks all that must hold whatever the damage. Returns what the repair
    /// said and how many records that are whole in the damaged file did not come back.
    fn run(&self, what: &str, damage: impl FnOnce(&mut Vec<u8>)) -> (Repaired, usize) {
        let home = tempfile::tempdir_in(self.home.path()).unwrap();
        let path = home.path().join("episodes.redb");
        let mut bytes = self.whole.clone();
        damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let done = repair(home.path());
        assert_eq!(verify(home.path()).problems, [], "{what}: the new file");
        let Some(kept) = &done.kept_as else {
            assert_eq!(done.before.problems, [], "{what}");
            assert!(std::fs::read(&path).unwrap() == bytes, "{what}: nothing was wrong, and it wrote");
            return (done, 0);
        };
        assert!(std::fs::read(kept).unwrap() == bytes, "{what}: the damaged file is kept as it is");
        let restored = contents(home.path());
        assert_eq!(restored.len() as u64, done.restored, "{what}");
        let told: BTreeSet<&str> = done.lost.iter().map(|loss| loss.id.as_str()).collect();
        let nameless = done.lost.iter().any(|loss| loss.id.is_empty());
        for (id, episode) in &restored {
            assert_eq!(self.there.get(id), Some(episode), "{what}: {id} was forgotten, or is another now");
        }
        let mut withheld = 0;
        for (id, episode) in &self.there {
            if !restored.contains_key(id) {
                assert!(
                    nameless || told.contains(id.to_string().as_str()),
                    "{what}: nobody says that {id} is lost"
                );
                withheld += usize::from(contains(&bytes, &episode.to_json().unwrap()));
            }
        }
        if let Some(dir) = &done.lost_found {
            for loss in &done.lost {
                if let Some(file) = &loss.file {
                    assert!(dir.join(file).is_file(), "{what}: {file}");
                }
            }
        }
        (done, withheld)
    }
}

#[test]
fn a_flipped_bit_costs_nothing() {
    let stores = Damaged::new(300);
    let mut seed = 5_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let tries: u64 = std::env::var("OTOLITH_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut repaired = 0;
    for n in 0..tries {
        let at = if n % 8 == 0 { random(320) } else { random(stores.whole.len() as u64) } as usize;
        let bit = random(8);
        let (done, withheld) = stores.run(&format!("byte {at}, bit {bit}"), |file| file[at] ^= 1 << bit);
        if done.kept_as.is_some() {
            repaired += 1;
            // A page of a long record is too large to find the bit in.
            let long = done.lost.iter().all(|loss| loss.table == "episodes") && done.lost.len() <= 1;
            assert!(long, "byte {at}, bit {bit}: {:?}", done.lost);
            assert_eq!(withheld, 0);
        }
    }
    println!("{tries} flips: {repaired} repaired");
    assert!(repaired > tries / 10);
}

#[test]
fn every_page_can_be_lost_and_the_rest_comes_back() {
    let stores = Damaged::new(200);
    let pages = stores.whole.len() / 4096;
    let step: usize = std::env::var("OTOLITH_PAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let (mut lost, mut withheld, mut repaired) = (0, 0, 0);
    for page in (0..pages).step_by(step).chain([1]) {
        let (done, kept_back) =
            stores.run(&format!("page {page} of zeros"), |file| file[page * 4096..][..4096].fill(0));
        withheld += kept_back;
        if done.kept_as.is_some() {
            repaired += 1;
            lost += stores.there.len() - done.restored as usize;
        }
    }
    println!("{repaired} repairs: {lost} records lost, {withheld} of them whole in the file and held back");
    assert!(repaired > 5 && lost < repaired * 40);
}

#[test]
fn what_is_left_of_a_shortened_or_scribbled_file_comes_back() {
    let stores = Damaged::new(200);
    for part in [1, 5, 9] {
        let len = stores.whole.len() * part / 10;
        stores.run(&format!("cut at {len}"), |file| file.truncate(len));
    }
    let (done, _) = stores.run("no header", |file| file[..4096].fill(0xA5));
    assert_eq!(
        done.restored,
        stores.there.len() as u64,
        "all pages but the header are whole: {:?}",
        done.lost
    );
    for seed in 0..6_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let done = stores.run(&format!("scribble {seed}"), |file| {
            for _ in 0..60 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % file.len();
                file[at] = file[at].wrapping_add((random >> 20) as u8 | 1);
            }
        });
        // Where the end of the feed is lost nothing is served that may have been forgotten: it is there to be imported.
        let held_back = |loss: &&Loss| loss.file.as_deref() == Some("records.jsonl");
        let whole = done.0.restored as usize + done.0.lost.iter().filter(held_back).count();
        assert!(whole > 60, "{whole}");
    }
}
