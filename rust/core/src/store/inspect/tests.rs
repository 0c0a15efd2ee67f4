//! What only a store that was tampered with shows, and that the pages are read as redb reads them.

use super::super::seal::seal;
use super::super::sealed::SealedEmbedding;
use super::super::tables::{self, OpenTables};
use super::super::{Embedded, EmbeddingRow, Store, StoreOptions};
use super::*;
use crate::episode::{Episode, Origin, Scope};
use crate::time::{Clock, SystemClock};
use redb::{Database, ReadableTable};
use std::collections::BTreeSet;

/// Wide enough for several parts.
const DIM: usize = 400;

fn open(home: &Path) -> Store {
    Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap()
}

/// Records with keys, directories and vectors, one of them larger than a page; the last one is forgotten.
fn fill(home: &Path, count: usize) -> Vec<Episode> {
    let store = open(home);
    let now = SystemClock.now();
    let mut all: Vec<Episode> = (0..count)
        .map(|n| Episode {
            summary: format!("note {n}"),
            body: (n == 1).then(|| "long ".repeat(5_000)),
            key: Some(format!("key {n}")),
            working_dir: Some(format!("/work/{}", n % 3)),
            ..Episode::new(RecordId::new_episode(now.unix_micros()), now, Scope::root(), Origin::User)
        })
        .collect();
    let rows = all.clone();
    store
        .write(&store.wait(), move |view| {
            let number = view.register_embedder("test", DIM as u32)?;
            view.set_home_embedder(number)?;
            for episode in &rows {
                view.put_episode(episode, None)?;
                view.put_embeddings(number, episode.id, &[row(vec![1.0; DIM])])?;
            }
            view.delete_episode(&rows[rows.len() - 1])?;
            Ok(())
        })
        .unwrap();
    store.close().unwrap();
    all.pop();
    all
}

fn row(cells: Vec<f32>) -> EmbeddingRow {
    EmbeddingRow { chunk: 0, text_hash: 7, vector: Embedded::Row(cells) }
}

fn insert(tables: &OpenTables<'_>, id: [u8; 16], row: &EmbeddingRow) {
    let vector = SealedEmbedding::of(1, RecordId::from_bytes(id).unwrap(), row).unwrap();
    for (number, value) in vector.rows {
        tables.embeddings.borrow_mut().insert((1, &id, number), value.as_slice()).unwrap();
    }
}

/// The first and the last part of a record's vector, by the end of their keys.
fn ends(tables: &OpenTables<'_>, id: &[u8; 16]) -> (u32, u32) {
    let table = tables.embeddings.borrow();
    let rows = table.range((1, id, 0)..=(1, id, u32::MAX)).unwrap();
    let numbers: Vec<u32> = rows.map(|row| row.unwrap().0.value().2).collect();
    assert!(numbers.len() > 1);
    (numbers[0], numbers[numbers.len() - 1])
}

fn with_tables(home: &Path, job: impl FnOnce(&OpenTables<'_>)) {
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
    let db: Database = builder.open(home.join("episodes.redb")).unwrap();
    let transaction = db.begin_write().unwrap();
    job(&OpenTables::open(&transaction).unwrap());
    transaction.commit().unwrap();
}

fn verify(home: &Path) -> Vec<Problem> {
    Store::verify(home, &StoreOptions::default(), &mut |_, _| false).unwrap().problems
}

#[test]
fn pages_are_read_as_redb_reads_them() {
    let home = tempfile::tempdir().unwrap();
    fill(home.path(), 400);
    let mut ours = BTreeSet::new();
    let place = Place::of(home.path(), &StoreOptions::default());
    let context = place.context();
    let still = Still::open(&place, &context, false).unwrap();
    let mut pages = Pages::new(Arc::clone(&still.backend)).unwrap();
    let mut on_row = |judged: &Judged<'_>| {
        assert!(judged.row.is_ok());
        let there = std::fs::read(&place.path).unwrap();
        let at = judged.found.offset as usize;
        assert_eq!(&there[at..at + judged.found.value.len()], judged.found.value, "it is where it says");
        ours.insert((judged.table, judged.key.unwrap().clone(), judged.found.value.to_vec()));
    };
    Inspection::default().run(&mut pages, &context, &mut |_, _| false, &mut on_row).unwrap();
    drop(still);
    let mut theirs = BTreeSet::new();
    with_tables(home.path(), |tables| {
        macro_rules! rows {
            ($field:ident, $table:ident, $key:pat => $parsed:expr) => {
                for row in tables.$field.borrow().iter().unwrap() {
                    let (key, value) = row.unwrap();
                    let $key = key.value();
                    theirs.insert((Table::$table, $parsed, value.value().to_vec()));
                }
            };
        }
        rows!(meta, Meta, name => Key::Meta(name.to_owned()));
        rows!(changes, Changes, sequence => Key::Change(sequence));
        rows!(episodes, Episodes, id => Key::Episode(*id));
        rows!(keys, Keys, (scope, key) => Key::Name(scope.to_owned(), key.to_owned()));
        rows!(cwd_index, CwdIndex, (dir, id) => Key::Dir(dir.to_owned(), *id));
        rows!(embedders, Embedders, number => Key::Embedder(number));
        rows!(embeddings, Embeddings, (embedder, id, number) => Key::Part(embedder, *id, number));
    });
    assert!(theirs.len() > 5 * 399);
    assert!(ours == theirs, "{} rows against {}", ours.len(), theirs.len());
}

