//! What a repair may never do, whatever the damage: serve an older version for a newer one that is in the file, serve
//! what may have been forgotten, lose anything without a word.

use super::super::{Embedded, EmbeddingRow, ReadView, Store, StoreOptions};
use super::pages::PAGE;
use super::*;
use crate::episode::{EmbeddedText, Episode, Origin, Scope};
use crate::time::{Clock, SystemClock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::time::Duration;

const LEN: usize = PAGE as usize;

type Records = BTreeMap<RecordId, Episode>;

/// A store after some of its life, with the file as it was before the last steps of it.
struct History {
    old: Vec<u8>,
    new: Vec<u8>,
    there: Records,
    gone: BTreeSet<RecordId>,
}

fn open(home: &Path) -> Store {
    Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap()
}

fn file(home: &Path) -> std::path::PathBuf {
    home.join("episodes.redb")
}

fn episode(n: usize) -> Episode {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    Episode {
        summary: format!("note {n} {}", "word ".repeat(n % 90)),
        key: Some(format!("key {n}")),
        ..Episode::new(id, now, Scope::root(), Origin::User)
    }
}

/// Writes records, each with one vector of each of two embedders, in commits of their own.
fn put(store: &Store, episodes: &[Episode]) {
    for batch in episodes.chunks(4) {
        let batch = batch.to_vec();
        store
            .write(&store.wait(), move |view| {
                let numbers =
                    [view.register_embedder("given:24", 24)?, view.register_embedder("other", 400)?];
                view.set_home_embedder(numbers[0])?;
                for episode in &batch {
                    view.put_episode(episode, None)?;
                    for (n, number) in numbers.iter().enumerate() {
                        let text_hash = EmbeddedText::of(episode).hash;
                        view.put_embeddings(*number, episode.id, &[vector_of(text_hash, n)])?;
                    }
                }
                Ok(())
            })
            .unwrap();
    }
}

/// One that no other text has, of one part or of several.
fn vector_of(text_hash: u128, embedder: usize) -> EmbeddingRow {
    let cells = (0..[24, 400][embedder]).map(|n| (text_hash >> (n % 100)) as u8);
    EmbeddingRow { chunk: 0, text_hash, vector: Embedded::Row(cells.map(f32::from).collect()) }
}

fn rewritten(episode: &Episode, what: &str) -> Episode {
    let summary = format!("{} {what}", episode.summary);
    Episode { summary, updated_at: SystemClock.now(), ..episode.clone() }
}

fn forget(store: &Store, episodes: &[Episode]) {
    let episodes = episodes.to_vec();
    store
        .write(&store.wait(), move |view| {
            episodes.iter().try_for_each(|episode| view.delete_episode(episode).map(drop))
        })
        .unwrap();
}

impl History {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = open(home.path());
        let mut all: Vec<Episode> = (0..120).map(episode).collect();
        put(&store, &all);
        for n in (0..all.len()).step_by(5) {
            all[n] = rewritten(&all[n], "again");
            put(&store, &all[n..=n]);
        }
        store.close().unwrap();
        let old = fs::read(file(home.path())).unwrap();
        let store = open(home.path());
        for n in (0..all.len()).step_by(7) {
            all[n] = rewritten(&all[n], "at last");
            put(&store, &all[n..=n]);
        }
        // A key goes to another record.
        all[50] = Episode { key: Some("moved".to_owned()), ..rewritten(&all[50], "moved") };
        put(&store, &all[50..=50]);
        all.push(Episode { key: Some("key 50".to_owned()), ..episode(200) });
        put(&store, &all[120..]);
        let gone: Vec<Episode> = all.extract_if(.., |one| one.summary.contains("note 3")).collect();
        for one in gone.chunks(2) {
            forget(&store, one);
        }
        store.close().unwrap();
        let there = all.into_iter().map(|one| (one.id, one)).collect();
        let gone = gone.into_iter().map(|one| one.id).collect();
        Self { old, new: fs::read(file(home.path())).unwrap(), there, gone }
    }

    /// Pages of both states that differ.
    fn changed(&self) -> Vec<usize> {
        let pages = 1..self.old.len().min(self.new.len()) / LEN;
        pages.filter(|page| page_of(&self.old, *page) != page_of(&self.new, *page)).collect()
    }

    /// Repairs the damaged file and checks what must hold. Returns the home too.
    fn repair(&self, what: &str, damaged: &[u8]) -> (tempfile::TempDir, Repaired) {
        let home = tempfile::tempdir().unwrap();
        fs::write(file(home.path()), damaged).unwrap();
        let done = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false);
        let done = done.unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = contents(home.path());
        for (n, row) in vectors(home.path()) {
            assert_eq!(row, vector_of(row.text_hash, n), "{what}: a vector that was never written");
        }
        let told: BTreeSet<&str> = done.lost.iter().map(|loss| loss.id.as_str()).collect();
        let nameless = done.lost.iter().any(|loss| loss.id.is_empty() && loss.table == "changes");
        for (id, one) in &found {
            let Some(newest) = self.there.get(id) else { panic!("{what}: {id} was forgotten and is back") };
            if one != newest {
                assert!(told.contains(id.to_string().as_str()), "{what}: nobody says that {id} is older");
                assert!(!contains(damaged, newest), "{what}: the newest version of {id} is in the file");
            }
        }
        for id in self.there.keys().filter(|id| !found.contains_key(id)) {
            assert!(
                nameless || told.contains(id.to_string().as_str()),
                "{what}: nobody says that {id} is lost"
            );
        }
        (home, done)
    }
}

