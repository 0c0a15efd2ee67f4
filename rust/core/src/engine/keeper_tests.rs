//! Handles that fell far behind, damage under open handles, and several that look after one index.

use super::catching_up::BULK;
use super::upkeep::FLUSH;
use super::upkeep_tests::{Dice, answers, files, fill, manifests, open, put};
use super::*;
use std::fs;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Instant;

/// Many new records, some changed and some forgotten ones.
fn much(engine: &Engine, seed: u64) {
    let mut dice = Dice(seed);
    let mut ids = Vec::new();
    for _ in 0..3 * BULK as u64 {
        let key = dice.roll(4 * BULK as u64);
        ids.push(put(engine, &mut dice, key));
    }
    ids.truncate(BULK);
    engine.forget(&Wait::default(), ids).unwrap();
}

fn backlog(engine: &Engine) -> usize {
    engine.served.read().unwrap().backlog().0
}

#[test]
fn a_copy_that_fell_far_behind_gets_segments_that_the_next_one_maps() {
    let home = tempfile::tempdir().unwrap();
    let (behind, writer) = (open(home.path()), open(home.path()));
    fill(&writer, 1, 12 * FLUSH as u64);
    answers(&behind);
    for round in 0..3 {
        much(&writer, 20 + round);
        let number = behind.served.read().unwrap().number();
        drop(behind.current().unwrap());
        assert_eq!(backlog(&behind), 0, "nothing went through memory");
        assert!(behind.served.read().unwrap().number() > number);
        assert!(behind.served.read().unwrap().members().all(|member| member.file.is_some()));
        let told = answers(&behind);
        assert!(same(&open(home.path()), &told));
        assert!(same(&writer, &told));
        for engine in [&behind, &writer] {
            assert_eq!((engine.verify_index().unwrap(), engine.info().unwrap().notices), (vec![], vec![]));
        }
    }
    // A handle that is opened finds a manifest that is far behind.
    much(&writer, 30);
    let opened = open(home.path());
    drop(opened.current().unwrap());
    assert_eq!(backlog(&opened), 0);
    assert_eq!((opened.verify_index().unwrap(), answers(&opened)), (vec![], answers(&behind)));
    assert_eq!(manifests(home.path()), 1);
}

#[test]
fn while_another_is_at_work_in_the_directory_a_copy_catches_up_in_memory() {
    let home = tempfile::tempdir().unwrap();
    let (behind, writer) = (open(home.path()), open(home.path()));
    fill(&writer, 2, 12 * FLUSH as u64);
    answers(&behind);
    much(&writer, 40);
    let before = files(home.path());
    let turn = writer.upkeep.directory.as_ref().unwrap().lock().unwrap().unwrap();
    drop(behind.current().unwrap());
    assert!(behind.served.read().unwrap().members().any(|member| member.file.is_none()));
    assert_eq!((backlog(&behind), files(home.path())), (0, before));
    drop(turn);
    put(&writer, &mut Dice(41), 0);
    assert_eq!((answers(&behind), behind.verify_index().unwrap()), (answers(&writer), vec![]));
    // By the call, or by the thread if the handle is old enough for one by now.
    let filed = || behind.served.read().unwrap().members().all(|member| member.file.is_some());
    let start = Instant::now();
    while !filed() {
        assert!(start.elapsed() < Duration::from_mins(1), "not filed since");
        std::thread::sleep(Duration::from_millis(50));
        answers(&behind);
    }
}

#[test]
fn who_waits_takes_over_what_the_other_made() {
    let home = tempfile::tempdir().unwrap();
    let handles = [open(home.path()), open(home.path()), open(home.path())];
    fill(&handles[0], 3, 12 * FLUSH as u64);
    for engine in &handles {
        answers(engine);
    }
    much(&handles[0], 50);
    let number = handles[0].served.read().unwrap().number();
    std::thread::scope(|scope| {
        for engine in &handles {
            scope.spawn(|| drop(engine.current().unwrap()));
        }
    });
    let told = answers(&open(home.path()));
    for engine in &handles {
        assert_eq!((answers(engine), engine.verify_index().unwrap()), (told.clone(), vec![]));
        assert!(engine.served.read().unwrap().number() > number);
    }
    assert_eq!(manifests(home.path()), 1);
}

#[test]
fn a_handle_of_another_embedder_catches_up_without_vectors_that_are_not_its_own() {
    let home = tempfile::tempdir().unwrap();
    let writer = open(home.path());
    fill(&writer, 4, 12 * FLUSH as u64);
    answers(&writer);
    let options = || EngineOptions { embedder: Some("another".into()), ..EngineOptions::default() };
    let other = Engine::open(home.path(), options()).unwrap();
    let before = files(home.path());
    assert_eq!(other.coverage().unwrap().vectorized, 0);
    for seed in [60, 61] {
        much(&writer, seed);
        assert_eq!(other.coverage().unwrap().vectorized, 0);
        fill(&writer, seed, 9 * FLUSH as u64);
        assert_eq!(other.coverage().unwrap().vectorized, 0);
        assert_eq!((other.verify_index().unwrap(), other.info().unwrap().notices), (vec![], vec![]));
    }
    assert_eq!(files(home.path()), before, "the index is left to those with the home's embedder");
}

/// What is told of both is the same; without printing all of it if it is not.
fn same(engine: &Engine, told: &[String]) -> bool {
    answers(engine) == told
}

