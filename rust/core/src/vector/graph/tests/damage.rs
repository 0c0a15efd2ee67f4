//! A damaged file costs answers, never more.

use super::*;

/// Where the sections lie: head and foot of the file have checksums of their own.
fn sections_of(bytes: &[u8]) -> std::ops::Range<usize> {
    let sizes: usize =
        Sections::from_bytes(bytes).unwrap().sizes().map(|(_, size)| size.next_multiple_of(64)).sum();
    64..64 + sizes
}

#[test]
fn walks_on_damaged_graphs_end_and_never_panic() {
    for width in [20, 130] {
        walk_on_damaged(&TestRows::clustered(700, width).with_twins(6, 40));
    }
}

fn walk_on_damaged(data: &TestRows) {
    let whole = bytes(&built(data.rows(), 150));
    let range = sections_of(&whole);
    let random = &mut Random(17);
    let (mut refused, mut walked, mut taken_over) = (0, 0, 0);
    for image in 0..300 {
        let mut bytes = whole.clone();
        // A few flips anywhere, many of them, or whole words, which are numbers of rows far off.
        for _ in 0..[1, 16, 400][image % 3] {
            let at = range.start + random.next() as usize % (range.len() - 4);
            match random.next() % 3 {
                0 => bytes[at] ^= 1 << (random.next() % 8),
                1 => bytes[at & !3..][..4].fill(random.next() as u8),
                _ => bytes[at] = random.next() as u8,
            }
        }
        let Ok(Some(graph)) = Graph::open(&Sections::from_bytes(&bytes).unwrap()) else {
            refused += 1;
            continue;
        };
        for question in &data.questions[..5] {
            let query = Query8::new(question);
            let all = graph.walk(&query, data.rows(), 64);
            let some = graph.walk_among(&query, data.rows(), (64, usize::MAX), (64, 0.5), |row| row % 2 == 0);
            let rows = || all.found.iter().chain(&some.found);
            assert!(rows().all(|(row, _)| *row < 700) && all.found.len() <= 64);
            walked += 1;
        }
        if let Some(mut builder) = Builder::from_graph(data.rows(), &graph).unwrap() {
            builder.step(usize::MAX, &|| false).unwrap();
            builder.finish();
            taken_over += 1;
        }
        let fewer = TestRows::of(data.floats[..300].to_vec(), Vec::new());
        graph.walk(&Query8::new(&data.questions[0]), fewer.rows(), 64);
    }
    assert!(refused > 0 && walked > 500 && taken_over > 0, "{refused} {walked} {taken_over}");
}

#[test]
fn a_head_that_does_not_fit_is_refused_and_damage_is_found() {
    let data = TestRows::clustered(100, 20);
    let whole = bytes(&built(data.rows(), 150));
    Graph::check(&Sections::from_bytes(&whole).unwrap()).unwrap();
    for (at, value) in
        [(0, 0), (0, 101), (0, u64::MAX), (1, 101), (2, 100), (2, u64::MAX), (3, 16), (3, u64::MAX)]
    {
        let mut bytes = whole.clone();
        bytes[64 + 8 * at..][..8].copy_from_slice(&value.to_le_bytes());
        let sections = Sections::from_bytes(&bytes).unwrap();
        assert!(Graph::open(&sections).is_err() && Graph::check(&sections).is_err(), "{at} {value}");
    }
}

#[test]
fn codes_that_are_damaged_give_a_graph_all_the_same() {
    let data = TestRows::clustered(300, 20);
    let random = &mut Random(23);
    let mut codes: Vec<u8> = (0..300).flat_map(|row| data.rows().row(row).to_vec()).collect();
    let mut scales = data.rows().scales().to_vec();
    for _ in 0..60 {
        let at = random.next() as usize % codes.len();
        codes[at] = random.next() as u8;
        scales[random.next() as usize % 300] = f32::from_bits(random.next() as u32 * 2);
    }
    scales[7] = f32::NAN;
    let rows = CodeRows::new(20, &codes, &scales).unwrap();
    for seed in [30, 300] {
        let mut builder = Builder::new(rows).unwrap().with_seed(seed);
        assert!(builder.step(usize::MAX, &|| false).unwrap());
        builder.finish();
        let graph = opened(&bytes(&builder));
        assert!(!graph.walk(&Query8::new(&data.questions[0]), rows, 64).found.is_empty());
    }
}
