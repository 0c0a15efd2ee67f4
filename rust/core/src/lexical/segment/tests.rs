use super::*;
use crate::lexical::{Field, prepare};
use crate::text::{Analyzer, AnalyzerKind, Language};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn plain() -> Analyzer {
    Analyzer::new(AnalyzerKind::Plain, Language::Off)
}

/// Terms with frequencies in quarters, of each document; None for an empty place.
type Model = Vec<Option<BTreeMap<String, u32>>>;

fn build(model: &Model, kept: impl Fn(u32) -> bool) -> Segment {
    let mut builder = SegmentBuilder::default();
    for (doc, number) in model.iter().zip(0..) {
        let Some(doc) = doc else {
            builder.skip();
            continue;
        };
        let text: String = doc.iter().map(|(term, tf)| format!("{term} ").repeat(*tf as usize / 4)).collect();
        let fields = [Field { text: &text, weight_halves: 2 }];
        if number % 2 == 0 {
            builder.push(&prepare(&plain(), &fields));
        } else {
            builder.push_fields(&plain(), &fields);
        }
    }
    opened(|out| builder.write(out, kept))
}

fn opened(
    write: impl FnOnce(&mut crate::sections::SectionWriter<&mut crate::sections::Image>) -> std::io::Result<()>,
) -> Segment {
    let sections = Sections::in_memory(write).unwrap();
    sections.check_all().unwrap();
    Segment::open(&sections).unwrap()
}

/// A segment holds exactly what the model has, whichever way one looks at it.
fn assert_holds(segment: &Segment, model: &Model) {
    let len = |doc: &Option<BTreeMap<String, u32>>| doc.as_ref().map_or(0, |doc| doc.values().sum::<u32>());
    assert_eq!(segment.lens(), model.iter().map(len).collect::<Vec<_>>());
    assert_eq!(segment.total_len(), model.iter().map(|doc| u64::from(len(doc))).sum::<u64>());
    let mut lists: BTreeMap<&[u8], Vec<(u32, u32)>> = BTreeMap::new();
    for (doc, number) in model.iter().zip(0..) {
        let terms = doc.iter().flatten();
        terms.for_each(|(term, tf)| lists.entry(term.as_bytes()).or_default().push((number, *tf)));
        let mut listed = Vec::new();
        segment.terms_of(number, |term, tf| listed.push((segment.names().name(term).to_vec(), tf)));
        let expected = doc.iter().flatten().map(|(term, tf)| (term.as_bytes().to_vec(), *tf));
        assert_eq!(listed, expected.collect::<Vec<_>>());
    }
    assert_eq!(segment.names().len(), lists.len());
    for ((name, list), rank) in lists.iter().zip(0..) {
        assert_eq!(segment.names().name(rank), *name);
        assert_eq!(segment.names().rank(name, Names::hash(name)), Some(rank));
        let postings = segment.postings(rank);
        let mut read = Vec::new();
        postings.each(|doc, tf| read.push((doc, tf)));
        assert_eq!(&read, list);
        assert_eq!(postings.doc_freq as usize, list.len());
        let frequency = |doc| list.iter().find(|(d, _)| *d == doc).map_or(0, |(_, tf)| *tf);
        assert!((0..model.len() as u32 + 2).all(|doc| postings.tf(doc) == frequency(doc)));
        assert_eq!(postings.bounds.is_some(), list.len() >= FREQUENT);
        if let Some(Bounds(pairs)) = postings.bounds {
            let covered = |(doc, tf): &(u32, u32)| {
                let len = len(&model[*doc as usize]);
                pairs.iter().any(|[most, least]| most >= tf && *least <= len)
            };
            assert!(list.iter().all(covered), "{pairs:?}");
        }
    }
    assert_eq!(segment.postings(lists.len() as u32).doc_freq, 0);
}

