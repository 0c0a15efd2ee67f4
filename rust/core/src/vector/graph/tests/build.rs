//! What building promises: the same bytes, whatever happens on the way.

use super::super::scratch::Scratch;
use super::*;

#[test]
fn the_smallest_inputs_have_graphs() {
    for width in [1, 3, 64, 1_537] {
        for count in [1, 2, 3, 40] {
            let data = TestRows::clustered(count, width);
            let graph = graph(data.rows(), 10);
            let query = Query8::new(&data.questions[0]);
            let walked = graph.walk(&query, data.rows(), 50);
            assert!(walked.is_whole && walked.found.len() == count, "{count} x {width}: {walked:?}");
        }
    }
    let none = Builder::new(CodeRows::new(3, &[], &[]).unwrap()).unwrap();
    let nothing = Sections::from_bytes(&bytes(&none)).unwrap();
    assert!(Graph::open(&nothing).unwrap().is_none());
}

#[test]
fn rows_that_are_all_equal_are_one_and_its_twins() {
    let data = TestRows::of(vec![vec![0.6, 0.8]; 700], vec![vec![1.0, 0.0]]);
    let graph = graph(data.rows(), 2_000);
    let walked = graph.walk(&Query8::new(&[1.0, 0.0]), data.rows(), 650);
    assert_eq!(walked.found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), (0..650).collect::<Vec<_>>());
    assert_eq!((graph.nodes, graph.walk(&Query8::new(&[1.0, 0.0]), data.rows(), 900).found.len()), (1, 700));
}

#[test]
fn the_same_rows_give_the_same_bytes_with_every_kernel() {
    let data = TestRows::clustered(900, 100).with_twins(10, 30);
    let first = bytes(&built(data.rows(), 200));
    let walked = |bytes: &[u8]| -> Vec<Walked> {
        let graph = opened(bytes);
        data.questions.iter().map(|question| graph.walk(&Query8::new(question), data.rows(), 40)).collect()
    };
    let found = walked(&first);
    assert!(Kernel::all().len() > 1 || cfg!(not(target_arch = "x86_64")));
    for level in Simd::ALL {
        Simd::set(Some(level));
        assert!(bytes(&built(data.rows(), 200)) == first, "{level:?}");
        assert!(walked(&first) == found, "{level:?}");
    }
    Simd::set(None);
}

#[test]
fn interruptions_change_nothing() {
    let data = TestRows::clustered(1_200, 40).with_twins(7, 50);
    let whole = bytes(&built(data.rows(), 200));
    let mut random = Random(3);
    let mut saved: Option<Vec<u8>> = None;
    let mut rounds = 0;
    loop {
        let mut builder = match &saved {
            None => Builder::new(data.rows()).unwrap(),
            Some(saved) => Builder::from_graph(data.rows(), &opened(saved)).unwrap().unwrap(),
        }
        .with_seed(200);
        let asked = std::cell::Cell::new(0);
        let patience = random.next() % 20 + if saved.is_none() { 200 } else { 0 };
        let stop = || asked.replace(asked.get() + 1) >= patience;
        rounds += 1;
        if builder.step(150, &stop).unwrap() {
            assert_eq!(builder.finish(), 0);
            assert!(bytes(&builder) == whole && rounds > 8, "{rounds}");
            return;
        }
        let (done, all) = builder.progress();
        assert!(done < all && all == 1_200);
        if done > 0 {
            saved = Some(bytes(&builder));
        }
    }
}

#[test]
fn a_seed_that_was_stopped_is_begun_anew() {
    let data = TestRows::clustered(300, 8);
    let mut builder = Builder::new(data.rows()).unwrap().with_seed(200);
    let asked = std::cell::Cell::new(0);
    assert!(!builder.step(10, &|| asked.replace(asked.get() + 1) == 50).unwrap());
    assert_eq!(builder.progress(), (0, 300));
    assert!(builder.step(usize::MAX, &|| false).unwrap());
    builder.finish();
    assert!(bytes(&builder) == bytes(&built(data.rows(), 200)));
}

