//! A file of format 1 in the hands of this version. Files that format 1 wrote are kept in tests/data/homes; here is what
//! becomes of their rows.
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use super::seal::{HEADER, body_version, seal_version};
use super::tables::{self, EMBEDDINGS, EPISODES, META};
use super::tests::{episode, put};
use super::*;
use crate::episode::Episode;
use crate::ids::RecordId;
use redb::{Builder, ConcurrencyMode, Database, ReadableDatabase, ReadableTable};
use std::collections::BTreeSet;

const DIM: u32 = 400;

fn database(home: &Path) -> Database {
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
    builder.open(home.join(STORE_FILE)).unwrap()
}

fn rows(chunks: u32) -> Vec<EmbeddingRow> {
    let cells = |chunk: u32| (0..DIM).map(|n| (n * 3 + chunk) as f32 / 7.0).collect();
    let row = |chunk| EmbeddingRow { chunk, text_hash: 9, vector: Embedded::Row(cells(chunk)) };
    let mut rows: Vec<EmbeddingRow> = (0..chunks).map(row).collect();
    rows.push(EmbeddingRow { chunk: chunks, text_hash: 9, vector: Embedded::Refused("no".to_owned()) });
    rows
}

/// Three records with vectors, as format 1 had them.
fn format_1(home: &Path) -> Vec<Episode> {
    let options = StoreOptions { create: true, ..StoreOptions::default() };
    let store = Store::open(home, &options).unwrap();
    let all: Vec<Episode> = (0..3).map(|n| episode(&format!("note {n}"))).collect();
    for one in &all {
        put(&store, one).unwrap();
    }
    let ids: Vec<RecordId> = all.iter().map(|one| one.id).collect();
    let embed = move |view: &mut WriteView<'_>| {
        let number = view.register_embedder("test", DIM)?;
        view.set_home_embedder(number)?;
        ids.iter().try_for_each(|id| view.put_embeddings(number, *id, &rows(2)))
    };
    store.write(&Wait::default(), embed).unwrap();
    store.close().unwrap();
    let db = database(home);
    let transaction = db.begin_write().unwrap();
    {
        let mut episodes = transaction.open_table(EPISODES).unwrap();
        let mut embeddings = transaction.open_table(EMBEDDINGS).unwrap();
        embeddings.retain(|_, _| false).unwrap();
        for one in &all {
            let id = one.id.as_bytes();
            let value = seal_version(1, "episodes", id, &[&one.to_json().unwrap()]);
            episodes.insert(id, value.as_slice()).unwrap();
            for row in rows(2) {
                let (kind, payload) = match row.vector {
                    Embedded::Row(cells) => (0, cells.iter().flat_map(|cell| cell.to_le_bytes()).collect()),
                    Embedded::Refused(reason) => (1, reason.into_bytes()),
                };
                let body: [&[u8]; 3] = [&[kind], &row.text_hash.to_le_bytes(), &payload];
                let value = seal_version(1, "embeddings", &tables::chunk_key(1, id, row.chunk), &body);
                embeddings.insert((1, id, row.chunk), value.as_slice()).unwrap();
            }
        }
        let mut meta = transaction.open_table(META).unwrap();
        for name in [tables::META_FORMAT, tables::META_OLDEST_READER] {
            let value = seal::seal("meta", name.as_bytes(), &1_u32.to_le_bytes());
            meta.insert(name, value.as_slice()).unwrap();
        }
    }
    transaction.commit().unwrap();
    all
}

/// The format of the file, and the versions of its records and rows of vectors.
fn versions(home: &Path) -> (u32, BTreeSet<u8>, BTreeSet<u8>) {
    let store = Store::open(home, &StoreOptions { read_only: true, ..StoreOptions::default() }).unwrap();
    let format = store.read(|view| Ok((view.format_version()?, view.oldest_reader()?))).unwrap();
    assert_eq!(format.0, format.1);
    drop(store);
    let db = database(home);
    let transaction = db.begin_read().unwrap();
    let (episodes, embeddings) =
        (transaction.open_table(EPISODES).unwrap(), transaction.open_table(EMBEDDINGS).unwrap());
    let version = |value: &[u8]| value[HEADER - 1];
    let episodes = episodes.iter().unwrap().map(|row| version(row.unwrap().1.value())).collect();
    let embeddings = embeddings.iter().unwrap().map(|row| version(row.unwrap().1.value())).collect();
    (format.0, episodes, embeddings)
}

