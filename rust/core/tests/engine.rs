//! The engine through its public API: one home, several handles, any order of calls.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

use otolith_core::text::{Analyzer, Expansion, Synonyms};
use otolith_core::{
    Engine, EngineOptions, EpisodePatch, Error, Filter, Fusion, Legs, ManualClock, MetaValue, Moment, Origin,
    Put, Recall, RecordId, Report, Status, Trust, VectorRows, Wait, Weights, Written,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn memory() -> Engine {
    Engine::in_memory(options()).unwrap()
}

fn options() -> EngineOptions {
    EngineOptions {
        clock: Arc::new(ManualClock::new(Moment::utc(1_770_000_000_000_000))),
        ..EngineOptions::default()
    }
}

fn open(home: &Path) -> Engine {
    Engine::open(home, options()).unwrap()
}

fn fields(summary: &str) -> EpisodePatch {
    EpisodePatch { summary: Some(summary.to_owned()), ..EpisodePatch::default() }
}

fn put(engine: &Engine, fields: EpisodePatch) -> Written {
    engine.put(&Wait::default(), Put { fields, ..Put::default() }).unwrap()
}

fn with_vector(engine: &Engine, summary: &str, vector: &[f32]) -> Written {
    let put = Put { fields: fields(summary), vector: Some(vector.to_vec()), ..Put::default() };
    engine.put(&Wait::default(), put).unwrap()
}

fn ask(engine: &Engine, query: &str) -> Vec<String> {
    summaries(&engine.recall(&Recall { query: Some(query), ..Recall::default() }).unwrap())
}

fn summaries(report: &Report) -> Vec<String> {
    report.hits.iter().map(|hit| hit.episode.summary.clone()).collect()
}

#[test]
fn what_is_written_is_found_changed_and_forgotten_everywhere() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (open(home.path()), open(home.path()));
    let id = put(&one, fields("the login bug was a race in the token cache")).episode.id;
    assert_eq!(ask(&two, "token race").len(), 1);
    let changed = two.update(&Wait::default(), id, fields("the login bug was a stale cookie"), None).unwrap();
    assert!(changed.updated_at > changed.created_at);
    assert!(ask(&one, "token race").is_empty());
    assert_eq!(ask(&one, "cookie"), ["the login bug was a stale cookie"]);
    assert_eq!(one.forget(&Wait::default(), vec![id, id]).unwrap(), 1);
    assert!(ask(&two, "cookie").is_empty() && ask(&one, "cookie").is_empty());
    assert!(matches!(two.get(id), Err(Error::NotFound { .. })));
    assert_eq!(two.count(&Filter::default()).unwrap(), 0);
    let fresh = open(home.path());
    assert!(ask(&fresh, "cookie").is_empty());
}

#[test]
fn whoever_fell_behind_a_compaction_reads_everything_anew() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = (open(home.path()), open(home.path()));
    let gone = put(&writer, fields("the gone note about tokens")).episode.id;
    put(&writer, fields("the kept note about tokens"));
    assert_eq!(ask(&reader, "tokens").len(), 2);
    // The reader's state is that of a change whose row stays; the row that tells of the forgotten one does not.
    assert_eq!(writer.forget(&Wait::default(), vec![gone]).unwrap(), 1);
    put(&writer, fields("a later note"));
    let mut nothing = |_, _| false;
    writer.compact(&Wait::default(), &mut nothing).unwrap();
    assert_eq!(ask(&reader, "tokens"), ["the kept note about tokens"]);
    assert_eq!(reader.count(&Filter::default()).unwrap(), 2);
}

#[test]
fn the_same_key_or_id_is_the_same_record() {
    let engine = memory();
    let keyed = |summary: &str| EpisodePatch { key: Some(Some("task-1".into())), ..fields(summary) };
    let first = put(&engine, keyed("deploy failed"));
    let again = put(&engine, keyed("deploy failed"));
    assert!(first.created && !again.created && !again.changed);
    assert_eq!(first.episode, again.episode);
    let second = put(&engine, keyed("deploy went through"));
    assert_eq!(second.episode.id, first.episode.id);
    assert_eq!(second.episode.created_at, first.episode.created_at);
    assert!(ask(&engine, "failed").is_empty());
    let other = put(&engine, fields("unrelated")).episode.id;
    let clash = Put { id: Some(other), fields: keyed("x"), ..Put::default() };
    assert!(matches!(engine.put(&Wait::default(), clash), Err(Error::Conflict { .. })));
    // The key is unique within its scope only.
    let elsewhere = put(&engine, EpisodePatch { scope: Some("a".parse().unwrap()), ..keyed("elsewhere") });
    assert!(elsewhere.created);
    engine.forget(&Wait::default(), vec![first.episode.id]).unwrap();
    assert!(put(&engine, keyed("free again")).created);
}

