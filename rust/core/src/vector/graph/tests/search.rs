//! What walks find.

use super::*;

#[test]
fn most_of_the_nearest_are_found() {
    for (data, seed, ef, least) in [
        (TestRows::clustered(3_000, 384), 300, 128, 0.99),
        (TestRows::clustered(3_000, 384), 2_000, 128, 0.99),
        (TestRows::clustered(2_000, 64), 200, 64, 0.97),
        (TestRows::uniform(3_000, 16), 300, 128, 0.99),
        (TestRows::uniform(3_000, 3), 300, 64, 0.99),
    ] {
        let graph = graph(data.rows(), seed);
        let recall = data.recall(|_| true, |query| graph.walk(query, data.rows(), ef));
        assert!(recall >= least, "{} x {}, ef {ef}: {recall}", data.floats.len(), data.width);
    }
}

#[test]
fn every_row_finds_itself() {
    for data in [
        TestRows::clustered(2_000, 384),
        TestRows::uniform(2_000, 8),
        TestRows::uniform(2_000, 48).with_twins(2, 100),
        TestRows::uniform(2_000, 2),
    ] {
        let graph = graph(data.rows(), 250);
        for row in 0..data.floats.len() {
            let query = Query8::of_row(data.rows().row(row), data.rows().scale(row));
            let walked = graph.walk(&query, data.rows(), 64);
            assert!(walked.is_whole && walked.found.len() == 64);
            assert!(
                walked.found.iter().any(|(found, _)| *found as usize == row),
                "{row} of width {}",
                data.width
            );
        }
    }
}

#[test]
fn all_twins_are_found() {
    let data = TestRows::clustered(1_500, 32).with_twins(3, 12);
    let graph = graph(data.rows(), 100);
    assert!(graph.nodes < 1_100 && graph.len() == 1_500);
    for row in 0..12 {
        let same: Vec<u32> =
            (0..1_500).filter(|other| data.floats[*other as usize] == data.floats[row]).collect();
        let query = Query8::of_row(data.rows().row(row), data.rows().scale(row));
        let walked = graph.walk(&query, data.rows(), same.len());
        assert_eq!(walked.found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), same);
        // Of twins whose first is not accepted the others are found.
        let odd: Vec<u32> = same.iter().copied().filter(|row| row % 2 == 1).collect();
        let walked = graph
            .walk_among(&query, data.rows(), (odd.len().max(1), usize::MAX), (1, 0.1), |row| row % 2 == 1);
        if !odd.is_empty() {
            assert_eq!(walked.found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), odd);
        }
    }
}

#[test]
fn filters_and_tombstones_apply_on_the_way() {
    let data = TestRows::clustered(3_000, 96);
    let graph = graph(data.rows(), 300);
    let mut random = Random(5);
    let drawn: Vec<u64> = (0..3_000).map(|_| random.next() % 100).collect();
    for (percent, told) in [(10, 0.1), (50, 0.01), (50, 0.5), (70, 0.01), (70, 0.7), (10, 0.9)] {
        let accept = |row: u32| drawn[row as usize] < percent;
        let mut short = 0;
        let recall = data.recall(accept, |query| {
            let walked = graph.walk_among(query, data.rows(), (64, usize::MAX), (64, told), accept);
            assert!(walked.found.iter().all(|(row, _)| accept(*row)) && !walked.is_all);
            short += usize::from(!walked.is_whole || walked.found.len() < 48);
            walked
        });
        assert!(recall >= 0.97 && short == 0, "{percent} %: {recall}, {short} walks were short");
    }
}

#[test]
fn a_walk_says_whether_it_found_all_there_is() {
    let data = TestRows::clustered(1_000, 24);
    let graph = graph(data.rows(), 100);
    let query = Query8::new(&data.questions[0]);
    let few = graph.walk_among(&query, data.rows(), (64, usize::MAX), (64, 0.01), |row| row % 100 == 0);
    assert!(few.is_whole && few.is_all && few.found.len() == 10 && few.compared == 1_000);
    let given_up = graph.walk_among(&query, data.rows(), (64, 300), (64, 0.01), |row| row % 100 == 0);
    assert!(!given_up.is_whole && !given_up.is_all && given_up.found.len() < 10);
    let none = graph.walk_among(&query, data.rows(), (64, usize::MAX), (64, 0.5), |_| false);
    assert!(none.is_whole && none.found.is_empty());
    let all = graph.walk(&query, data.rows(), 5_000);
    assert!(all.is_whole && all.is_all && all.found.len() == 1_000);
    let nothing = graph.walk(&query, data.rows(), 0);
    assert!(nothing.is_whole && nothing.found.is_empty());
}

#[test]
fn a_walk_within_a_walk_is_its_own() {
    let data = TestRows::clustered(500, 24);
    let graph = graph(data.rows(), 100);
    let query = Query8::new(&data.questions[0]);
    let plain = graph.walk(&query, data.rows(), 20);
    let nested = graph.walk_among(&query, data.rows(), (20, usize::MAX), (20, 1.0), |_| {
        graph.walk(&query, data.rows(), 20) == plain
    });
    assert_eq!(nested.found, plain.found);
}

#[test]
fn a_graph_of_the_first_rows_is_one_of_these() {
    let data = TestRows::clustered(900, 24);
    let mut builder = Builder::new(data.rows()).unwrap().with_seed(100);
    assert!(!builder.step(400, &|| false).unwrap());
    let graph = opened(&bytes(&builder));
    assert_eq!((graph.len(), builder.progress()), (500, (500, 900)));
    let recall = data.recall(|row| row < 500, |query| graph.walk(query, data.rows(), 64));
    assert!(recall > 0.95, "{recall}");
}