/// Turns bytes of every segment over, in place: whoever has it mapped sees it.
fn damage(home: &Path) {
    let segments = files(home).into_iter().filter(|path| path.to_string_lossy().contains("seg-"));
    for path in segments {
        let mut bytes = fs::read(&path).unwrap();
        let (start, end) = (bytes.len() / 4, bytes.len() * 3 / 4);
        bytes[start..end].iter_mut().step_by(7).for_each(|byte| *byte ^= 0x55);
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(start as u64)).unwrap();
        file.write_all(&bytes[start..end]).unwrap();
    }
}

/// Asks until the handle has looked at its segments and found as much as `done` wants.
fn ask_until(engine: &Engine, done: impl Fn(IndexInfo) -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !done(engine.info().unwrap().index) {
        assert!(Instant::now() < until, "{:?}", engine.info());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn damage_under_open_handles_is_found_and_built_anew_without_opening_again() {
    let home = tempfile::tempdir().unwrap();
    let one = open(home.path());
    fill(&one, 5, 6 * FLUSH as u64);
    let told = answers(&one);
    let two = open(home.path());
    let reader =
        Engine::open(home.path(), EngineOptions { read_only: true, ..EngineOptions::default() }).unwrap();
    assert_eq!((answers(&two), answers(&reader)), (told.clone(), told.clone()));
    one.upkeep.watch.settle();
    ask_until(&one, |index| index.checked >= index.segments as u64);
    assert_eq!(one.info().unwrap().index.damaged, 0);
    let old = files(home.path());
    damage(home.path());
    // Nobody looks again at what was found whole today: the handle is made to.
    one.keeper.stop();
    fs::remove_file(one.upkeep.directory.as_ref().unwrap().path().join("checked")).unwrap();
    one.upkeep.watch.forget();
    one.upkeep.watch.settle();
    ask_until(&one, |index| index.damaged > 0);
    assert!(same(&one, &told));
    let notices = one.info().unwrap().notices;
    assert!(
        notices.iter().any(|notice| notice.contains("damaged") && notice.contains("seg-")),
        "{notices:?}"
    );
    for engine in [&two, &reader] {
        engine.upkeep.watch.settle();
        ask_until(engine, |index| index.damaged > 0);
        assert!(same(engine, &told));
    }
    assert_eq!(manifests(home.path()), 1);
    assert!(
        !files(home.path()).iter().any(|path| path.to_string_lossy().contains("seg-") && old.contains(path))
    );
    for engine in [&one, &two, &open(home.path())] {
        assert_eq!((engine.verify_index().unwrap(), answers(engine)), (vec![], told.clone()));
    }
    assert_eq!(open(home.path()).info().unwrap().notices, [""; 0]);
}

#[test]
fn a_segment_that_one_process_compared_is_not_compared_by_the_next() {
    let home = tempfile::tempdir().unwrap();
    let one = open(home.path());
    fill(&one, 6, 3 * FLUSH as u64);
    answers(&one);
    one.upkeep.watch.settle();
    ask_until(&one, |index| index.checked > 0);
    one.keeper.stop();
    // A handle may still merge what it finds, or find the directory in use when it wants to note what it compared; the
    // next one has nothing left to compare then.
    let compares = |_| {
        let next = open(home.path());
        next.upkeep.watch.settle();
        answers(&next);
        next.keeper.stop();
        next.info().unwrap().index.checked > 0
    };
    assert!(!(0..5).all(compares), "five handles in a row compared what the one before had compared");
}

#[test]
fn a_handle_that_is_old_leaves_segments_to_its_thread_and_ends_with_all_of_them_made() {
    let home = tempfile::tempdir().unwrap();
    let told = {
        let engine = open(home.path());
        engine.upkeep.watch.settle();
        let mut dice = Dice(7);
        for key in 0..20 * FLUSH as u64 {
            put(&engine, &mut dice, key);
            if key % 5 == 0 {
                drop(engine.served().unwrap());
            }
        }
        let told = answers(&engine);
        assert_eq!((engine.verify_index().unwrap(), engine.info().unwrap().notices), (vec![], vec![]));
        told
    };
    assert_eq!(manifests(home.path()), 1);
    let engine = open(home.path());
    drop(engine.current().unwrap());
    assert!(backlog(&engine) < FLUSH);
    assert!(same(&engine, &told));
}

#[test]
fn of_two_that_compact_at_once_one_does_it_and_the_other_goes_on_with_what_it_made() {
    let home = tempfile::tempdir().unwrap();
    let handles = [open(home.path()), open(home.path())];
    for seed in 0..3 {
        let mut dice = Dice(seed);
        for key in 0..FLUSH as u64 + 9 {
            put(&handles[0], &mut dice, 100 * seed + key);
        }
        answers(&handles[0]);
    }
    let told = answers(&handles[0]);
    assert!(same(&handles[1], &told));
    let segments = |home: &Path| -> Vec<PathBuf> {
        files(home).into_iter().filter(|path| path.to_string_lossy().contains("seg-")).collect()
    };
    assert!(segments(home.path()).len() > 1);
    let done = std::thread::scope(|scope| {
        let compact = |engine| scope.spawn(move || Engine::compact_index(engine, &Wait::default()).unwrap());
        let at_once = [compact(&handles[0]), compact(&handles[1])];
        at_once.map(|thread| thread.join().unwrap())
    });
    assert!(done.iter().all(Option::is_some), "either way no forgotten word is left: {done:?}");
    let made = segments(home.path());
    assert_eq!((made.len(), manifests(home.path())), (1, 1));
    for engine in &handles {
        assert!(same(engine, &told));
        let served = engine.served.read().unwrap();
        let mapped: Vec<&str> =
            served.members().map(|member| member.file.as_ref().unwrap().name.as_str()).collect();
        assert!(made[0].ends_with(mapped[0]) && mapped.len() == 1, "{mapped:?} for {made:?}");
    }
}