#[test]
fn expect_refuses_a_record_that_changed() {
    let engine = memory();
    let first = put(&engine, fields("a")).episode;
    let second = engine.update(&Wait::default(), first.id, fields("b"), Some(first.updated_at)).unwrap();
    assert!(second.updated_at > first.updated_at, "the clock stands still, the time of change does not");
    let stale = engine.update(&Wait::default(), first.id, fields("c"), Some(first.updated_at));
    assert!(matches!(stale, Err(Error::Conflict { .. })));
    assert_eq!(engine.get(first.id).unwrap().summary, "b");
}

#[test]
fn one_bad_record_does_not_stop_a_batch() {
    let engine = memory();
    let puts = ["good", " ", "fine"].map(|s| Put { fields: fields(s), ..Put::default() });
    let outcomes = engine.put_many(&Wait::default(), puts.to_vec()).unwrap();
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert!(matches!(&outcomes[1], Err(Error::InvalidInput { field, .. }) if field == "summary"));
    assert_eq!(engine.count(&Filter::default()).unwrap(), 2);
}

#[test]
fn a_handle_never_leaves_its_scope() {
    let home = tempfile::tempdir().unwrap();
    let all = open(home.path());
    let team =
        Engine::open(home.path(), EngineOptions { scope: "team".parse().unwrap(), ..options() }).unwrap();
    let outside =
        put(&all, EpisodePatch { scope: Some("teamwork".parse().unwrap()), ..fields("secret plan") }).episode;
    let inside =
        put(&team, EpisodePatch { scope: Some("team/app".parse().unwrap()), ..fields("open plan") }).episode;
    assert_eq!(ask(&team, "plan"), ["open plan"]);
    assert_eq!(ask(&all, "plan").len(), 2);
    assert!(matches!(team.get(outside.id), Err(Error::NotFound { .. })));
    let steal = team.update(&Wait::default(), outside.id, fields("x"), None);
    assert!(matches!(steal, Err(Error::NotFound { .. })));
    assert_eq!(team.forget(&Wait::default(), vec![inside.id]).unwrap(), 1);
    assert_eq!(team.forget(&Wait::default(), vec![outside.id]).unwrap(), 0);
    let escape = Put {
        fields: EpisodePatch { scope: Some("other".parse().unwrap()), ..fields("x") },
        ..Put::default()
    };
    assert!(matches!(team.put(&Wait::default(), escape), Err(Error::InvalidInput { .. })));
    let over = Put { id: Some(outside.id), fields: fields("x"), ..Put::default() };
    assert!(team.put(&Wait::default(), over).is_err());
    assert_eq!(all.get(outside.id).unwrap().summary, "secret plan");
    assert_eq!(team.coverage().unwrap().total, 0);
    assert!(team.find(&outside.id.to_string()[..13], 10).unwrap().is_empty());
}