#[test]
fn a_finished_graph_is_taken_over_by_a_larger_segment() {
    let data = TestRows::clustered(1_600, 48).with_twins(9, 70);
    let first = TestRows::of(data.floats[..1_000].to_vec(), Vec::new());
    let small = opened(&bytes(&built(first.rows(), 300)));
    let mut builder = Builder::from_graph(data.rows(), &small).unwrap().unwrap();
    assert_eq!(builder.progress(), (1_000, 1_600));
    assert!(builder.step(usize::MAX, &|| false).unwrap());
    assert_eq!(builder.finish(), 0);
    let graph = opened(&bytes(&builder));
    let recall = data.recall(|_| true, |query| graph.walk(query, data.rows(), 96));
    assert!(recall >= 0.98, "{recall}");
}

#[test]
fn the_graph_of_other_rows_is_not_taken_over() {
    let data = TestRows::clustered(400, 16).with_twins(5, 20);
    let graph = graph(data.rows(), 100);
    let fewer = TestRows::of(data.floats[..399].to_vec(), Vec::new());
    assert!(Builder::from_graph(fewer.rows(), &graph).unwrap().is_none());
    let mut floats = data.floats.clone();
    floats.reverse();
    assert!(Builder::from_graph(TestRows::of(floats, Vec::new()).rows(), &graph).unwrap().is_none());
}

#[test]
fn what_no_path_leads_to_is_linked_again() {
    let data = TestRows::clustered(600, 16);
    let pairs = super::super::super::codes::Pairs::new(data.rows());
    let mut all = built(data.rows(), 100);
    let twins = Twins::find(data.rows());
    // A full graph of rows that only the first ones lead to: every list holds rows 0 to 31.
    for full in [false, true] {
        let mut links = super::super::links::Links::with_capacity(600);
        for row in 0..600_u32 {
            links.add(0);
            for next in 0..if full { 33 } else { 20 } {
                if next != row {
                    links.push(row, 0, next, pairs.cosine(row, next));
                }
            }
        }
        links.enter_at(0, 0);
        assert!(unreachable(&links, &twins).len() > 560);
        assert_eq!(super::super::repair::repair(&mut links, data.rows(), &twins, &mut Scratch::default()), 0);
        assert!(unreachable(&links, &twins).is_empty());
    }
    assert_eq!(all.finish(), 0);
}

/// Rows of few values, so that many are equal and more are equally near.
fn can_be_reached_and_found(width: usize, values: u64, count: usize, seed: usize, random: u64) {
    let random = &mut Random(random);
    let mut row = || -> Vec<f32> {
        let row: Vec<f32> = (0..width).map(|_| (random.next() % values) as f32 - 1.0).collect();
        let row = if row.iter().all(|x| *x == 0.0) { vec![1.0; width] } else { row };
        UnitRow::new(&row, None).unwrap().into_vec()
    };
    let data = TestRows::of((0..count).map(|_| row()).collect(), vec![row()]);
    let builder = built(data.rows(), seed);
    let graph = opened(&bytes(&builder));
    let query = Query8::new(&data.questions[0]);
    let all = graph.walk(&query, data.rows(), count);
    assert_eq!((all.found.len(), all.is_whole), (count, true));
    let some = graph.walk_among(&query, data.rows(), (count, usize::MAX), (count, 0.01), |row| row % 3 == 0);
    assert_eq!((some.found.len(), some.is_whole), (count.div_ceil(3), true));
    assert!(all.found.iter().filter(|(row, _)| row % 3 == 0).eq(&some.found));
    for at in 0..count {
        let query = Query8::of_row(data.rows().row(at), data.rows().scale(at));
        let walked = graph.walk(&query, data.rows(), count);
        assert!(walked.found.iter().any(|(row, _)| *row as usize == at));
    }
}

#[test]
fn what_only_the_entry_point_leads_to_is_found() {
    // The higher layers lead to a row that does not lead back.
    can_be_reached_and_found(6, 2, 53, 1, 10_391_003_100_030_187_136);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_can_be_reached_and_found(
        width in 1..9_usize,
        values in 1..5_u64,
        count in 1..260_usize,
        seed in 1..60_usize,
        random in any::<u64>(),
    ) {
        can_be_reached_and_found(width, values, count, seed, random);
    }
}
