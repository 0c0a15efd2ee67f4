use super::*;
use crate::error::Error;

fn sizes(columns: &Columns) -> Vec<(String, usize)> {
    columns.sections.sizes().map(|(name, size)| (name.to_string(), size)).collect()
}

#[test]
fn what_no_record_has_takes_no_bytes() {
    let episodes: Vec<Episode> = (0..100).map(blank).collect();
    let columns = columns(&episodes, &[0; 100]);
    let wanted: Vec<(String, usize)> = [
        ("c.ids", 1600),
        ("c.time", 800),
        ("c.zone", 32),
        ("c.active", 32),
        ("c.impo.v", 8),
        ("c.stat.v", 6),
        ("c.stat.e", 4),
        ("c.srce.v", 4),
        ("c.srce.e", 4),
        ("c.orig.v", 4),
        ("c.orig.e", 4),
        ("c.trst.v", 7),
        ("c.trst.e", 4),
        ("c.kind.v", 7),
        ("c.kind.e", 4),
    ]
    .map(|(name, size)| (name.to_owned(), size))
    .into();
    assert_eq!(sizes(&columns), wanted);
}

/// Bytes as the description in `columns` says: files of one version are read by the next.
#[test]
fn sections_are_as_they_are_described() {
    let mut episodes: Vec<Episode> = (0..70).map(blank).collect();
    episodes[0].working_dir = Some("/b".into());
    episodes[1].working_dir = Some("/a".into());
    episodes[0].importance = 0.25;
    for (n, episode) in episodes.iter_mut().enumerate() {
        episode.session_id = Some("s".into());
        if n < 2 || n == 64 {
            episode.tags.push("often".into());
        }
    }
    episodes[69].tags = vec!["once".into(), "once".into()];
    episodes[1].metadata.insert("run".into(), MetaValue::Int(258));
    let mut states = [0; 70];
    states[2] = 7;
    let columns = columns(&episodes, &states);
    let bytes = |name| columns.sections.array::<u8>(SectionName::new(name)).unwrap().to_vec();
    let numbers = |name| columns.sections.array::<u32>(SectionName::new(name)).unwrap().to_vec();
    assert_eq!(bytes("c.ids")[16..32], *id(1).as_bytes());
    assert_eq!(bytes("c.time")[8..16], 1_001_i64.to_le_bytes());
    let zones = [1_000_i64, 1_063, 1_064, 1_069].map(i64::to_le_bytes).concat();
    assert_eq!(bytes("c.zone"), zones);
    assert_eq!(numbers("c.active"), [69, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bytes("c.vect")[..4], [0, 0, 7, 0]);
    assert_eq!(bytes("c.impo.v"), [0.25_f64.to_le_bytes(), 0.5_f64.to_le_bytes()].concat());
    assert_eq!(bytes("c.impo.o")[..3], [1, 2, 2]);
    assert_eq!((bytes("c.dir.v"), numbers("c.dir.e")), (b"/a/b".to_vec(), vec![2, 4]));
    assert_eq!(bytes("c.dir.o")[..3], [2, 1, 0]);
    assert_eq!(bytes("c.sess.v"), b"s");
    assert!(!columns.sections.has(SectionName::new("c.sess.o")));
    assert_eq!((bytes("c.tags.v"), numbers("c.tags.e")), (b"oftenonce".to_vec(), vec![5, 9]));
    // Three documents of 70 are as many numbers as 70 bits take words.
    assert_eq!((numbers("c.tags.s"), numbers("c.tags.l")), (vec![3, 4], vec![0b11, 0, 1, 69]));
    assert_eq!(bytes("c.meta.v"), *b"\x03runi\x02\x01\0\0\0\0\0\0");
    assert_eq!((numbers("c.meta.s"), numbers("c.meta.l")), (vec![1], vec![1]));
}

#[test]
fn documents_come_in_the_order_of_their_ids() {
    for second in [5, 4] {
        let mut builder = built(&[blank(5)], &[0]);
        assert!(matches!(builder.push(&blank(second), 0), Err(Error::Internal(_))), "{second}");
    }
    let mut builder = ColumnsBuilder::default();
    assert!(matches!(builder.push(&blank(5), VECTOR_STATES as u8), Err(Error::Internal(_))));
    let part = columns(&[blank(1), blank(2)], &[0, 0]);
    for order in [vec![(0, DocId(1)), (0, DocId(0))], vec![(0, DocId(2))], vec![(1, DocId(0))]] {
        assert!(matches!(merge(&[&part], &order), Err(Error::Internal(_))), "{order:?}");
    }
}

#[test]
fn a_segment_without_documents_is_one() {
    let columns = columns(&[], &[]);
    let selection = columns.select(&Filter::default(), &Scope::root(), None);
    assert_eq!((columns.num_docs(), selection.total, selection.docs.len()), (0, 0, 0));
    assert!(columns.newest(&selection.docs, 3).is_empty() && merge(&[&columns], &[]).is_ok());
}