#[test]
fn what_contradicts_itself_is_told_and_mended() {
    type Tamper = fn(&OpenTables<'_>, &[Episode]);
    let cases: [(&str, ProblemKind, &str, Tamper); 14] = [
        ("a key is gone", ProblemKind::Missing, "keys", |tables, _| {
            tables.keys.borrow_mut().remove(("", "key 2")).unwrap();
        }),
        ("a directory is gone", ProblemKind::Missing, "cwd_index", |tables, all| {
            tables.cwd_index.borrow_mut().remove(("/work/2", all[2].id.as_bytes())).unwrap();
        }),
        ("a key of nobody", ProblemKind::Orphan, "keys", |tables, _| {
            let id = RecordId::new_episode(1);
            let value = seal("keys", &tables::name_key("", "stray"), id.as_bytes());
            tables.keys.borrow_mut().insert(("", "stray"), value.as_slice()).unwrap();
        }),
        ("another's key", ProblemKind::Mismatch, "keys", |tables, all| {
            let value = seal("keys", &tables::name_key("", "stray"), all[2].id.as_bytes());
            tables.keys.borrow_mut().insert(("", "stray"), value.as_slice()).unwrap();
        }),
        ("a vector of nobody", ProblemKind::Orphan, "embeddings", |tables, _| {
            let id = *RecordId::new_episode(1).as_bytes();
            let row = EmbeddingRow { chunk: 0, text_hash: 0, vector: Embedded::Refused("no".into()) };
            insert(tables, id, &row);
        }),
        ("a vector of another width", ProblemKind::Mismatch, "embeddings", |tables, all| {
            insert(tables, *all[2].id.as_bytes(), &row(vec![1.0; DIM + 1]));
        }),
        ("the first part of a vector is gone", ProblemKind::Missing, "embeddings", |tables, all| {
            let id = all[2].id.as_bytes();
            let (number, _) = ends(tables, id);
            assert!(tables.embeddings.borrow_mut().remove((1, id, number)).unwrap().is_some());
        }),
        ("the last part of a vector is gone", ProblemKind::Missing, "embeddings", |tables, all| {
            let id = all[2].id.as_bytes();
            let (_, number) = ends(tables, id);
            assert!(tables.embeddings.borrow_mut().remove((1, id, number)).unwrap().is_some());
        }),
        (
            "a part of an earlier vector of the same text",
            ProblemKind::Missing,
            "embeddings",
            |tables, all| {
                let id = all[2].id.as_bytes();
                let earlier = SealedEmbedding::of(1, all[2].id, &row(vec![2.0; DIM])).unwrap();
                let (number, value) = earlier.rows.last().unwrap();
                let replaced = tables
                    .embeddings
                    .borrow_mut()
                    .insert((1, id, *number), value.as_slice())
                    .unwrap()
                    .is_some();
                assert!(replaced);
            },
        ),
        ("a part too many", ProblemKind::Missing, "embeddings", |tables, all| {
            let id = all[2].id.as_bytes();
            let (_, number) = ends(tables, id);
            let body =
                tables.embeddings.borrow().get((1, id, number)).unwrap().unwrap().value()[9..].to_vec();
            let value = seal("embeddings", &tables::chunk_key(1, id, number + 1), &body);
            tables.embeddings.borrow_mut().insert((1, id, number + 1), value.as_slice()).unwrap();
        }),
        ("a vector of what is no number", ProblemKind::Row, "embeddings", |tables, all| {
            insert(tables, *all[2].id.as_bytes(), &row(vec![f32::NAN; DIM]));
        }),
        ("a record that no change tells of", ProblemKind::Missing, "changes", |tables, all| {
            let mut changes = tables.changes.borrow_mut();
            let (put, embed) = (5, 6); // the third record's
            assert!(changes.remove(put).unwrap().is_some() && changes.remove(embed).unwrap().is_some());
            let _ = all;
        }),
        ("a record that is gone", ProblemKind::Missing, "episodes", |tables, all| {
            tables.episodes.borrow_mut().remove(all[2].id.as_bytes()).unwrap();
        }),
        ("a last number that is none", ProblemKind::Mismatch, "meta", |tables, _| {
            let value = seal("meta", b"last_sequence", &99_u64.to_le_bytes());
            tables.meta.borrow_mut().insert("last_sequence", value.as_slice()).unwrap();
        }),
    ];
    for (what, kind, table, tamper) in cases {
        let home = tempfile::tempdir().unwrap();
        let all = fill(home.path(), 6);
        assert_eq!(verify(home.path()), [], "{what}");
        with_tables(home.path(), |tables| tamper(tables, &all));
        let found = verify(home.path());
        assert!(found.iter().any(|p| (p.kind, p.table.as_str()) == (kind, table)), "{what}: {found:?}");
        let done = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false).unwrap();
        assert_eq!(verify(home.path()), [], "{what}");
        let expected = all.len() as u64 - u64::from(what == "a record that is gone");
        assert_eq!((done.before.problems, done.restored), (found, expected), "{what}");
    }
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    fill(home.path(), 6);
    with_tables(home.path(), |tables| {
        let value = seal("meta", b"format_version", &9_u32.to_le_bytes());
        tables.meta.borrow_mut().insert("format_version", value.as_slice()).unwrap();
    });
    let before = std::fs::read(home.path().join("episodes.redb")).unwrap();
    let options = StoreOptions::default();
    let outcome = Store::repair(home.path(), &options, true, &mut |_, _| false);
    assert!(matches!(outcome, Err(Error::FormatTooNew { found: 9, .. })), "{outcome:?}");
    // It says itself that this version may read it.
    assert_eq!(verify(home.path()), []);
    assert!(std::fs::read(home.path().join("episodes.redb")).unwrap() == before);
    with_tables(home.path(), |tables| {
        let value = seal("meta", b"oldest_reader", &9_u32.to_le_bytes());
        tables.meta.borrow_mut().insert("oldest_reader", value.as_slice()).unwrap();
    });
    let outcome = Store::verify(home.path(), &options, &mut |_, _| false);
    assert!(matches!(outcome, Err(Error::FormatTooNew { found: 9, .. })), "{outcome:?}");
}