fn page_of(file: &[u8], page: usize) -> &[u8] {
    &file[page * LEN..][..LEN]
}

fn contains(file: &[u8], episode: &Episode) -> bool {
    let json = episode.to_stored().unwrap();
    file.windows(json.len()).any(|window| window[..40] == json[..40] && window == json)
}

fn contents(home: &Path) -> Records {
    let store = open(home);
    let mut all = BTreeMap::new();
    store
        .read(|view| {
            view.episodes(None, false, &mut |id, row| {
                all.insert(id, row?);
                Ok(ControlFlow::Continue(()))
            })
        })
        .unwrap();
    store.close().unwrap();
    all
}

/// All vectors, each with the number of its embedder from 0.
fn vectors(home: &Path) -> Vec<(usize, EmbeddingRow)> {
    let store = open(home);
    let mut all = Vec::new();
    store
        .read(|view| {
            for n in 0..2 {
                view.embeddings(n + 1, &mut |_, row| {
                    all.push((n as usize, row?));
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            Ok(())
        })
        .unwrap();
    store.close().unwrap();
    all
}

#[test]
fn a_page_with_its_former_content_brings_back_nothing_older_and_nothing_forgotten() {
    let history = History::new();
    let mut repaired = 0;
    for page in history.changed() {
        let mut damaged = history.new.clone();
        damaged[page * LEN..][..LEN].copy_from_slice(page_of(&history.old, page));
        let (_home, done) = history.repair(&format!("page {page}"), &damaged);
        repaired += usize::from(done.kept_as.is_some());
    }
    assert!(repaired > 20, "{repaired}");
}

#[test]
fn what_was_forgotten_stays_so_without_the_page_of_the_feed_that_says_so() {
    let history = History::new();
    let changed = history.changed();
    let mut repaired = 0;
    for feed in 1..history.new.len() / LEN {
        let mut damaged = history.new.clone();
        damaged[feed * LEN..][..LEN].fill(0);
        let home = tempfile::tempdir().unwrap();
        fs::write(file(home.path()), &damaged).unwrap();
        let found = Store::verify(home.path(), &StoreOptions::default(), &mut |_, _| false).unwrap();
        let is_feed = |p: &Problem| (p.kind, p.table.as_str()) == (ProblemKind::File, "changes");
        if !found.problems.iter().any(is_feed) {
            continue;
        }
        for page in changed.iter().step_by(11) {
            let mut damaged = damaged.clone();
            damaged[page * LEN..][..LEN].copy_from_slice(page_of(&history.old, *page));
            let (_home, done) = history.repair(&format!("feed {feed}, page {page}"), &damaged);
            repaired += usize::from(done.kept_as.is_some());
        }
    }
    assert!(repaired > 20, "{repaired}");
}

#[test]
fn a_lost_last_commit_that_forgot_brings_nothing_back() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let all: Vec<Episode> = (0..60).map(episode).collect();
    put(&store, &all);
    store.close().unwrap();
    let old = fs::read(file(home.path())).unwrap();
    let store = open(home.path());
    forget(&store, &all[20..21]);
    store.close().unwrap();
    let new = fs::read(file(home.path())).unwrap();
    let there = all.iter().filter(|one| one.id != all[20].id).map(|one| (one.id, one.clone())).collect();
    let history = History { old, new, there, gone: BTreeSet::from([all[20].id]) };
    for zeroed in [true, false] {
        let mut damaged = history.new.clone();
        for page in history.changed() {
            let at = &mut damaged[page * LEN..][..LEN];
            if zeroed { at.fill(0) } else { at.copy_from_slice(page_of(&history.old, page)) }
        }
        let (_home, done) = history.repair(&format!("zeroed {zeroed}"), &damaged);
        let held_back = fs::read_to_string(done.lost_found.unwrap().join("records.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> =
            held_back.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 61, "every record is there to be imported");
        let vectors = |line: &serde_json::Value| line["vectors"].as_array().map_or(0, Vec::len);
        assert!(lines[1..].iter().all(|line| vectors(line) == 2), "with its vectors");
        assert_eq!(lines[1]["vectors"][0]["embedder"], "given:24");
    }
    assert!(!history.gone.is_empty());
}

#[test]
fn a_shortened_file_names_what_it_lost_or_says_that_it_cannot() {
    let history = History::new();
    for len in (1..history.new.len() / LEN).step_by(23).map(|pages| pages * LEN) {
        history.repair(&format!("cut at {len}"), &history.new[..len]);
        let mut mixed = history.new.clone();
        let end = history.old.len().min(mixed.len());
        if len < end {
            mixed[len..end].copy_from_slice(&history.old[len..end]);
            history.repair(&format!("old from {len}"), &mixed);
        }
    }
}

#[test]
fn without_its_header_all_of_it_comes_back() {
    let history = History::new();
    let mut damaged = history.new.clone();
    damaged[..LEN].fill(0);
    let (home, done) = history.repair("no header", &damaged);
    assert_eq!(contents(home.path()), history.there);
    assert_eq!((done.lost, done.restored_vectors), (Vec::new(), 2 * history.there.len() as u64));
}

#[test]
fn a_home_without_its_header_does_not_go_back_to_the_embedder_before() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let all: Vec<Episode> = (0..30).map(episode).collect();
    put(&store, &all);
    store.write(&store.wait(), |view| view.set_home_embedder(2)).unwrap();
    store.write(&store.wait(), |view| view.replace_home_embedder(Some(1))).unwrap();
    store.close().unwrap();
    let mut damaged = fs::read(file(home.path())).unwrap();
    damaged[..LEN].fill(0);
    fs::write(file(home.path()), damaged).unwrap();
    Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false).unwrap();
    let store = open(home.path());
    let read = |view: &ReadView<'_>| Ok((view.home_embedder()?, view.embedders()?));
    let (number, embedders) = store.read(read).unwrap();
    let names: Vec<String> = embedders.into_iter().map(|one| one.fingerprint).collect();
    assert_eq!((number, names), (Some(1), ["given:24", "replaced:other"].map(str::to_owned).to_vec()));
}

#[test]
fn a_vector_that_is_lost_is_named_with_its_record_and_its_embedder() {
    let history = History::new();
    let (mut lost, mut pages) = (0, 0);
    for page in 1..history.new.len() / LEN {
        let mut damaged = history.new.clone();
        damaged[page * LEN..][..LEN].fill(0);
        let (home, done) = history.repair(&format!("page {page}"), &damaged);
        let is_vectors = |p: &Problem| (p.kind, p.table.as_str()) == (ProblemKind::File, "embeddings");
        if !done.before.problems.iter().any(is_vectors) {
            continue;
        }
        pages += 1;
        let store = open(home.path());
        for id in contents(home.path()).keys() {
            for (number, fingerprint) in [(1, "given:24"), (2, "other")] {
                if !store.read(|view| view.embeddings_of(number, *id)).unwrap().is_empty() {
                    continue;
                }
                lost += 1;
                let name = format!("{id}, embedder {fingerprint}");
                let told =
                    done.lost.iter().find(|loss| (loss.table.as_str(), &loss.id) == ("embeddings", &name));
                let told = told.unwrap_or_else(|| panic!("page {page}: nobody names {name}"));
                if number == 1 {
                    assert!(told.detail.ends_with("give it again"), "{}", told.detail);
                }
            }
        }
        store.close().unwrap();
    }
    assert!(lost > 5 && pages > 3, "{lost} lost in {pages} pages");
}

#[test]
fn an_earlier_owner_of_a_key_does_not_get_it_back() {
    let history = History::new();
    let with = |file: &[u8], text: &str| -> Vec<usize> {
        let found = |page: &usize| page_of(file, *page).windows(text.len()).any(|w| w == text.as_bytes());
        (1..file.len() / LEN).filter(found).collect()
    };
    let earlier = with(&history.old, "\"key\":\"key 50\"");
    assert!(!earlier.is_empty());
    for from in earlier {
        for to in with(&history.new, "\"summary\":\"note").into_iter().step_by(3) {
            let mut damaged = history.new.clone();
            damaged[to * LEN..][..LEN].copy_from_slice(page_of(&history.old, from));
            history.repair(&format!("page {from} at {to}"), &damaged);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_hole_costs_no_time_and_no_room_and_the_work_can_be_stopped() {
    use std::os::unix::fs::MetadataExt;
    let history = History::new();
    let home = tempfile::tempdir().unwrap();
    fs::write(file(home.path()), &history.new).unwrap();
    let sparse = fs::OpenOptions::new().write(true).open(file(home.path())).unwrap();
    sparse.set_len(1 << 38).unwrap();
    // Damaged also, so that the pages outside the trees are looked at.
    std::os::unix::fs::FileExt::write_all_at(&sparse, &[0; LEN], 0).unwrap();
    let names = || fs::read_dir(home.path()).unwrap().count();
    let before = names();
    let mut words = 0;
    let stopped = Store::repair(home.path(), &StoreOptions::default(), false, &mut |done, all| {
        words += 1;
        done >= all / 3
    });
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    assert!(words > 0 && names() <= before + 2, "the lock and the note only");
    let done = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false).unwrap();
    assert_eq!(contents(home.path()), history.there);
    let kept = fs::metadata(done.kept_as.unwrap()).unwrap();
    assert_eq!(kept.len(), 1 << 38);
    assert!(kept.blocks() * 512 < 64 << 20, "{} blocks", kept.blocks());
}

#[cfg(unix)]
#[test]
fn what_root_makes_in_a_home_belongs_to_its_owner() {
    use std::os::unix::fs::{MetadataExt, chown};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let history = History::new();
    let home = tempfile::tempdir().unwrap();
    fs::write(file(home.path()), &history.new[..history.new.len() / 2]).unwrap();
    chown(home.path(), Some(12_345), Some(12_346)).unwrap();
    chown(file(home.path()), Some(12_345), Some(12_346)).unwrap();
    let done = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false).unwrap();
    assert!(done.lost_found.is_some());
    let mut open = vec![home.path().to_owned()];
    let mut seen = 0;
    while let Some(path) = open.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (12_345, 12_346), "{}", path.display());
        seen += 1;
        if found.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 7, "{seen}");
}

