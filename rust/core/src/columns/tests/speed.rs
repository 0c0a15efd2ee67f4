//! Sizes and times of a hundred thousand records; run with `--release -- --ignored --nocapture columns`.

use super::*;
use std::io::Write;
use std::time::Instant;

const RECORDS: u64 = 100_000;

/// A record as agents write them: people, sessions, directories, a few tags, a run.
///
/// `hard`: the times are in no order, and each has a key of its own.
fn typical(n: u64, hard: bool) -> Episode {
    let mix = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let mut e = blank(n);
    let minutes = if hard { mix % RECORDS } else { n + mix % 50 };
    e.key = hard.then(|| format!("import:notes:{mix:016x}"));
    e.occurred_at = Moment::utc(1_700_000_000_000_000 + minutes.cast_signed() * 60_000_000);
    e.scope = pick(&["", "team/app", "team/web", "team/app/ios"], mix as u8).parse().unwrap();
    e.user_id = Some(format!("user-{}", mix % 5));
    e.agent_id = Some(format!("agent-{}", mix % 11));
    e.session_id = Some(format!("session-2026-{:05}", n / 50));
    e.task_id = mix.is_multiple_of(3).then(|| format!("task-{}", mix % 5_000));
    e.working_dir = Some(format!("/home/user/src/project-{}/crate-{}", mix % 20, mix % 3));
    e.actor = Some(format!("actor {}", mix % 12));
    e.outcome = mix.is_multiple_of(2).then_some(Outcome::Success);
    e.tags = (0..mix % 4).map(|t| format!("tag-{}", (mix >> (8 + t)) % 200)).collect();
    e.metadata.insert("run".into(), MetaValue::Int((mix % 1_000).cast_signed()));
    e.metadata.insert("model".into(), MetaValue::Str(format!("model-{}", mix % 4)));
    e
}

/// Tenth and median of the time of a call, in microseconds.
fn time<T>(mut call: impl FnMut() -> T) -> (f64, f64) {
    let mut micros: Vec<f64> = (0..301)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(call());
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    (micros[30], micros[150])
}

#[test]
#[ignore = "a measurement of release builds"]
fn speed_and_size() {
    let mut out = std::io::stderr().lock();
    let root = Scope::root();
    for hard in [false, true] {
        let episodes: Vec<Episode> = (0..RECORDS).map(|n| typical(n, hard)).collect();
        let mut states = vec![1; episodes.len()];
        states[7] = 0;
        let start = Instant::now();
        let bytes = file(built(&episodes, &states));
        let took = start.elapsed();
        let mut disk = tempfile::NamedTempFile::new().unwrap();
        disk.write_all(&bytes).unwrap();
        writeln!(out, "hard: {hard}; built in {took:?}, {} bytes", bytes.len()).unwrap();
        let mut say = |what: &str, (p10, p50): (f64, f64)| {
            writeln!(out, "{what:38} p10 {p10:8.1} µs   p50 {p50:8.1} µs").unwrap();
        };
        say("open the file and the columns", time(|| Columns::open(&Sections::open(disk.path()).unwrap())));
        let columns = Columns::open(&Sections::open(disk.path()).unwrap()).unwrap();
        let median = Moment::utc(1_700_000_000_000_000 + RECORDS.cast_signed() / 2 * 60_000_000);
        let text = |text: &str| Some(text.to_owned());
        let wanted = [
            ("no condition", Filter::default()),
            (
                "ids (10)",
                Filter {
                    ids: Some(episodes.iter().step_by(10_000).map(|e| e.id).collect()),
                    ..Filter::default()
                },
            ),
            ("key (4 bytes)", Filter { key: episodes[7].key.clone(), ..Filter::default() }),
            ("user_id (1 byte)", Filter { user_id: text("user-3"), ..Filter::default() }),
            ("session_id (2 bytes)", Filter { session_id: text("session-2026-01000"), ..Filter::default() }),
            ("scope", Filter { scope: Some("team/app".parse().unwrap()), ..Filter::default() }),
            (
                "working_dir below",
                Filter { working_dir: text("/home/user/src"), below: true, ..Filter::default() },
            ),
            ("tags (one)", Filter { tags: vec!["tag-3".into()], ..Filter::default() }),
            ("since", Filter { since: Some(median), ..Filter::default() }),
            (
                "metadata (500 of them)",
                Filter { metadata: [("run".into(), MetaValue::Float(7.0))].into(), ..Filter::default() },
            ),
            (
                "metadata (a fourth)",
                Filter {
                    metadata: [("model".into(), MetaValue::Str("model-1".into()))].into(),
                    ..Filter::default()
                },
            ),
            (
                "five: user session dir since meta",
                Filter {
                    user_id: text("user-3"),
                    session_id: text("session-2026-01000"),
                    working_dir: text("/home/user/src"),
                    below: true,
                    since: Some(median),
                    metadata: [("model".into(), MetaValue::Str("model-1".into()))].into(),
                    ..Filter::default()
                },
            ),
        ];
        for (what, filter) in &wanted {
            say(what, time(|| columns.select(filter, &root, None)));
        }
        let scope: Scope = "team".parse().unwrap();
        say("five, in a scope", time(|| columns.select(&wanted[11].1, &scope, None)));
        say(
            "the five on the records",
            time(|| {
                let conditions = wanted[11].1.conditions();
                episodes.iter().filter(|e| conditions.iter().fold(true, |all, c| all & c.holds(e))).count()
            }),
        );
        let all = columns.select(&Filter::default(), &root, None).docs;
        let some = columns.select(&wanted[3].1, &root, None).docs;
        say("10 newest of all", time(|| columns.newest(&all, 10)));
        say("10 newest of a fifth", time(|| columns.newest(&some, 10)));
        say("1,000 newest of all", time(|| columns.newest(&all, 1_000)));
        say("a page of 50 at the end", time(|| columns.between(None, None, &some).rev().take(50).count()));
        say("vector states of all", time(|| columns.vector_states(&root, None)));
        say("vector states of a scope", time(|| columns.vector_states(&scope, None)));
        let dead =
            columns.select(&Filter { tags: vec!["tag-3".into()], ..Filter::default() }, &root, None).docs;
        say("vector states, some tombstones", time(|| columns.vector_states(&root, Some(&dead))));
        let look_up: Vec<RecordId> = episodes.iter().step_by(97).map(|e| e.id).collect();
        say("look-up of 1,031 ids", time(|| look_up.iter().filter_map(|id| columns.doc_of(*id)).count()));
        let order: Vec<(usize, DocId)> = (0..RECORDS as u32).map(|doc| (0, DocId(doc))).collect();
        let start = Instant::now();
        let merged = file(merge(&[&columns], &order).unwrap());
        writeln!(out, "merged in {:?}", start.elapsed()).unwrap();
        assert!(merged == bytes);
        for (name, size) in columns.sections.sizes().filter(|(_, size)| *size > 1_000) {
            writeln!(out, "  {name} {size}").unwrap();
        }
    }
}