#[test]
fn vectors_are_given_refused_counted_and_follow_the_text() {
    let engine = memory();
    let a = with_vector(&engine, "alpha", &[1.0, 0.0]);
    assert_eq!(a.vector_refused, None);
    for (bad, reason) in
        [(vec![0.0, 0.0], "zero"), (vec![f32::NAN, 1.0], "NaN"), (vec![1.0, 2.0, 3.0], "width")]
    {
        let written = with_vector(&engine, "beta", &bad);
        assert!(written.vector_refused.unwrap().contains(reason));
    }
    put(&engine, fields("gamma"));
    let coverage = engine.coverage().unwrap();
    assert_eq!((coverage.total, coverage.vectorized, coverage.pending), (5, 1, 1));
    assert_eq!((coverage.refused, coverage.dimension_mismatches, coverage.dim), (2, 1, Some(2)));
    assert_eq!(coverage.embedder.as_deref(), Some("given:2"));
    assert_eq!(ask(&engine, "beta").len(), 3, "text of a refused vector stays");
    let near = Recall { vector: Some(&[0.9, 0.1]), ..Recall::default() };
    assert_eq!(summaries(&engine.recall(&near).unwrap()), ["alpha"]);
    // Another label keeps the vector, another text does not.
    let label = EpisodePatch { tags: Some(vec!["t".into()]), ..EpisodePatch::default() };
    engine.update(&Wait::default(), a.episode.id, label, None).unwrap();
    assert_eq!(engine.coverage().unwrap().vectorized, 1);
    engine.update(&Wait::default(), a.episode.id, fields("delta"), None).unwrap();
    assert_eq!(engine.coverage().unwrap().vectorized, 0);
    assert!(engine.recall(&near).unwrap().hits.is_empty());
    let wide = Recall { vector: Some(&[1.0, 0.0, 0.0]), ..Recall::default() };
    assert!(matches!(engine.recall(&wide), Err(Error::DimensionMismatch { expected: 2, found: 3, .. })));
}

#[test]
fn a_vector_refused_before_any_other_is_counted_too() {
    let engine = memory();
    let refused = with_vector(&engine, "alpha", &[f32::INFINITY, 1.0]).episode.id;
    assert_eq!(engine.coverage().unwrap().refused, 1);
    with_vector(&engine, "alpha again", &[1.0, 0.0]);
    let coverage = engine.coverage().unwrap();
    assert_eq!((coverage.total, coverage.vectorized), (2, 1));
    engine.forget(&Wait::default(), vec![refused]).unwrap();
    assert_eq!(engine.coverage().unwrap().total, 1);
}

#[test]
fn an_embedder_attaches_to_the_text_it_saw() {
    let home = tempfile::tempdir().unwrap();
    let with = |embedder: &str| {
        Engine::open(home.path(), EngineOptions { embedder: Some(embedder.into()), ..options() }).unwrap()
    };
    let engine = with("model-a");
    let long = "word ".repeat(2_000);
    let ids = [put(&engine, fields("short")), put(&engine, fields(&long)), put(&engine, fields("moving"))]
        .map(|w| w.episode.id);
    let pending = engine.pending(None, 10).unwrap();
    assert_eq!(pending.iter().map(|p| p.id).collect::<Vec<_>>(), ids);
    assert!(pending[1].text.chunks.len() > 3);
    engine.update(&Wait::default(), ids[2], fields("moved"), None).unwrap();
    let row = |x: f32| vec![x, 1.0];
    let rows = vec![
        (ids[0], pending[0].text.hash, VectorRows::Rows(vec![row(0.0)])),
        (
            ids[1],
            pending[1].text.hash,
            VectorRows::Rows((0..pending[1].text.chunks.len()).map(|n| row(n as f32)).collect()),
        ),
        (ids[2], pending[2].text.hash, VectorRows::Rows(vec![row(1.0)])),
    ];
    let done = engine.attach(&Wait::default(), rows).unwrap();
    assert_eq!((done.attached, done.refused, done.outdated), (2, 0, 1));
    assert_eq!(engine.home_embedder().unwrap(), Some(("model-a".into(), 2)));
    assert_eq!(engine.pending(None, 10).unwrap().iter().map(|p| p.id).collect::<Vec<_>>(), [ids[2]]);
    let best = engine.recall(&Recall { vector: Some(&[1.0, 0.0]), ..Recall::default() }).unwrap();
    assert_eq!(best.hits[0].episode.id, ids[1], "the best chunk counts");

    // Another model: words go on, vectors are said to be another's, nothing is deleted.
    let other = with("model-b");
    put(&other, fields("written under another model"));
    assert_eq!(ask(&other, "another model").len(), 1);
    let report = other
        .recall(&Recall { query: Some("short"), vector: Some(&[1.0, 0.0]), ..Recall::default() })
        .unwrap();
    assert!(!report.legs[1].ran && report.legs[1].reason.as_ref().unwrap().contains("model-a"));
    assert_eq!(other.foreign_vectors().unwrap(), BTreeMap::from([("model-a".to_owned(), 2)]));
    assert!(matches!(other.pending(None, 10), Err(Error::InvalidInput { .. })));
    assert_eq!(engine.coverage().unwrap().vectorized, 2);
    let none = open(home.path());
    let report = none
        .recall(&Recall { query: Some("short"), vector: Some(&[1.0, 0.0]), ..Recall::default() })
        .unwrap();
    assert!(report.legs[1].reason.as_ref().unwrap().contains("model-a"));
    assert_eq!(none.coverage().unwrap().vectorized, 2, "a handle without embedder counts the home's");
}