#[test]
fn where_there_is_no_store_nothing_is_made() {
    let home = tempfile::tempdir().unwrap();
    let outcome = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false);
    assert!(matches!(outcome, Err(Error::Store { .. })), "{outcome:?}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_lock_file_that_is_a_link_is_told_as_one() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open(home.path()).close().unwrap();
    fs::create_dir(home.path().join("locks")).unwrap();
    let target = elsewhere.path().join("file");
    std::os::unix::fs::symlink(&target, home.path().join("locks/maintenance")).unwrap();
    let outcome = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false);
    let text = outcome.map(drop).unwrap_err().to_string();
    assert!(text.contains("symbolic link") && text.contains("maintenance"), "{text}");
    assert!(!target.exists());
}

#[test]
fn who_will_not_wait_gets_a_lock_that_is_free() {
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions { create: true, lock_timeout: Duration::ZERO, ..StoreOptions::default() };
    let store = Store::open(home.path(), &options).unwrap();
    for n in 0..5 {
        let one = episode(n);
        store.write(&store.wait(), move |view| view.put_episode(&one, None)).unwrap();
        let found = Store::verify(home.path(), &options, &mut |_, _| false).unwrap();
        assert_eq!(found.records, n as u64 + 1);
    }
    store.close().unwrap();
}