fn set(versions: &[u8]) -> BTreeSet<u8> {
    versions.iter().copied().collect()
}

fn holds(home: &Path, all: &[Episode]) {
    let store = Store::open(home, &StoreOptions { read_only: true, ..StoreOptions::default() }).unwrap();
    for one in all {
        let (record, vectors) =
            store.read(|view| Ok((view.episode(one.id)?, view.embeddings_of(1, one.id)?))).unwrap();
        assert_eq!(record.unwrap().to_json().unwrap(), one.to_json().unwrap());
        assert_eq!(vectors, rows(2));
    }
    assert_eq!(store.read(|view| view.count()).unwrap(), all.len() as u64);
    assert_eq!(Store::verify(home, &StoreOptions::default(), &mut |_, _| false).unwrap().problems, []);
}

#[test]
fn reading_and_checking_a_file_of_format_1_leaves_it_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let all = format_1(home.path());
    holds(home.path(), &all);
    assert_eq!(versions(home.path()), (1, set(&[1]), set(&[1])));
    // A write that comes to nothing changes nothing.
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    store.write(&Wait::default(), |_| Ok(())).unwrap();
    store.close().unwrap();
    assert_eq!(versions(home.path()), (1, set(&[1]), set(&[1])));
}

#[test]
fn the_first_write_makes_a_file_of_format_1_one_of_this_and_leaves_other_rows_alone() {
    let home = tempfile::tempdir().unwrap();
    let mut all = format_1(home.path());
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    all[1].summary.push_str(" again");
    put(&store, &all[1]).unwrap();
    let id = all[1].id;
    store.write(&Wait::default(), move |view| view.put_embeddings(1, id, &rows(2))).unwrap();
    store.close().unwrap();
    holds(home.path(), &all);
    assert_eq!(versions(home.path()), (FORMAT_VERSION, set(&[1, 2]), set(&[1, 2])));
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    let gone = all.remove(0);
    store.write(&Wait::default(), move |view| view.delete_episode(&gone)).unwrap();
    store.close().unwrap();
    holds(home.path(), &all);
}

#[test]
fn compaction_backup_and_repair_give_every_row_the_present_form() {
    type Remake = fn(&Path) -> std::path::PathBuf;
    let ways: [Remake; 3] = [
        |home| {
            let store = Store::open(home, &StoreOptions::default()).unwrap();
            store.compact(&store.wait(), &mut |_, _| false).unwrap();
            home.to_owned()
        },
        |home| {
            let copy = home.join("copy");
            std::fs::create_dir(&copy).unwrap();
            let store = Store::open(home, &StoreOptions::default()).unwrap();
            store.backup(&copy.join(STORE_FILE), &mut |_, _| false).unwrap();
            assert_eq!(versions(home).0, 1, "the one that is copied stays as it is");
            copy
        },
        |home| {
            let done = Store::repair(home, &StoreOptions::default(), true, &mut |_, _| false).unwrap();
            assert_eq!((done.restored, done.restored_vectors, done.lost), (3, 6, Vec::new()));
            home.to_owned()
        },
    ];
    for remake in ways {
        let home = tempfile::tempdir().unwrap();
        let all = format_1(home.path());
        let made = remake(home.path());
        holds(&made, &all);
        let (episodes, embeddings) = (body_version("episodes"), body_version("embeddings"));
        assert_eq!(versions(&made), (FORMAT_VERSION, set(&[episodes]), set(&[embeddings])));
    }
}

#[test]
fn vectors_of_format_1_come_back_from_a_broken_tree() {
    let home = tempfile::tempdir().unwrap();
    let all = format_1(home.path());
    let path = home.path().join(STORE_FILE);
    let mut file = std::fs::read(&path).unwrap();
    file[..4096].fill(0);
    std::fs::write(&path, file).unwrap();
    let done = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false).unwrap();
    assert_eq!((done.restored, done.restored_vectors), (3, 6), "{:?}", done.lost);
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    for one in &all {
        assert_eq!(store.read(|view| view.episode(one.id)).unwrap().as_ref(), Some(one));
    }
}
