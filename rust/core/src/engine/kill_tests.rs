//! Processes that write and take care of the index are killed at any moment: the next one finds an index that is the one
//! the store gives.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::upkeep_tests::{Dice, answers, open};
use super::*;
use crate::episode::EpisodePatch;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::{env, fs, thread};

const HOME: &str = "OTOLITH_INDEX_KILLED_HOME";
const SEED: &str = "OTOLITH_INDEX_KILLED_SEED";
/// Processes that are at it together.
const TOGETHER: u64 = 2;

#[test]
#[ignore = "runs in the processes that are killed"]
fn works_until_it_is_killed() {
    let Ok(home) = env::var(HOME) else { return };
    let mut dice = Dice(env::var(SEED).unwrap().parse().unwrap());
    // Without waiting for the disk at each write more of the time goes into the index.
    let durability = if dice.roll(3) == 0 { Durability::Full } else { Durability::Batched };
    let options = EngineOptions { durability, ..EngineOptions::default() };
    let engine = Engine::open(Path::new(&home), options).unwrap();
    if dice.roll(2) == 0 {
        // Flushes and merges are done by the thread then.
        engine.upkeep.watch.settle();
    }
    writeln!(std::io::stderr(), "ready").unwrap();
    for round in 1.. {
        let put = |dice: &mut Dice| {
            let fields = EpisodePatch {
                summary: Some(dice.words()),
                key: Some(Some(format!("key-{}", dice.roll(900)))),
                ..EpisodePatch::default()
            };
            let vector = (dice.roll(2) == 0).then(|| vec![dice.roll(9) as f32 - 4.0, 1.0, 0.5]);
            Put { fields, vector, ..Put::default() }
        };
        // Now and then so many that the others catch up in bulk.
        let count = if dice.roll(6) == 0 { 150 } else { 25 };
        let puts = (0..count).map(|_| put(&mut dice)).collect();
        let written = engine.put_many(&Wait::default(), puts).unwrap();
        let doomed = written.into_iter().take(5).map(|one| one.unwrap().episode.id).collect();
        engine.forget(&Wait::default(), doomed).unwrap();
        engine.recall(&Recall { query: Some("token pool"), ..Recall::default() }).unwrap();
        if round % 4 == 0 {
            engine.compact_index(&Wait::default()).unwrap();
        }
    }
}

fn start(home: &Path, seed: u64) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "engine::kill_tests::works_until_it_is_killed"])
        .env(HOME, home)
        .env(SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "seed {seed} ended");
    // What it may say later has a place to go to: a full pipe would stop it.
    thread::spawn(move || lines.for_each(drop));
    child
}

/// `OTOLITH_INDEX_KILLS=200` for the published figure.
#[test]
fn processes_killed_while_they_change_the_index_leave_the_state_before_or_after() {
    let home = tempfile::tempdir().unwrap();
    let kills = env::var("OTOLITH_INDEX_KILLS").map_or(8, |count| count.parse().unwrap());
    let mut dice = Dice(11);
    let (mut killed, mut drafts, mut unnamed, mut unfinished) = (0, 0, 0, 0);
    while killed < kills {
        let children: Vec<Child> = (0..TOGETHER).map(|n| start(home.path(), killed * 10 + n)).collect();
        thread::sleep(Duration::from_millis(20 + dice.roll(400)));
        for mut child in children {
            assert!(child.try_wait().unwrap().is_none(), "after {killed} kills: it ended by itself");
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
        }
        let left = left_over(home.path());
        drafts += usize::from(left.0 > 0);
        unnamed += usize::from(left.1 > 0);
        unfinished += usize::from(left != (0, 0));
        let engine = open(home.path());
        let told = answers(&engine);
        assert!(engine.verify_index().unwrap().is_empty(), "after {killed} kills");
        assert!(engine.info().unwrap().notices.is_empty(), "{:?}", engine.info().unwrap().notices);
        drop(engine);
        let (index, away) = (home.path().join("index"), home.path().join("away"));
        fs::rename(&index, &away).unwrap();
        let reads = EngineOptions { read_only: true, ..EngineOptions::default() };
        let fresh = answers(&Engine::open(home.path(), reads).unwrap());
        fs::rename(&away, &index).unwrap();
        assert!(told == fresh, "after {killed} kills: other answers than those of an index built anew");
    }
    writeln!(
        std::io::stderr(),
        "{killed} kills; index files unfinished after {unfinished} of {} rounds: a file half written {drafts}, one \
         that no manifest named {unnamed}",
        killed / TOGETHER
    )
    .unwrap();
}

/// Files half written, and segments and manifests that the newest manifest does not count.
fn left_over(home: &Path) -> (usize, usize) {
    let names: Vec<String> = super::upkeep_tests::files(home)
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let drafts = names.iter().filter(|name| name.starts_with('.')).count();
    let newest = names.iter().filter(|name| name.starts_with("manifest-")).max();
    let text = super::upkeep_tests::files(home)
        .iter()
        .find(|path| newest.is_some_and(|newest| path.ends_with(newest)))
        .map_or_else(String::new, |path| fs::read_to_string(path).unwrap());
    let unnamed =
        names.iter().filter(|name| name.starts_with("seg-") && !text.contains(name.as_str())).count();
    let old = names.iter().filter(|name| name.starts_with("manifest-") && Some(*name) != newest).count();
    (drafts, unnamed + old)
}