#[test]
fn format_0_is_damage_that_can_be_repaired() {
    let home = tempfile::tempdir().unwrap();
    let all = fill(home.path(), 6);
    with_tables(home.path(), |tables| {
        let value = seal("meta", b"format_version", &0_u32.to_le_bytes());
        tables.meta.borrow_mut().insert("format_version", value.as_slice()).unwrap();
    });
    let found = verify(home.path());
    let told = found.iter().any(|p| (p.table.as_str(), p.id.as_str()) == ("meta", "format_version"));
    assert!(told, "{found:?}");
    let done = Store::repair(home.path(), &StoreOptions::default(), false, &mut |_, _| false).unwrap();
    assert_eq!((done.restored, done.lost), (all.len() as u64, Vec::new()));
    open(home.path()).close().unwrap();
}

#[test]
fn a_lock_that_was_waited_for_in_vain_is_the_file_that_is_there_now() {
    // Compacting puts another file at the path while the old one's lock is waited for: checking the old one would
    // be a check of nothing.
    let home = tempfile::tempdir().unwrap();
    fill(home.path(), 50);
    let store = open(home.path());
    let path = home.path().to_owned();
    let verifying = std::thread::spawn(move || {
        (0..20).map(|_| Store::verify(&path, &StoreOptions::default(), &mut |_, _| false).unwrap()).collect()
    });
    for _ in 0..20 {
        store.compact(&store.wait(), &mut |_, _| false).unwrap();
    }
    let found: Vec<Verified> = verifying.join().unwrap();
    for one in found {
        assert_eq!((one.problems, one.records), (Vec::new(), 49));
    }
}
