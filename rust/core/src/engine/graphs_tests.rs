//! Graphs over the vectors of segments: who builds them, what a kill leaves, what damage does.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::upkeep_tests::{Dice, open};
use super::watch::Work;
use super::*;
use crate::episode::EpisodePatch;
use crate::ids::RecordId;
use crate::index::disk::Loaded;
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

const ROWS: u64 = 900;
const WIDTH: u64 = 12;

fn vector(dice: &mut Dice) -> Vec<f32> {
    (0..WIDTH).map(|_| dice.roll(201) as f32 - 100.3).collect()
}

/// Writes records with vectors; a twentieth of them have the vector of an earlier one.
fn fill(engine: &Engine, dice: &mut Dice, count: u64) -> Vec<RecordId> {
    let mut last = vector(dice);
    let puts = (0..count).map(|_| {
        if dice.roll(20) > 0 {
            last = vector(dice);
        }
        let fields = EpisodePatch { summary: Some(dice.words()), ..EpisodePatch::default() };
        Put { fields, vector: Some(last.clone()), ..Put::default() }
    });
    let written = engine.put_many(&Wait::default(), puts.collect()).unwrap();
    written.into_iter().map(|one| one.unwrap().episode.id).collect()
}

fn near(engine: &Engine, vector: &[f32]) -> Report {
    engine.recall(&Recall { vector: Some(vector), ..Recall::default() }).unwrap()
}

/// The ids of the ten nearest, and how many vectors were walked over rather than compared.
fn nearest(engine: &Engine, vector: &[f32]) -> (Vec<RecordId>, usize) {
    let hits = near(engine, vector).hits.iter().map(|hit| hit.episode.id).collect();
    (hits, walked(engine, vector))
}

fn walked(engine: &Engine, vector: &[f32]) -> usize {
    let served = engine.served().unwrap();
    let row = crate::vector::UnitRow::new(vector, None).unwrap();
    served.index().unwrap().vectors().look(&row, 10, None, super::graphs::effort()).unwrap().walked
}

fn files(engine: &Engine, prefix: &str) -> Vec<PathBuf> {
    let directory = engine.upkeep.directory.as_ref().unwrap().path();
    let mut found: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix));
    found
}

fn compact(engine: &Engine, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<()> {
    engine.made_and_compacted(&Wait::default())?;
    engine.build_graphs(&Wait::default(), progress)
}

/// Share of the ten nearest by every vector that are found.
fn recall(engine: &Engine, dice: &mut Dice) -> f64 {
    let fresh = served::build(&engine.store, &engine.analyzer, None).unwrap();
    let (mut found, mut all) = (0, 0);
    for _ in 0..40 {
        let query = vector(dice);
        let row = crate::vector::UnitRow::new(&query, None).unwrap();
        let exact = fresh.index().unwrap().vectors().nearest(&row, 10, None).unwrap();
        let own = nearest(engine, &query).0;
        all += exact.len();
        found += exact.iter().filter(|(doc, _)| own.contains(&fresh.id(*doc).unwrap())).count();
    }
    found as f64 / all as f64
}

#[test]
fn compaction_builds_a_graph_that_every_process_walks_on_and_a_write_does_not_wait_for() {
    let home = tempfile::tempdir().unwrap();
    let (engine, other) = (open(home.path()), open(home.path()));
    let mut dice = Dice(7);
    let ids = fill(&engine, &mut dice, ROWS);
    assert_eq!(walked(&other, &vector(&mut dice)), 0);
    compact(&engine, &mut |_, _| false).unwrap();
    assert_eq!((files(&engine, "graph-").len(), files(&engine, "begun-").len()), (1, 0));
    let query = vector(&mut dice);
    assert_eq!(walked(&engine, &query), ROWS as usize);
    assert!(recall(&engine, &mut dice) >= 0.97);
    // A handle that is open walks on it when its thread looks the next time.
    assert_eq!(walked(&other, &query), 0);
    other.keep(&Arc::default());
    assert_eq!(walked(&other, &query), ROWS as usize);
    let third = open(home.path());
    assert_eq!(nearest(&third, &query), nearest(&engine, &query));
    // What is written now is compared, what is forgotten is not found.
    let new = fill(&engine, &mut dice, 1)[0];
    let own = near(&engine, &engine.get(new).map(|_| query.clone()).unwrap());
    assert!(own.hits.len() == 10);
    let best = nearest(&other, &query).0[0];
    engine.forget(&Wait::default(), vec![best]).unwrap();
    assert!(!nearest(&engine, &query).0.contains(&best) && !nearest(&third, &query).0.contains(&best));
    assert!(ids.contains(&best) || best == new);
    // Another compaction has another segment: the old graph goes with it.
    compact(&engine, &mut |_, _| false).unwrap();
    assert_eq!(files(&engine, "graph-").len(), 1);
    assert_eq!(walked(&engine, &query), ROWS as usize);
    assert!(recall(&third, &mut dice) >= 0.97);
    assert_eq!(engine.verify_index().unwrap(), []);
}

#[test]
fn a_graph_that_was_begun_is_gone_on_with_and_ends_in_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let mut dice = Dice(11);
    // More than the seed of a graph, which is built as a whole.
    let rows = 2_600;
    fill(&engine, &mut dice, rows);
    let (calls, furthest) = (Cell::new(0), Cell::new(0));
    let mut interruptions = 0;
    drop(engine.served().unwrap());
    // The segment stays the same one.
    engine.compact_index(&Wait::default()).unwrap();
    loop {
        calls.set(0);
        let from = furthest.get();
        let done = engine.build_graphs(&Wait::default(), &mut |done, all| {
            assert!(done >= from && all == rows, "{done} after {from}");
            furthest.set(done);
            calls.set(calls.get() + 1);
            calls.get() == 2
        });
        match done {
            Err(Error::Interrupted) => interruptions += 1,
            done => break done.unwrap(),
        }
        assert_eq!((files(&engine, "begun-").len(), files(&engine, "graph-").len()), (1, 0));
    }
    assert!(interruptions > 3, "{interruptions}");
    let at_once = fs::read(&files(&engine, "graph-")[0]).unwrap();
    let path = files(&engine, "graph-").remove(0);
    // Without it the next one begins anew.
    fs::remove_file(&path).unwrap();
    let fresh = open(home.path());
    drop(fresh.served().unwrap());
    compact(&fresh, &mut |_, _| false).unwrap();
    assert_eq!(fs::read(&files(&fresh, "graph-")[0]).unwrap(), at_once);
}

