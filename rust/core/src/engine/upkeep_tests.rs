//! Segments, merges, damage and several processes: whatever happens, the copy is the one that the store gives.

use super::upkeep::FLUSH;
use super::*;
use crate::episode::EpisodePatch;
use crate::ids::RecordId;
use crate::query::Filter;
use std::fs;
use std::path::PathBuf;

const WORDS: [&str; 12] = [
    "token",
    "rollback",
    "pool",
    "schema",
    "harbour",
    "令牌",
    "锁",
    "café",
    "ERR-4471",
    "deploy",
    "owner_name",
    "the",
];

/// A small generator: the same seed, the same history.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    pub(super) fn words(&mut self) -> String {
        let words: Vec<&str> =
            (0..=self.roll(7)).map(|_| WORDS[self.roll(WORDS.len() as u64) as usize]).collect();
        words.join(" ")
    }
}

pub(super) fn open(home: &Path) -> Engine {
    Engine::open(home, EngineOptions::default()).unwrap()
}

pub(super) fn put(engine: &Engine, dice: &mut Dice, key: u64) -> RecordId {
    let fields = EpisodePatch {
        summary: Some(dice.words()),
        key: Some(Some(format!("key-{key}"))),
        tags: Some(vec![dice.words()]),
        actor: Some(Some(format!("actor {}", dice.roll(3)))),
        ..EpisodePatch::default()
    };
    let vector = (dice.roll(2) == 0).then(|| vec![dice.roll(9) as f32 - 4.0, 1.0, dice.roll(5) as f32]);
    engine.put(&Wait::default(), Put { fields, vector, ..Put::default() }).unwrap().episode.id
}

pub(super) fn fill(engine: &Engine, seed: u64, count: u64) -> Vec<RecordId> {
    let mut dice = Dice(seed);
    (0..count).map(|key| put(engine, &mut dice, key)).collect()
}

/// Everything that an answer says but how long it took.
pub(super) fn answers(engine: &Engine) -> Vec<String> {
    let mut told = Vec::new();
    for query in ["token rollback", "令牌 锁", "the café", "err-4471", "owner"] {
        for (actor, vector) in [(None, None), (Some("actor 1"), Some(&[0.6, 0.8, 0.0][..]))] {
            let filter = Filter { actor: actor.map(ToOwned::to_owned), ..Filter::default() };
            let ask = Recall { query: Some(query), vector, filter, k: 7, explain: true, ..Recall::default() };
            let report = engine.recall(&ask).unwrap();
            let hits = report.hits.iter().map(|hit| {
                (
                    hit.episode.id,
                    hit.score,
                    hit.relevance,
                    hit.parts.clone(),
                    hit.matched_terms.clone(),
                    hit.explanation.clone(),
                )
            });
            told.push(format!(
                "{:?} {:?} {:?} {:?}",
                hits.collect::<Vec<_>>(),
                report.filters,
                report.considered,
                report.coverage
            ));
        }
    }
    let (page, more) = engine.page(&Filter::default(), true, None, 20).unwrap();
    told.push(format!("{:?} {more:?}", page.iter().map(|e| e.id).collect::<Vec<_>>()));
    let newest = engine.recall(&Recall { k: 9, ..Recall::default() }).unwrap();
    told.push(format!("{:?}", newest.hits.iter().map(|hit| hit.episode.id).collect::<Vec<_>>()));
    told
}

