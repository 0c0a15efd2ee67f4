use super::*;
use crate::query::Condition;
use proptest::prelude::*;
use std::cmp::Reverse;

fn some_episodes(most: usize) -> impl Strategy<Value = Vec<Episode>> {
    let raw = (1..4u64, any::<[u8; 20]>());
    proptest::collection::vec(raw, 0..most).prop_map(|raw| {
        let mut number = 0;
        let mut next = |(gap, raw): &(u64, [u8; 20])| {
            number += gap;
            episode(number, raw)
        };
        raw.iter().map(&mut next).collect()
    })
}

fn filters() -> impl Strategy<Value = Vec<Vec<(u8, u8, u8)>>> {
    proptest::collection::vec(proptest::collection::vec(any::<(u8, u8, u8)>(), 0..4), 1..16)
}

fn some_docs(len: usize, seed: u64, every: u64) -> FixedBitSet {
    let mut docs = FixedBitSet::with_capacity(len);
    let mut state = seed;
    for doc in 0..len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        docs.set(doc, (state >> 33).is_multiple_of(every));
    }
    docs
}

/// What a filter leaves, by the records themselves.
fn model(
    episodes: &[Episode],
    filter: &Filter,
    scope: &Scope,
    dead: &FixedBitSet,
) -> (Vec<usize>, usize, Vec<usize>) {
    let conditions = filter.conditions();
    let (mut docs, mut total, mut left) = (Vec::new(), 0, vec![0; conditions.len()]);
    for (doc, episode) in episodes.iter().enumerate() {
        if dead.contains(doc) || !filter.serves(episode) || !scope.contains(&episode.scope) {
            continue;
        }
        total += 1;
        let holds: Vec<bool> = conditions.iter().map(|c| c.holds(episode)).collect();
        left.iter_mut().zip(&holds).for_each(|(left, holds)| *left += usize::from(*holds));
        if holds.iter().all(|holds| *holds) {
            docs.push(doc);
        }
    }
    (docs, total, left)
}

