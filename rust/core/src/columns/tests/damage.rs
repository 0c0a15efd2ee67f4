use super::*;
use crate::error::Error;

/// Numbers that look random and are the same in every run.
struct Rolls(u64);

impl Rolls {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn raw(&mut self) -> [u8; 20] {
        std::array::from_fn(|_| self.next(256) as u8)
    }
}

fn episodes(rolls: &mut Rolls) -> Vec<Episode> {
    (0..150).map(|n| episode(2 * n, &rolls.raw())).collect()
}

/// Opens what may be damaged and asks everything of it.
fn ask(bytes: &[u8], filters: &[Filter]) -> Result<(), Error> {
    let columns = Columns::open(&Sections::from_bytes(bytes)?)?;
    let num_docs = columns.num_docs();
    let mut dead = FixedBitSet::with_capacity(num_docs);
    dead.insert_range(..num_docs / 9);
    for filter in filters {
        for scope in ["", "a/b"] {
            let scope = scope.parse()?;
            let selection = columns.select(filter, &scope, Some(&dead));
            let docs = &selection.docs;
            assert!(
                docs.len() == num_docs && docs.ones().all(|doc| doc < num_docs) && docs.is_disjoint(&dead)
            );
            assert!(docs.count_ones(..) <= selection.total && selection.total <= num_docs);
            assert!(selection.effects.iter().all(|effect| effect.left <= selection.total));
            let newest = columns.newest(docs, 70);
            assert!(newest.len() == docs.count_ones(..).min(70));
            columns.vector_states(&scope, Some(&dead));
            let _ = columns.between(Some(id(40)), Some(id(260)), docs).rev().count();
        }
    }
    for doc in (0..=num_docs as u32).map(DocId) {
        let _ =
            (columns.id(doc).map(|id| columns.doc_of(id)), columns.occurred_at(doc), columns.importance(doc));
        assert!(usize::from(columns.vector_state(doc)) < VECTOR_STATES);
        for field in Field::ALL {
            let _ = (columns.text(field, doc), columns.ordinal(field, doc));
        }
    }
    for lists in [&columns.tags, &columns.metadata].into_iter().flatten() {
        for rank in 0..=lists.values().len() {
            let mut docs = FixedBitSet::with_capacity(num_docs);
            lists.add(&mut docs, rank);
            assert!(docs.ones().all(|doc| doc < num_docs));
        }
    }
    let order: Vec<(usize, DocId)> = (0..num_docs as u32).map(|doc| (0, DocId(doc))).collect();
    // What is not what was written gets no good checksum by being merged.
    match (columns.check().is_ok(), merge(&[&columns], &order)) {
        (true, merged) => drop(merged?),
        (false, merged) => assert!(matches!(merged, Err(Error::StoreCorrupt { .. }))),
    }
    Ok(())
}

fn filters(rolls: &mut Rolls, episodes: &[Episode]) -> Vec<Filter> {
    let one = |which: u8| {
        let mut filter = Filter::default();
        let by = || (which, rolls.next(256) as u8, rolls.next(256) as u8);
        std::iter::repeat_with(by).take(2).for_each(|by| set(&mut filter, by, episodes));
        filter
    };
    (0..21).map(one).collect()
}

#[test]
fn flipped_bytes_give_a_typed_error_or_an_answer() {
    let mut rolls = Rolls(11);
    let episodes = episodes(&mut rolls);
    let states: Vec<u8> = (0..150).map(|_| rolls.next(5) as u8).collect();
    let whole = file(built(&episodes, &states));
    ask(&whole, &filters(&mut rolls, &episodes)).unwrap();
    let (mut refused, mut answered) = (0, 0);
    for round in 0..10_000 {
        let mut bytes = whole.clone();
        for _ in 0..=rolls.next(4) {
            // The head of the file, its table and foot are tested where they are read.
            let at = 64 + rolls.next(whole.len() - 64);
            bytes[at] = if round % 2 == 0 { bytes[at] ^ (1 << rolls.next(8)) } else { rolls.next(256) as u8 };
        }
        let few =
            filters(&mut rolls, &episodes).split_off(round % 21).into_iter().take(2).collect::<Vec<_>>();
        match ask(&bytes, &few) {
            Ok(()) => answered += 1,
            Err(Error::StoreCorrupt { .. } | Error::FormatTooNew { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 500 && answered > 2_000, "{refused} {answered}");
}

/// The checks of lengths, each of which stands between a wrong file and a wrong number.
#[test]
fn sections_that_do_not_fit_are_refused() {
    let mut rolls = Rolls(12);
    let episodes = episodes(&mut rolls);
    let whole = Sections::from_bytes(&file(built(&episodes, &[3; 150]))).unwrap();
    let names: Vec<SectionName> = whole.sizes().map(|(name, _)| name).collect();
    let filters = filters(&mut rolls, &episodes);
    assert!(names.len() > 40);
    for spoiled in &names {
        for how in 0..4 {
            let mut writer = SectionWriter::new(Vec::new()).unwrap();
            for name in &names {
                let mut bytes = whole.array::<u8>(*name).unwrap().to_vec();
                match how {
                    _ if name != spoiled => {}
                    0 => continue,
                    1 => bytes.truncate(bytes.len() - 1),
                    2 => bytes.extend_from_within(..1),
                    _ => bytes.extend_from_within(..),
                }
                writer.section(*name, &bytes).unwrap();
            }
            let bytes = writer.finish().unwrap();
            let answer = ask(&bytes, &filters);
            let refused = matches!(answer, Err(Error::StoreCorrupt { .. }));
            // States of vectors may be absent; ordinals may be twice as wide; more importances than are used are some.
            let fits = match (how, spoiled.to_string().as_str()) {
                (0, "c.vect") | (3, "c.impo.v") => true,
                (3, name) => name.strip_suffix(".o").is_some(),
                _ => false,
            };
            assert!(refused || fits, "{spoiled} {how}: {answer:?}");
        }
    }
}