#[test]
fn the_thread_of_a_handle_builds_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let mut dice = Dice(13);
    fill(&engine, &mut dice, ROWS);
    drop(engine.served().unwrap());
    engine.upkeep.watch.settle();
    let start = std::time::Instant::now();
    while walked(&engine, &vector(&mut dice)) < ROWS as usize / 2 {
        engine.call_keeper();
        assert!(start.elapsed().as_secs() < 60, "{:?}", engine.upkeep.notices());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(recall(&engine, &mut dice) >= 0.97);
    assert_eq!(engine.upkeep.notices(), [] as [String; 0]);
}

#[test]
fn a_damaged_graph_costs_ranking_at_most_and_is_built_anew() {
    let home = tempfile::tempdir().unwrap();
    let mut dice = Dice(17);
    let engine = open(home.path());
    fill(&engine, &mut dice, ROWS);
    compact(&engine, &mut |_, _| false).unwrap();
    let path = files(&engine, "graph-").remove(0);
    engine.close().unwrap();
    let whole = fs::read(&path).unwrap();
    for round in 0..60 {
        let mut bytes = whole.clone();
        let at = dice.roll(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << dice.roll(8);
        if round % 10 == 0 {
            bytes.truncate(at);
        }
        // In a file of its own: others may have the old one mapped.
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        let engine = open(home.path());
        for _ in 0..3 {
            let report = near(&engine, &vector(&mut dice));
            assert_eq!(report.hits.len(), 10, "round {round}");
        }
    }
    let engine = open(home.path());
    drop(engine.served().unwrap());
    let problems = engine.verify_index().unwrap();
    assert!(problems.len() <= 1, "{problems:?}");
    compact(&engine, &mut |_, _| false).unwrap();
    assert_eq!(engine.verify_index().unwrap(), []);
    assert!(recall(&engine, &mut dice) >= 0.97 && walked(&engine, &vector(&mut dice)) > 0);
    let Loaded { graphs, .. } = engine.upkeep.directory.as_ref().unwrap().load().unwrap().unwrap();
    assert!(graphs[0].as_ref().unwrap().check_all().is_ok());
}

#[test]
fn a_graph_that_cannot_be_written_is_not_built_again_at_once() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let mut dice = Dice(19);
    // More than the seed of a graph: what is done is written in between.
    fill(&engine, &mut dice, 2_600);
    drop(engine.served().unwrap());
    engine.compact_index(&Wait::default()).unwrap();
    let segment = files(&engine, "seg-").remove(0);
    let name = segment.file_name().unwrap().to_string_lossy().into_owned();
    // No file can take the place of a directory, as none can be written to a disk that is full.
    let obstacle = segment.with_file_name(format!("begun-{name}"));
    fs::create_dir_all(obstacle.join("full")).unwrap();
    let stop = Arc::default();
    let start = std::time::Instant::now();
    engine.keep(&stop);
    let spent = start.elapsed();
    let notices = engine.upkeep.notices();
    assert!(notices.iter().any(|notice| notice.contains("begun-")), "{notices:?}");
    assert!(engine.upkeep.watch.rests(Work::Graphs));
    fs::remove_dir_all(&obstacle).unwrap();
    let mut calls = 0;
    while files(&engine, "graph-").is_empty() {
        engine.keep(&stop);
        calls += 1;
        assert!(start.elapsed() < 60 * spent + Duration::from_secs(30), "never built");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(calls > 1 && start.elapsed() > 2 * spent, "{calls} calls");
    assert!(!engine.upkeep.watch.rests(Work::Graphs));
}

#[test]
fn a_graph_waits_for_who_is_at_work_in_the_directory_only_as_long_as_it_may() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    let mut dice = Dice(23);
    fill(&engine, &mut dice, ROWS);
    drop(engine.served().unwrap());
    engine.compact_index(&Wait::default()).unwrap();
    let wait = Wait { deadline: Duration::from_millis(200), interrupted: None };
    let turn = engine.upkeep.directory.as_ref().unwrap().lock().unwrap().unwrap();
    let refused = engine.build_graphs(&wait, &mut |_, _| false).unwrap_err();
    assert!(refused.to_string().contains("kept aside: repeat"), "{refused}");
    assert_eq!((files(&engine, "begun-").len(), files(&engine, "graph-").len()), (1, 0));
    drop(turn);
    engine
        .build_graphs(&wait, &mut |done, all| {
            assert_eq!(done, all, "nothing is built again");
            false
        })
        .unwrap();
    assert_eq!((files(&engine, "begun-").len(), files(&engine, "graph-").len()), (0, 1));
    assert_eq!(walked(&engine, &vector(&mut dice)), ROWS as usize);
}