#[test]
fn an_answer_says_what_it_did() {
    let engine = memory();
    put(&engine, EpisodePatch { tags: Some(vec!["db".into()]), ..fields("postgres upgrade to 17") });
    put(&engine, fields("redis upgrade"));
    let filter = Filter { tags: vec!["db".into()], since: Some(Moment::utc(0)), ..Filter::default() };
    let report = engine
        .recall(&Recall { query: Some("upgrade"), filter, explain: true, ..Recall::default() })
        .unwrap();
    assert_eq!((report.considered, report.served), (1, 2));
    assert_eq!(
        report.filters.iter().map(|f| (f.name, f.left)).collect::<Vec<_>>(),
        [("tags", 1), ("since", 2)]
    );
    assert!(report.legs[0].ran && report.legs[0].candidates == 1);
    assert_eq!(report.legs[1].reason.as_deref(), Some("no embedder"));
    let hit = &report.hits[0];
    assert!(hit.score > 0.0 && hit.relevance > 0.5 && hit.matched_terms == ["upgrade"]);
    assert!(hit.explanation.is_some());
    assert_eq!(report.why_empty(), "");

    let nothing = engine.recall(&Recall { query: Some("kubernetes"), ..Recall::default() }).unwrap();
    let why = nothing.why_empty();
    assert!(why.contains("2 records") && why.contains("kubernetes") && why.contains("no embedder"), "{why}");
    let filter = Filter { session_id: Some("none".into()), ..Filter::default() };
    let nothing = engine.recall(&Recall { query: Some("upgrade"), filter, ..Recall::default() }).unwrap();
    assert!(nothing.why_empty().contains("session_id leaves 0"), "{}", nothing.why_empty());
    let silent = engine.recall(&Recall { query: Some("?!"), ..Recall::default() }).unwrap();
    assert!(silent.hits.is_empty() && !silent.legs[0].ran);
    let floor = engine.recall(&Recall {
        query: Some("upgrade kubernetes helm"),
        min_relevance: 0.9,
        ..Recall::default()
    });
    assert!(floor.unwrap().why_empty().contains("below the asked relevance"));
}

#[test]
fn no_question_lists_the_newest_first() {
    let engine = memory();
    for (summary, at) in
        [("b", "2026-02-01T00:00:00Z"), ("c", "2026-03-01T00:00:00Z"), ("a", "2026-01-01T00:00:00Z")]
    {
        put(&engine, EpisodePatch { occurred_at: Some(at.parse().unwrap()), ..fields(summary) });
    }
    let report = engine.recall(&Recall { k: 2, ..Recall::default() }).unwrap();
    assert_eq!(summaries(&report), ["c", "b"]);
    assert!(engine.recall(&Recall { k: 0, ..Recall::default() }).unwrap().hits.is_empty());
    let all = engine.recall(&Recall { query: Some("b c 2026"), k: 1_000_000, ..Recall::default() }).unwrap();
    assert_eq!(all.hits.len(), 3);
}

#[test]
fn equal_scores_put_the_newer_first_whatever_the_order_of_writing() {
    let times = ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z"];
    for rotate in 0..3 {
        let engine = memory();
        for n in 0..3 {
            let at = times[(n + rotate) % 3];
            // One date for all three: the searched text must be the same.
            let at: Moment = at.parse().unwrap();
            let same_day = Moment::utc(1_770_000_000_000_000 + at.unix_micros() % 7);
            put(&engine, EpisodePatch { occurred_at: Some(same_day), ..fields("same words") });
        }
        let report = engine.recall(&Recall { query: Some("same words"), ..Recall::default() }).unwrap();
        let order: Vec<_> =
            report.hits.iter().map(|h| (std::cmp::Reverse(h.episode.occurred_at), h.episode.id)).collect();
        assert!(order.is_sorted(), "{order:?}");
    }
}