pub(super) fn files(home: &Path) -> Vec<PathBuf> {
    let Ok(shapes) = fs::read_dir(home.join("index")) else { return Vec::new() };
    let files = shapes.flat_map(|shape| fs::read_dir(shape.unwrap().path()).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

pub(super) fn manifests(home: &Path) -> usize {
    files(home).iter().filter(|path| path.extension().is_some_and(|e| e == "json")).count()
}

#[test]
fn a_large_store_is_opened_from_its_index_and_a_small_one_has_none() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    fill(&engine, 1, FLUSH as u64 - 1);
    answers(&engine);
    assert!(files(home.path()).is_empty(), "{:?}", files(home.path()));
    fill(&engine, 2, 3 * FLUSH as u64);
    let told = answers(&engine);
    assert_eq!((manifests(home.path()), engine.verify_index().unwrap()), (1, vec![]));
    let other = open(home.path());
    assert_eq!(answers(&other), told, "from the index");
    let resting = other.served.read().unwrap().members().filter(|member| member.file.is_some()).count();
    assert!(resting > 0 && other.served.read().unwrap().backlog().0 < FLUSH);
    assert_eq!((other.verify_index().unwrap(), other.info().unwrap().notices), (vec![], vec![]));
    for path in files(home.path()) {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(answers(&open(home.path())), told, "from the store");
    let ram = Engine::in_memory(EngineOptions::default()).unwrap();
    fill(&ram, 2, 3 * FLUSH as u64);
    answers(&ram);
    assert!(ram.served.read().unwrap().members().count() > 0, "segments in memory");
    assert_eq!(ram.verify_index().unwrap(), []);
}

#[test]
fn whoever_writes_and_whenever_it_is_looked_the_copy_is_that_of_the_store() {
    for seed in 0..6 {
        let home = tempfile::tempdir().unwrap();
        let mut dice = Dice(seed);
        let mut handles = vec![open(home.path()), open(home.path())];
        let mut ids = Vec::new();
        for step in 0..500 {
            let at = dice.roll(2) as usize;
            let engine = &handles[at];
            match dice.roll(100) {
                0..60 => {
                    let key = dice.roll(150);
                    ids.push(put(engine, &mut dice, key));
                }
                60..75 if !ids.is_empty() => {
                    let id = ids.swap_remove(dice.roll(ids.len() as u64) as usize);
                    engine.forget(&Wait::default(), vec![id]).unwrap();
                }
                75..90 => drop(answers(engine)),
                90..94 => handles[at] = open(home.path()),
                94..96 => drop(engine.compact(&Wait::default(), &mut |_, _| false).unwrap()),
                _ => {
                    let fields =
                        EpisodePatch { actor: Some(Some("changed".into())), ..EpisodePatch::default() };
                    if let Some(id) = ids.last() {
                        let _ = engine.update(&Wait::default(), *id, fields, None);
                    }
                }
            }
            if step % 50 == 49 {
                let told = answers(&handles[0]);
                assert_eq!(told, answers(&handles[1]), "seed {seed} step {step}");
                for engine in &handles {
                    assert_eq!(engine.verify_index().unwrap(), [], "seed {seed} step {step}");
                    assert_eq!(engine.info().unwrap().notices, [""; 0]);
                }
            }
        }
        assert_eq!(manifests(home.path()), 1);
    }
}

#[test]
fn words_of_forgotten_records_are_in_no_file_after_a_compaction() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let mut ids = fill(&engine, 3, 3 * FLUSH as u64);
    let fields = EpisodePatch { summary: Some("zanzibarquux is secret".into()), ..EpisodePatch::default() };
    let secret = engine.put(&Wait::default(), Put { fields, ..Put::default() }).unwrap().episode.id;
    ids.extend(fill(&engine, 4, 2 * FLUSH as u64));
    answers(&engine);
    let holds = || {
        let has = |path: &PathBuf| fs::read(path).unwrap().windows(12).any(|bytes| bytes == b"zanzibarquux");
        files(home.path()).iter().filter(|path| has(path)).count()
    };
    assert!(holds() > 0);
    engine.forget(&Wait::default(), vec![secret]).unwrap();
    engine.compact(&Wait::default(), &mut |_, _| false).unwrap();
    assert_eq!(holds(), 0);
    assert_eq!((engine.verify_index().unwrap(), open(home.path()).verify_index().unwrap()), (vec![], vec![]));
    assert_eq!(files(home.path()).iter().filter(|path| path.to_string_lossy().contains("seg-")).count(), 1);
    engine.forget(&Wait::default(), ids).unwrap();
    engine.compact(&Wait::default(), &mut |_, _| false).unwrap();
    assert!(
        !files(home.path()).iter().any(|path| path.to_string_lossy().contains("seg-")),
        "nothing is left"
    );
}

#[test]
fn who_may_not_write_reads_the_index_and_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    fill(&open(home.path()), 5, 3 * FLUSH as u64);
    let read_only =
        || Engine::open(home.path(), EngineOptions { read_only: true, ..EngineOptions::default() }).unwrap();
    let told = answers(&read_only());
    assert!(files(home.path()).is_empty());
    answers(&open(home.path()));
    let before: Vec<_> = files(home.path())
        .iter()
        .map(|path| (path.clone(), fs::metadata(path).unwrap().modified().unwrap()))
        .collect();
    let engine = read_only();
    assert_eq!(answers(&engine), told);
    assert!(engine.served.read().unwrap().members().all(|member| member.file.is_some()));
    let after: Vec<_> = files(home.path())
        .iter()
        .map(|path| (path.clone(), fs::metadata(path).unwrap().modified().unwrap()))
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_damaged_index_gives_an_answer_or_a_typed_error_and_verify_builds_it_anew() {
    let home = tempfile::tempdir().unwrap();
    {
        let engine = open(home.path());
        fill(&engine, 6, 3 * FLUSH as u64);
        answers(&engine);
    }
    let whole = answers(&open(home.path()));
    let originals: Vec<(PathBuf, Vec<u8>)> =
        files(home.path()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let restore = || {
        for path in files(home.path()) {
            fs::remove_file(path).unwrap();
        }
        for (path, bytes) in &originals {
            fs::write(path, bytes).unwrap();
        }
    };
    let mut dice = Dice(7);
    let images = std::env::var("OTOLITH_INDEX_IMAGES").map_or(150, |count| count.parse().unwrap());
    for image in 0..images {
        restore();
        let (path, bytes) = &originals[dice.roll(originals.len() as u64) as usize];
        if bytes.is_empty() {
            continue;
        }
        let mut bytes = bytes.clone();
        let at = dice.roll(bytes.len() as u64) as usize;
        match dice.roll(4) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << dice.roll(8),
            2 => bytes[at..].iter_mut().take(16).for_each(|byte| *byte = 0xFF),
            _ => bytes[at] = dice.roll(256) as u8,
        }
        // Beside and renamed: another process may have the old one mapped.
        let beside = home.path().join("beside");
        fs::write(&beside, &bytes).unwrap();
        fs::rename(&beside, path).unwrap();
        let engine = open(home.path());
        for query in ["token rollback", "令牌 锁", "err-4471 the"] {
            let filter = Filter { actor: Some("actor 1".into()), ..Filter::default() };
            for filter in [Filter::default(), filter] {
                let ask = Recall {
                    query: Some(query),
                    vector: Some(&[0.6, 0.8, 0.0]),
                    filter,
                    explain: true,
                    ..Recall::default()
                };
                match engine.recall(&ask) {
                    Ok(_) | Err(Error::StoreCorrupt { .. } | Error::Store { .. }) => {}
                    Err(other) => panic!("image {image}, {}: {other}", path.display()),
                }
            }
        }
        let _ = engine.page(&Filter::default(), false, None, 1_000);
        let _ = engine.count(&Filter::default());
        let problems = engine.verify_index().unwrap();
        assert_eq!(engine.verify_index().unwrap(), [], "image {image}: built anew after {problems:?}");
        assert_eq!(answers(&engine), whole, "image {image}, {}", path.display());
        drop(engine);
        assert_eq!(answers(&open(home.path())), whole, "image {image}, {}", path.display());
    }
}

#[test]
fn an_index_of_another_history_is_not_used() {
    let home = tempfile::tempdir().unwrap();
    {
        let engine = open(home.path());
        fill(&engine, 8, 2 * FLUSH as u64);
        answers(&engine);
    }
    let early = fs::read(home.path().join(STORE_FILE)).unwrap();
    {
        let engine = open(home.path());
        fill(&engine, 9, 3 * FLUSH as u64);
        answers(&engine);
    }
    // The store is put back to an earlier state, the index stays.
    fs::write(home.path().join(STORE_FILE), early).unwrap();
    let engine = open(home.path());
    answers(&engine);
    assert_eq!(engine.verify_index().unwrap(), []);
    fill(&engine, 10, 4 * FLUSH as u64);
    answers(&engine);
    assert_eq!(engine.verify_index().unwrap(), []);
    assert_eq!(open(home.path()).verify_index().unwrap(), []);
}

#[test]
fn several_threads_and_handles_at_once_end_in_one_whole_index() {
    let home = tempfile::tempdir().unwrap();
    let handles: Vec<Engine> = (0..3).map(|_| open(home.path())).collect();
    std::thread::scope(|scope| {
        for (number, engine) in handles.iter().enumerate() {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut dice = Dice((number * 2 + thread) as u64);
                    for step in 0..120 {
                        let key = dice.roll(300);
                        put(engine, &mut dice, key);
                        if step % 7 == 0 {
                            engine
                                .recall(&Recall { query: Some("token pool"), ..Recall::default() })
                                .unwrap();
                        }
                        if step == 60 && thread == 0 {
                            engine.compact_index(&Wait::default()).unwrap();
                        }
                    }
                });
            }
        }
    });
    let told = answers(&handles[0]);
    for engine in &handles {
        assert_eq!(answers(engine), told);
        assert_eq!((engine.verify_index().unwrap(), engine.info().unwrap().notices), (vec![], vec![]));
    }
    assert_eq!((manifests(home.path()), open(home.path()).verify_index().unwrap()), (1, vec![]));
}