/// Many documents of few terms, so that some terms have bounds, rows and frequencies that no byte holds.
fn model(docs: usize) -> impl Strategy<Value = Model> {
    let term = prop_oneof![8 => "[a-c]", 4 => "[d-h][a-c]", 1 => "[a-z]{3,14}"];
    let tf = prop_oneof![12 => 1..4u32, 4 => 4..70u32, 1 => 62..66u32, 1 => 100..2000u32];
    let doc = prop::collection::btree_map(term, tf.prop_map(|tf| tf * 4), 0..8);
    prop::collection::vec(prop::option::weighted(0.95, doc), 0..docs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_segment_is_its_documents(model in model(600), dropped in prop::collection::btree_set(0..600u32, 0..20)) {
        assert_holds(&build(&model, |_| true), &model);
        let mut rest = model.clone();
        for (doc, number) in rest.iter_mut().zip(0..) {
            if dropped.contains(&number) {
                *doc = None;
            }
        }
        assert_holds(&build(&model, |doc| !dropped.contains(&doc)), &rest);
    }

    #[test]
    fn merging_is_building_from_all(models in prop::collection::vec(model(250), 0..4), seed in any::<u64>(), gaps in 0..5usize) {
        // Every document gets a number of a shuffled row, some none.
        let count: usize = models.iter().map(Vec::len).sum();
        let mut row: Vec<u32> = (0..(count + gaps) as u32).collect();
        let mut state = seed | 1;
        for at in (1..row.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            row.swap(at, (state >> 33) as usize % (at + 1));
        }
        let mut expected: Model = vec![None; count + gaps];
        let mut next = row.into_iter();
        let segments: Vec<Segment> = models.iter().map(|model| build(model, |_| true)).collect();
        let mut numbers: Vec<Vec<u32>> = Vec::new();
        for (model, at) in models.iter().zip(0..) {
            // The first source keeps its order, as all do in an index; the others come in any.
            let mut own: Vec<u32> = next.by_ref().take(model.len()).collect();
            if at == 0 {
                own.sort_unstable();
            }
            for (number, doc) in own.iter_mut().zip(model) {
                if *number % 7 == 3 {
                    *number = DROPPED;
                } else {
                    expected[*number as usize].clone_from(doc);
                }
            }
            numbers.push(own);
        }
        let sources: Vec<Source<'_>> =
            segments.iter().zip(&numbers).map(|(segment, numbers)| Source { segment, numbers }).collect();
        let merged = opened(|out| merge(out, &sources, expected.len() as u32));
        assert_holds(&merged, &expected);
    }
}

#[test]
fn a_segment_of_another_layout_is_refused() {
    let model: Model = vec![Some(BTreeMap::from([("red".to_owned(), 4)]))];
    let sections = |change: fn(&mut [u64])| {
        let segment = build(&model, |_| true);
        Sections::in_memory(|out| {
            let mut head = [LAYOUT, 1, 1, 4, 64];
            change(&mut head);
            out.section(LENS, segment.lens())?;
            out.section(DOCS, &segment.docs)?;
            out.section(TFS, &segment.tfs)?;
            out.section(POST, &segment.post)?;
            out.section(FREQUENTS, &segment.frequents)?;
            out.section(ROWS, &segment.rows)?;
            out.section(OVER, &segment.over)?;
            out.section(FORWARD, &segment.forward)?;
            out.section(FORWARD_ENDS, &segment.forward_ends)?;
            out.section(HEAD, &head)?;
            Names::write(out, DICTIONARY, &[&b"red"[..]].into_iter())
        })
        .unwrap()
    };
    assert_eq!(Segment::open(&sections(|_| {})).unwrap().num_docs(), 1);
    let newer = Segment::open(&sections(|head| head[0] = 2));
    assert!(matches!(newer, Err(Error::FormatTooNew { found: 2, supported: 1, .. })));
    let changes: [fn(&mut [u64]); 3] = [|head| head[1] = 2, |head| head[2] = 0, |head| head[4] = 128];
    for change in changes {
        assert!(matches!(Segment::open(&sections(change)), Err(Error::StoreCorrupt { .. })));
    }
}

proptest! {
    #[test]
    fn a_word_that_is_remembered_gives_the_terms_of_one_that_is_analysed(
        docs in prop::collection::vec(
            prop::collection::vec(("([a-zA-Zé中_0-9]{1,5}[ .,;:'-]{1,2}){0,30}", 0..7u8), 1..3), 1..12),
        plain_words: bool,
        language in prop::sample::select(vec![Language::English, Language::German, Language::Off]),
    ) {
        let kind = if plain_words { AnalyzerKind::Plain } else { AnalyzerKind::Default };
        let analyzer = Analyzer::new(kind, language);
        let (mut remembering, mut analysing) = (SegmentBuilder::default(), SegmentBuilder::default());
        for doc in &docs {
            let fields = doc.iter().map(|(text, weight_halves)| Field { text, weight_halves: *weight_halves });
            let fields: Vec<Field<'_>> = fields.collect();
            remembering.push_fields(&analyzer, &fields);
            analysing.push(&prepare(&analyzer, &fields));
        }
        let [one, other] =
            [remembering, analysing].map(|builder| opened(|out| builder.write(out, |_| true)));
        prop_assert_eq!(one.lens(), other.lens());
        for doc in 0..docs.len() as u32 {
            let [one, other] = [&one, &other].map(|segment| {
                let mut terms = Vec::new();
                segment.terms_of(doc, |term, tf| terms.push((segment.names().name(term).to_vec(), tf)));
                terms
            });
            prop_assert_eq!(one, other);
        }
    }
}