#[test]
fn pages_cover_everything_once_in_both_directions() {
    let engine = memory();
    let mut ids: Vec<RecordId> = (0..25).map(|n| put(&engine, fields(&format!("n{n}"))).episode.id).collect();
    for newest_first in [false, true] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = engine.page(&Filter::default(), newest_first, after, 7).unwrap();
            seen.extend(page.iter().map(|e| e.id));
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, ids);
        ids.reverse();
    }
}

#[test]
fn untrusted_origins_stay_untrusted() {
    let web = Engine::in_memory(EngineOptions { origin: Origin::Web, ..options() }).unwrap();
    assert_eq!(put(&web, fields("x")).episode.trust, Trust::Untrusted);
    let raise = EpisodePatch { trust: Some(Trust::Trusted), ..fields("y") };
    assert!(web.put(&Wait::default(), Put { fields: raise, ..Put::default() }).is_err());
    let id = put(&web, fields("z")).episode.id;
    assert_eq!(web.trust(&Wait::default(), id).unwrap().trust, Trust::Trusted);
    assert_eq!(web.get(id).unwrap().trust, Trust::Trusted);
    let touched = web.update(&Wait::default(), id, fields("z, changed"), None).unwrap();
    assert_eq!(
        touched.trust,
        Trust::Untrusted,
        "an untrusted writer does not speak in a trusted record's name"
    );
    web.trust(&Wait::default(), id).unwrap();
    // Its text is another then, so somebody has to look again.
    let rewritten =
        web.put(&Wait::default(), Put { id: Some(id), fields: fields("other"), ..Put::default() }).unwrap();
    assert_eq!(rewritten.episode.trust, Trust::Untrusted);
}

#[test]
fn an_export_comes_back_exactly() {
    let source = memory();
    let mut quarantined = with_vector(&source, "odd one", &[0.6, 0.8]).episode;
    quarantined.status = Status::Quarantined;
    source.restore(&Wait::default(), vec![quarantined.clone()]).unwrap();
    let plain = put(&source, fields("plain")).episode;
    let target = memory();
    let counts = target.restore(&Wait::default(), vec![quarantined.clone(), plain.clone()]).unwrap();
    assert_eq!(counts, (2, 0, 0));
    for stored in source.stored_vectors(quarantined.id).unwrap() {
        target
            .restore_vectors(
                &Wait::default(),
                &stored.fingerprint,
                stored.dim,
                vec![(quarantined.id, stored.rows)],
            )
            .unwrap();
    }
    assert_eq!(
        target.restore(&Wait::default(), vec![quarantined.clone(), plain.clone()]).unwrap(),
        (0, 0, 2)
    );
    assert_eq!(target.get(plain.id).unwrap(), plain);
    assert_eq!(ask(&target, "odd"), Vec::<String>::new(), "quarantined records are not recalled");
    let hidden = Filter { status: Some(Status::Quarantined), ..Filter::default() };
    assert_eq!(target.count(&hidden).unwrap(), 1);
    assert!(matches!(
        target.stored_vectors(quarantined.id).unwrap().as_slice(),
        [stored] if matches!(&stored.rows, VectorRows::Rows(rows) if rows == &[vec![0.6, 0.8]])
    ));
}

#[test]
fn a_new_home_keeps_its_store_out_of_git_and_an_old_one_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    open(home.path());
    let ignore = home.path().join(".gitignore");
    assert!(std::fs::read_to_string(&ignore).unwrap().contains("!memory/"));
    std::fs::write(&ignore, "mine").unwrap();
    open(home.path());
    assert_eq!(std::fs::read_to_string(&ignore).unwrap(), "mine");
}

