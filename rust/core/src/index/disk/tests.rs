use super::*;
use crate::error::Error;
use crate::sections::SectionName;
use fixedbitset::FixedBitSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

const NUMBERS: SectionName = SectionName::new("numbers");

fn manifest(sequence: u64, segments: Vec<SegmentEntry>) -> Manifest {
    Manifest {
        format: INDEX_FORMAT,
        number: 0,
        store_id: [7; 16],
        sequence,
        nonce: u64::MAX - sequence,
        embedder: Some(EmbedderEntry { number: 1, fingerprint: "hash:2".into(), dim: 2 }),
        unreadable: [("a".into(), "b".into())].into(),
        unreadable_vectors: std::collections::BTreeMap::new(),
        segments,
        tombstones: None,
    }
}

fn dead(max_doc: usize, docs: &[usize]) -> FixedBitSet {
    let mut dead = FixedBitSet::with_capacity(max_doc);
    for doc in docs {
        dead.insert(*doc);
    }
    dead
}

/// Publishes a state of one segment of 70 documents, two of them dead.
fn publish(directory: &Directory, sequence: u64) -> Manifest {
    let turn = directory.lock().unwrap().unwrap();
    let (file, _) = turn.write_segment(|writer| writer.section(NUMBERS, &[sequence])).unwrap();
    let segment = SegmentEntry { file, max_doc: 70, dead: 0, graph: None };
    turn.publish(manifest(sequence, vec![segment]), &[dead(70, &[3, 69])]).unwrap()
}

fn names(directory: &Directory) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_newest_state_comes_back_and_older_files_are_gone() {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::new(home.path(), "test");
    assert!(directory.load().unwrap().is_none());
    publish(&directory, 5);
    let old = directory.load().unwrap().unwrap();
    let written = publish(&directory, 6);
    let new = directory.load().unwrap().unwrap();
    assert_eq!(new.manifest, written);
    assert_eq!((new.manifest.number, new.manifest.segments[0].dead), (2, 2));
    assert_eq!(new.tombstones, [dead(70, &[3, 69])]);
    assert_eq!(new.segments[0].array::<u64>(NUMBERS).unwrap()[..], [6]);
    #[cfg(unix)]
    assert_eq!(old.segments[0].array::<u64>(NUMBERS).unwrap()[..], [5], "a map outlives its file");
    drop(old);
    let segment = written.segments[0].file.name.clone();
    assert_eq!(names(&directory), ["dead-000002", "lock", "manifest-000002.json", &segment]);
}

#[test]
fn one_at_a_time_changes_it_and_what_was_not_published_goes() {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::new(home.path(), "test");
    let turn = directory.lock().unwrap().unwrap();
    assert!(directory.lock().unwrap().is_none());
    turn.write_segment(|writer| writer.section(NUMBERS, &[1_u64])).unwrap();
    fs::write(directory.path().join(".seg-1.99"), "torn").unwrap();
    drop(turn);
    assert!(directory.load().unwrap().is_none());
    publish(&directory, 1);
    assert_eq!(names(&directory).len(), 4, "{:?}", names(&directory));
    assert!(directory.load().unwrap().is_some());
}

#[test]
fn every_cut_and_flip_of_manifest_and_tombstones_is_a_typed_error() {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::new(home.path(), "test");
    publish(&directory, 1);
    for name in ["manifest-000001.json", "dead-000001"] {
        let path = directory.path().join(name);
        let whole = fs::read(&path).unwrap();
        let damage = (0..whole.len()).flat_map(|at| [(at, true), (at, false)]);
        for (at, flip) in damage {
            let mut bytes = whole.clone();
            if flip {
                bytes[at] ^= 0x20;
            } else {
                bytes.truncate(at);
            }
            fs::write(&path, &bytes).unwrap();
            match directory.load() {
                Err(Error::StoreCorrupt { .. } | Error::FormatTooNew { .. }) => {}
                // The zeros between the sections tell nothing.
                Ok(Some(loaded)) => assert_eq!(loaded.tombstones, [dead(70, &[3, 69])], "{name} {at}"),
                other => panic!("{name} {at} {flip}: {other:?}"),
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    let segment = directory.load().unwrap().unwrap().manifest.segments[0].file.name.clone();
    fs::remove_file(directory.path().join(segment)).unwrap();
    assert!(matches!(directory.load(), Err(Error::Store { .. })));
}

#[test]
fn readers_never_miss_while_others_publish() {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::new(home.path(), "test");
    publish(&directory, 1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (2..60).for_each(|sequence| drop(publish(&directory, sequence))));
        let mut last = 0;
        while !writer.is_finished() {
            let loaded = directory.load().unwrap().unwrap();
            assert!(loaded.manifest.sequence >= last);
            last = loaded.manifest.sequence;
            assert_eq!(loaded.segments[0].array::<u64>(NUMBERS).unwrap()[..], [last]);
        }
    });
}

#[test]
fn a_shape_that_nobody_used_for_a_week_goes_and_others_stay() {
    let home = tempfile::tempdir().unwrap();
    let [old, fresh, own] = ["old", "fresh", "own"].map(|shape| Directory::new(home.path(), shape));
    let used = |directory: &Directory, days: u64| {
        publish(directory, 1);
        directory.note_use();
        let file = fs::File::options().write(true).open(directory.path().join("used")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(24 * days)).unwrap();
    };
    used(&old, 8);
    used(&fresh, 6);
    fs::create_dir(home.path().join("index/mine")).unwrap();
    publish(&own, 1);
    let there = |path: &Path| path.exists();
    assert!(!there(old.path()) && there(fresh.path()) && there(own.path()));
    assert!(there(&home.path().join("index/mine")), "what is not ours is left alone");
    own.note_use();
    assert!(there(&own.path().join("used")));
}

#[cfg(unix)]
#[test]
fn a_link_in_its_place_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), home.path().join("index")).unwrap();
    let error = Directory::new(home.path(), "test").lock().unwrap_err();
    assert!(matches!(error, Error::Store { .. }), "{error}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}