fn states(episodes: &[Episode], seed: u64) -> Vec<u8> {
    (0..episodes.len() as u64).map(|n| (seed.wrapping_mul(n + 7) >> 8) as u8 % (1 + seed as u8 % 5)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_filter_leaves_what_it_leaves_of_the_records(
        episodes in some_episodes(200), filters in filters(), scope in 0..8u8, seed in any::<u64>(), every in 1..9u64,
    ) {
        let columns = columns(&episodes, &states(&episodes, seed));
        let dead = some_docs(episodes.len(), seed, every);
        let scope: Scope = word(&SCOPES, if every > 5 { 0 } else { scope });
        for conditions in filters {
            let mut filter = Filter::default();
            for one in conditions {
                set(&mut filter, one, &episodes);
            }
            for dead in [None, Some(&dead)] {
                let gone = dead.cloned().unwrap_or_default();
                let (docs, total, left) = model(&episodes, &filter, &scope, &gone);
                let selection = columns.select(&filter, &scope, dead);
                prop_assert_eq!(selection.docs.len(), episodes.len());
                prop_assert_eq!(selection.docs.ones().collect::<Vec<_>>(), docs.clone(), "{:?}", filter);
                prop_assert_eq!(selection.total, total);
                let names: Vec<&str> = filter.conditions().iter().map(Condition::name).collect();
                let own: Vec<(&str, usize)> = selection.effects.iter().map(|e| (e.name, e.left)).collect();
                prop_assert_eq!(own, names.into_iter().zip(left).collect::<Vec<_>>());
                prop_assert_eq!(selection.all, docs.len() == episodes.len() - gone.count_ones(..));
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_record_comes_back(episodes in some_episodes(150), seed in any::<u64>()) {
        let states = states(&episodes, seed);
        let columns = columns(&episodes, &states);
        for ((episode, state), doc) in episodes.iter().zip(&states).zip(0..) {
            let doc = DocId(doc);
            prop_assert_eq!(columns.id(doc), Some(episode.id));
            prop_assert_eq!(columns.doc_of(episode.id), Some(doc));
            prop_assert_eq!(columns.occurred_at(doc), Some(episode.occurred_at));
            prop_assert_eq!(columns.importance(doc).map(f64::to_bits), Some(episode.importance.to_bits()));
            prop_assert_eq!(columns.vector_state(doc), *state);
            for field in Field::ALL {
                prop_assert_eq!(columns.text(field, doc), field.of(episode));
                prop_assert_eq!(columns.ordinal(field, doc).is_some(), field.of(episode).is_some());
            }
        }
        let past = DocId(episodes.len() as u32);
        prop_assert_eq!((columns.id(past), columns.doc_of(id(9_999_999))), (None, None));
    }

    #[test]
    fn states_of_vectors_are_counted_as_the_records_say(
        episodes in some_episodes(200), scope in 0..8u8, seed in any::<u64>(), every in 1..9u64,
    ) {
        let states = states(&episodes, seed);
        let columns = columns(&episodes, &states);
        let dead = some_docs(episodes.len(), seed, every);
        for scope in [Scope::root(), word(&SCOPES, scope)] {
            for dead in [None, Some(&dead)] {
                let mut wanted = [0; VECTOR_STATES];
                for (doc, (episode, state)) in episodes.iter().zip(&states).enumerate() {
                    let gone = dead.is_some_and(|dead| dead.contains(doc));
                    let counts = !gone && episode.status == Status::Active && scope.contains(&episode.scope);
                    wanted[usize::from(*state)] += usize::from(counts);
                }
                prop_assert_eq!(columns.vector_states(&scope, dead), wanted);
            }
        }
    }

    #[test]
    fn pages_and_the_newest_are_those_of_a_sorted_list(
        episodes in some_episodes(300), seed in any::<u64>(), every in 1..5u64, k in 0..90usize, at in any::<(u16, u16)>(),
    ) {
        let columns = columns(&episodes, &vec![0; episodes.len()]);
        let within = some_docs(episodes.len(), seed, every);
        let mut sorted: Vec<usize> = within.ones().collect();
        sorted.sort_by_key(|doc| (Reverse(episodes[*doc].occurred_at), episodes[*doc].id));
        for k in [k, usize::MAX] {
            let newest = columns.newest(&within, k);
            let newest: Vec<usize> = newest.into_iter().map(DocId::index).collect();
            prop_assert_eq!(&newest[..], &sorted[..k.min(sorted.len())]);
        }
        let edge = |at: u16| (!at.is_multiple_of(5)).then(|| id(u64::from(at / 5) % 700));
        let (after, before) = (edge(at.0), edge(at.1));
        let inside = |doc: &usize| {
            let id = episodes[*doc].id;
            after.is_none_or(|after| id > after) && before.is_none_or(|before| id < before)
        };
        let wanted: Vec<DocId> = within.ones().filter(inside).map(|doc| DocId(doc as u32)).collect();
        prop_assert_eq!(columns.between(after, before, &within).collect::<Vec<_>>(), wanted.clone());
        let mut back: Vec<DocId> = columns.between(after, before, &within).rev().collect();
        back.reverse();
        prop_assert_eq!(&back, &wanted);
        // From both ends in turn every document comes once.
        let mut both = columns.between(after, before, &within);
        let (mut front, mut end) = (Vec::new(), Vec::new());
        while let Some(doc) = both.next() {
            front.push(doc);
            end.extend(both.next_back());
        }
        front.extend(end.into_iter().rev());
        prop_assert_eq!(front, wanted);
    }

    /// To the byte, so that it does not matter by which way a segment came about.
    #[test]
    fn merged_columns_are_those_built_from_the_records(
        episodes in some_episodes(200), seed in any::<u64>(), parts in 1..5usize, every in 2..9u64,
    ) {
        let states = states(&episodes, seed);
        let part_of = |doc: usize| (seed.rotate_left(doc as u32) % parts as u64) as usize;
        let dropped = some_docs(episodes.len(), seed, every);
        let mut sources = vec![(Vec::new(), Vec::new()); parts];
        let (mut order, mut kept) = (Vec::new(), (Vec::new(), Vec::new()));
        for (doc, (episode, state)) in episodes.iter().zip(&states).enumerate() {
            let source = &mut sources[part_of(doc)];
            if !dropped.contains(doc) {
                order.push((part_of(doc), DocId(source.0.len() as u32)));
                kept.0.push(episode.clone());
                kept.1.push(*state);
            }
            source.0.push(episode.clone());
            source.1.push(*state);
        }
        let sources: Vec<Columns> = sources.iter().map(|(episodes, states)| columns(episodes, states)).collect();
        let merged = merge(&sources.iter().collect::<Vec<_>>(), &order).unwrap();
        prop_assert!(file(merged) == file(built(&kept.0, &kept.1)));
    }

    #[test]
    fn words_of_bits_are_those_of_a_loop(numbers in proptest::collection::vec(0..6u16, 0..300), len in 0..70usize) {
        let mut set = FixedBitSet::with_capacity(numbers.len());
        bits::add_where(&mut set, &numbers, |n| n == 3);
        let wanted: Vec<usize> = (0..numbers.len()).filter(|at| numbers[*at] == 3).collect();
        prop_assert_eq!(set.ones().collect::<Vec<_>>(), wanted);
        let mut all = FixedBitSet::with_capacity(len);
        bits::add(&mut all, |_| u64::MAX);
        prop_assert_eq!((all.count_ones(..), all.as_slice().len()), (len, FixedBitSet::with_capacity(len).as_slice().len()));
        let word = all.as_slice().last().map_or(0, |block| block.count_ones());
        prop_assert_eq!(word as usize % usize::BITS as usize, len % usize::BITS as usize);
    }
}

/// A width that is too narrow, or a greatest ordinal that is missed, shows only with as many values.
#[test]
fn ordinals_of_every_width_find_their_documents() {
    for (count, width) in [(255, 1), (256, 2), (65_535, 2), (65_536, 4)] {
        let episodes: Vec<Episode> = (0..count)
            .map(|n| {
                let mut episode = blank(n);
                episode.key = Some(format!("{:05}", n.wrapping_mul(48_271) % count));
                episode.scope = format!("s/{n:05}").parse().unwrap();
                episode
            })
            .collect();
        let columns = columns(&episodes, &vec![0; episodes.len()]);
        let sizes = columns.sections.sizes().find(|(name, _)| name.to_string() == "c.key.o");
        assert_eq!(sizes.unwrap().1 as u64, count * width, "{count}");
        for n in [0, 1, 254, 255, count / 2, count - 1] {
            let key = format!("{n:05}");
            let filter = Filter { key: Some(key.clone()), ..Filter::default() };
            let docs = columns.select(&filter, &Scope::root(), None).docs;
            let wanted: Vec<usize> =
                (0..episodes.len()).filter(|doc| episodes[*doc].key.as_ref() == Some(&key)).collect();
            assert_eq!(docs.ones().collect::<Vec<_>>(), wanted, "{n} of {count}");
        }
        for (scope, wanted) in [("s", count as usize), (&format!("s/{:05}", count - 1), 1), ("t", 0)] {
            let scope: Scope = scope.parse().unwrap();
            assert_eq!(columns.select(&Filter::default(), &scope, None).total, wanted);
        }
    }
}