/// Every kind of filter that the test below can draw.
fn some_filter(which: u8, value: u8, ids: &[RecordId]) -> Filter {
    let text = Some(value.to_string());
    match which {
        0 => Filter { session_id: text, ..Filter::default() },
        1 => Filter { tags: vec![value.to_string()], ..Filter::default() },
        2 => Filter { ids: Some(ids.iter().step_by(2).copied().collect()), ..Filter::default() },
        3 => Filter { not_ids: ids.iter().step_by(2).copied().collect(), ..Filter::default() },
        4 => Filter { scope: Some(format!("s{value}").parse().unwrap()), ..Filter::default() },
        5 => Filter { since: Some(Moment::utc(i64::from(value) * 1_000_000_000)), ..Filter::default() },
        6 => Filter { until: Some(Moment::utc(i64::from(value) * 1_000_000_000)), ..Filter::default() },
        7 => Filter {
            metadata: [("n".to_owned(), MetaValue::Int(value.into()))].into(),
            user_id: text,
            ..Filter::default()
        },
        _ => Filter { working_dir: Some(format!("/d/{value}")), below: true, ..Filter::default() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Each leg: filter then rank is rank everything, then filter. The bitmap of the index and the filter of a record
    /// agree, so that what is counted, listed, found and forgotten is the same set.
    #[test]
    fn a_filter_applies_before_ranking_and_is_the_same_everywhere(
        docs in proptest::collection::vec(("[b-e]( [b-e]){0,4}", 0..3u8, proptest::option::of([-1.0..1.0f32, -1.0..1.0f32])), 1..30),
        which in 0..9u8, value in 0..3u8, by_vector in any::<bool>(), k in 1..12usize,
    ) {
        let engine = memory();
        let mut ids = Vec::new();
        for (words, mark, vector) in &docs {
            let mark_text = mark.to_string();
            let fields = EpisodePatch {
                session_id: Some(Some(mark_text.clone())),
                user_id: Some(Some(mark_text.clone())),
                tags: Some(vec![mark_text]),
                scope: Some(format!("s{mark}/x").parse().unwrap()),
                working_dir: Some(Some(format!("/d/{mark}/e"))),
                occurred_at: Some(Moment::utc(i64::from(*mark) * 1_000_000_000)),
                metadata: Some([("n".to_owned(), MetaValue::Int((*mark).into()))].into()),
                ..fields(words)
            };
            let put = Put { fields, vector: vector.map(|v| v.to_vec()), ..Put::default() };
            ids.push(engine.put(&Wait::default(), put).unwrap().episode.id);
        }
        let filter = some_filter(which, value, &ids);
        let vector = [0.4, -0.9];
        let ask = |filter: Filter, k: usize| {
            let (query, vector) = if by_vector { (None, Some(&vector[..])) } else { (Some("b d"), None) };
            engine.recall(&Recall { query, vector, filter, k, ..Recall::default() }).unwrap()
        };
        let everything: Vec<RecordId> = ask(Filter::default(), 1_000).hits.iter().map(|h| h.episode.id).collect();
        let mut expected: Vec<RecordId> = everything.into_iter().filter(|id| filter.matches(&engine.get(*id).unwrap())).collect();
        let report = ask(filter.clone(), k);
        let matching = ids.iter().filter(|id| filter.matches(&engine.get(**id).unwrap())).count();
        prop_assert_eq!(report.considered, matching);
        prop_assert_eq!(engine.count(&filter).unwrap(), matching);
        expected.truncate(k);
        prop_assert_eq!(report.hits.iter().map(|h| h.episode.id).collect::<Vec<_>>(), expected);
        prop_assert_eq!(engine.forget_where(&Wait::default(), filter.clone(), false).unwrap().len(), matching);
        prop_assert_eq!(engine.count(&filter).unwrap(), 0);
        prop_assert_eq!(engine.count(&Filter::default()).unwrap(), docs.len() - matching);
    }
}

/// One call on a home.
#[derive(Debug, Clone)]
enum Step {
    Put { slot: usize, words: String, vector: Option<[f32; 2]>, session: u8 },
    Update { slot: usize, words: String },
    Forget { slot: usize },
    ForgetSession { session: u8 },
    Reopen,
    Ask { words: String },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = || "[a-e]( [a-e]){0,4}";
    let vector = proptest::option::of([-1.0..1.0f32, -1.0..1.0f32]);
    let step = prop_oneof![
        5 => (0..6usize, words(), vector, 0..3u8).prop_map(|(slot, words, vector, session)| Step::Put { slot, words, vector, session }),
        2 => (0..6usize, words()).prop_map(|(slot, words)| Step::Update { slot, words }),
        2 => (0..6usize).prop_map(|slot| Step::Forget { slot }),
        1 => (0..3u8).prop_map(|session| Step::ForgetSession { session }),
        1 => Just(Step::Reopen),
        2 => words().prop_map(|words| Step::Ask { words }),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Two handles take turns on one home; a fresh memory of the survivors answers the same, score by score.
    #[test]
    fn any_history_answers_like_a_memory_of_the_survivors(steps in steps()) {
        let home = tempfile::tempdir().unwrap();
        let mut handles = [open(home.path()), open(home.path())];
        let mut slots: [Option<RecordId>; 6] = [None; 6];
        for (turn, step) in steps.iter().enumerate() {
            let engine = &handles[turn % 2];
            match step {
                Step::Put { slot, words, vector, session } => {
                    let fields = EpisodePatch { session_id: Some(Some(session.to_string())), ..fields(words) };
                    let put = Put { id: slots[*slot], fields, vector: vector.map(|v| v.to_vec()) };
                    slots[*slot] = Some(engine.put(&Wait::default(), put).unwrap().episode.id);
                }
                Step::Update { slot, words } => {
                    if let Some(id) = slots[*slot] {
                        engine.update(&Wait::default(), id, fields(words), None).unwrap();
                    }
                }
                Step::Forget { slot } => {
                    if let Some(id) = slots[*slot].take() {
                        prop_assert_eq!(engine.forget(&Wait::default(), vec![id]).unwrap(), 1);
                    }
                }
                Step::ForgetSession { session } => {
                    let filter = Filter { session_id: Some(session.to_string()), ..Filter::default() };
                    let gone = engine.forget_where(&Wait::default(), filter, false).unwrap();
                    for slot in &mut slots {
                        *slot = slot.filter(|id| !gone.contains(id));
                    }
                }
                Step::Reopen => {
                    handles[turn % 2] = open(home.path());
                }
                Step::Ask { words } => {
                    ask(engine, words);
                }
            }
        }
        let fresh = memory();
        let mut survivors: Vec<RecordId> = slots.iter().flatten().copied().collect();
        survivors.sort();
        let episodes: Vec<_> = survivors.iter().map(|id| handles[0].get(*id).unwrap()).collect();
        fresh.restore(&Wait::default(), episodes).unwrap();
        for id in &survivors {
            for stored in handles[0].stored_vectors(*id).unwrap() {
                fresh.restore_vectors(&Wait::default(), &stored.fingerprint, stored.dim, vec![(*id, stored.rows)]).unwrap();
            }
        }
        let questions = [
            Recall { query: Some("a b"), ..Recall::default() },
            Recall { vector: Some(&[0.3, -0.7]), ..Recall::default() },
            Recall { query: Some("c a"), vector: Some(&[0.3, 0.7]), ..Recall::default() },
            Recall { query: Some("d"), vector: Some(&[0.3, 0.7]), fusion: Fusion::Rrf, ..Recall::default() },
            Recall {
                query: Some("e b"),
                filter: Filter { session_id: Some("1".into()), ..Filter::default() },
                weights: Weights::new(0.2, 0.8).unwrap(),
                legs: Legs { lexical: true, vector: false },
                ..Recall::default()
            },
        ];
        for handle in &handles {
            for question in &questions {
                let (ours, theirs) = (handle.recall(question).unwrap(), fresh.recall(question).unwrap());
                let rows = |r: &Report| -> Vec<_> {
                    r.hits.iter().map(|h| (h.episode.id, h.score.to_bits(), h.relevance.to_bits())).collect()
                };
                prop_assert_eq!(rows(&ours), rows(&theirs));
                prop_assert_eq!(&ours.legs, &theirs.legs);
            }
            let (ours, theirs) = (handle.coverage().unwrap(), fresh.coverage().unwrap());
            prop_assert_eq!(ours.total, survivors.len());
            prop_assert_eq!(ours.vectorized, theirs.vectorized);
        }
    }
}

#[test]
fn a_record_keeps_the_id_it_was_acknowledged_with_when_its_transaction_is_repeated() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(
        home.path(),
        EngineOptions { durability: otolith_core::store::Durability::Batched, ..options() },
    )
    .unwrap();
    let owner = put(&engine, EpisodePatch { key: Some(Some("k".to_owned())), ..fields("owner") }).episode;
    engine.flush(&Wait::default()).unwrap();
    // Writes the first, then stumbles over the key of the second.
    let elsewhere = memory();
    let half = vec![
        put(&elsewhere, fields("half")).episode,
        put(&elsewhere, EpisodePatch { key: Some(Some("k".to_owned())), ..fields("taken") }).episode,
    ];
    for round in 0..10 {
        let kept = put(&engine, fields(&format!("kept {round}"))).episode;
        let error = engine.restore(&Wait::default(), half.clone()).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
        assert_eq!(engine.get(kept.id).unwrap(), kept);
        assert!(matches!(engine.get(half[0].id), Err(Error::NotFound { .. })));
    }
    assert_eq!(engine.count(&Filter::default()).unwrap(), 11);
    assert_eq!(engine.get(owner.id).unwrap(), owner);
}

#[test]
fn a_quoted_phrase_must_stand_in_the_record() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    put(&engine, fields("the connection pool was exhausted"));
    put(&engine, fields("a pool for each connection; the swimming pool was closed"));
    put(&engine, EpisodePatch { title: Some(Some("Connection-Pool".into())), ..fields("notes of a day") });
    put(&engine, fields("昨天去了图书馆看书"));
    put(&engine, fields("图书和馆子"));
    let found = |query: &str| {
        let mut found = ask(&engine, query);
        found.sort();
        found
    };
    assert_eq!(found("connection pool").len(), 3);
    assert_eq!(found("“connection pool” exhausted"), ["notes of a day", "the connection pool was exhausted"]);
    assert_eq!(found("\"connection pool").len(), 3, "a mark without its partner is ordinary text");
    assert_eq!(found("「图书馆」"), ["昨天去了图书馆看书"]);
    assert_eq!(found("图书馆").len(), 2);
    let report =
        engine.recall(&Recall { query: Some("\"pool connection\" pool"), ..Recall::default() }).unwrap();
    assert!(report.hits.is_empty() && report.considered == 0);
    assert_eq!(report.filters.iter().map(|f| (f.name, f.left)).collect::<Vec<_>>(), [("phrase", 0)]);
    assert!(report.why_empty().contains("No record holds \"pool connection\""), "{}", report.why_empty());
}

#[test]
fn a_phrase_holds_for_the_vector_leg_too() {
    let engine = Engine::in_memory(EngineOptions { embedder: Some("test".into()), ..options() }).unwrap();
    with_vector(&engine, "the connection pool", &[1.0, 0.0]);
    with_vector(&engine, "a pool, a connection", &[0.9, 0.1]);
    let ask = |query| {
        let recall = Recall { query: Some(query), vector: Some(&[0.9, 0.1]), ..Recall::default() };
        summaries(&engine.recall(&recall).unwrap())
    };
    assert_eq!(ask("connection pool").len(), 2);
    assert_eq!(ask("\"connection pool\""), ["the connection pool"]);
}

#[test]
fn an_answer_tells_what_words_were_taken_for() {
    let table = [("k8s".to_owned(), vec!["kubernetes".to_owned()])];
    let synonyms = Arc::new(Synonyms::new(Analyzer::default(), &table).unwrap());
    let engine = Engine::in_memory(EngineOptions { synonyms, ..options() }).unwrap();
    put(&engine, fields("Kubernetes authorization failed for a token"));
    put(&engine, fields("the receiver was idle"));
    let recall = Recall { query: Some("k8s authoriz reciever"), explain: true, ..Recall::default() };
    let report = engine.recall(&recall).unwrap();
    let expected = [("k8s", "kubernetes"), ("authoriz", "authorization"), ("reciever", "receiver")];
    let expected = expected.map(|(word, other)| (word.to_owned(), vec![other.to_owned()]));
    assert_eq!(report.analysis.expansions, expected);
    let hit = &report.hits[0];
    assert_eq!(hit.matched_terms, ["k8s → kubernetes", "authoriz → authorization"]);
    let tree = hit.explanation.as_ref().unwrap().to_string();
    assert!(tree.contains("authoriz → authorization (begins with it)"), "{tree}");
    assert!(tree.contains("k8s → kubernetes (synonym)"), "{tree}");
    let marked: Vec<&str> = report
        .analysis
        .spans(&hit.episode.summary)
        .into_iter()
        .map(|span| &hit.episode.summary[span])
        .collect();
    assert_eq!(marked, ["Kubernetes", "authorization"]);
    let off = Engine::in_memory(EngineOptions { expansion: Expansion::Off, ..options() }).unwrap();
    put(&off, fields("authorization"));
    assert!(ask(&off, "authoriz").is_empty());
}