/// One segment with a graph, and nobody who has it open.
fn home_with_graph(seed: u64) -> (tempfile::TempDir, Vec<PathBuf>, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    fill(&engine, &mut Dice(seed), ROWS);
    compact(&engine, &mut |_, _| false).unwrap();
    let (segments, graph) = (files(&engine, "seg-"), files(&engine, "graph-").remove(0));
    engine.close().unwrap();
    (home, segments, graph)
}

#[test]
fn a_graph_that_is_gone_or_cannot_be_opened_is_built_anew_and_its_segment_is_not() {
    for cut in [None, Some(100), Some(0)] {
        let (home, segments, graph) = home_with_graph(29);
        let whole = fs::read(&graph).unwrap();
        fs::remove_file(&graph).unwrap();
        if let Some(cut) = cut {
            fs::write(&graph, &whole[..cut]).unwrap();
        }
        let engine = open(home.path());
        assert_eq!(walked(&engine, &vector(&mut Dice(5))), 0);
        let notices = engine.upkeep.notices();
        assert!(notices.len() == 1 && notices[0].contains("graph-"), "{notices:?}");
        engine.keep(&Arc::default());
        assert_eq!(walked(&engine, &vector(&mut Dice(5))), ROWS as usize);
        assert_eq!(files(&engine, "seg-"), segments);
        assert_eq!((files(&engine, "graph-").len(), engine.verify_index().unwrap()), (1, vec![]));
    }
}

#[test]
fn damage_inside_a_graph_costs_the_graph_and_not_the_index() {
    for by_thread in [true, false] {
        let (home, segments, graph) = home_with_graph(31);
        let mut bytes = fs::read(&graph).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::remove_file(&graph).unwrap();
        fs::write(&graph, &bytes).unwrap();
        let engine = open(home.path());
        drop(engine.served().unwrap());
        if by_thread {
            fs::remove_file(graph.with_file_name("checked")).ok();
            engine.look(&AtomicBool::new(false)).unwrap();
            let notices = engine.upkeep.notices();
            assert!(
                notices.iter().any(|notice| notice.contains("a graph of the index is damaged")),
                "{notices:?}"
            );
        } else {
            let problems = engine.verify_index().unwrap();
            assert!(problems.len() == 1 && problems[0].detail.contains("otolith compact"), "{problems:?}");
        }
        assert_eq!((files(&engine, "seg-"), files(&engine, "graph-").len()), (segments.clone(), 0));
        assert_eq!(walked(&engine, &vector(&mut Dice(5))), 0);
        engine.keep(&Arc::default());
        assert_eq!((files(&engine, "seg-"), files(&engine, "graph-").len()), (segments, 1));
        assert_eq!(walked(&engine, &vector(&mut Dice(5))), ROWS as usize);
        assert_eq!(engine.verify_index().unwrap(), []);
    }
}
