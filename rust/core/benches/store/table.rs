//! Measured times, and the table they are printed in.

use std::fmt;
use std::time::Duration;

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Times of one kind, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(ms(time));
    }

    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[(sorted.len() - 1) * percent / 100]
    }

    /// The median of what each took more than the one of `other` in the same turn.
    fn median_excess(&self, other: &Self) -> f64 {
        Self(self.0.iter().zip(&other.0).map(|(mine, other)| mine - other).collect()).p50()
    }

    pub(crate) fn p50(&self) -> f64 {
        self.percentile(50)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, middle, high] = [10, 50, 95].map(|percent| self.percentile(percent));
        if middle < 0.1 {
            write!(f, "{:.1} / {:.1} / {:.1} µs", low * 1000.0, middle * 1000.0, high * 1000.0)
        } else {
            write!(f, "{low:.2} / {middle:.2} / {high:.2} ms")
        }
    }
}

struct Row {
    what: String,
    target: String,
    measured: String,
    over_floor: String,
    reached: Option<bool>,
}

/// The results in the order they were taken.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    fn add(
        &mut self,
        what: &str,
        target: String,
        measured: String,
        over_floor: String,
        reached: Option<bool>,
    ) {
        eprintln!("{what}: {measured}");
        self.0.push(Row { what: what.to_owned(), target, measured, over_floor, reached });
    }

    /// Something to know, without a target.
    pub(crate) fn fact(&mut self, what: &str, measured: String) {
        self.add(what, String::new(), measured, String::new(), None);
    }

    /// A number and whether it is good.
    pub(crate) fn value(&mut self, what: &str, target: &str, measured: f64, unit: &str, reached: bool) {
        let measured = if measured == 0.0 { format!("0{unit}") } else { format!("{measured:.2}{unit}") };
        self.add(what, target.to_owned(), measured, String::new(), Some(reached));
    }

    /// Times beside the sync floor.
    pub(crate) fn times(&mut self, what: &str, target: &str, times: &Times, floor: Option<&Times>) {
        self.add(what, target.to_owned(), times.to_string(), over(times, floor), None);
    }

    /// Times of which the median has a bound, in milliseconds.
    pub(crate) fn bound(&mut self, what: &str, bound: f64, times: &Times, floor: Option<&Times>) {
        let target =
            if bound < 1.0 { format!("<= {:.0} µs", bound * 1000.0) } else { format!("<= {bound:.1} ms") };
        self.add(what, target, times.to_string(), over(times, floor), Some(times.p50() <= bound));
    }

    /// Two kinds that were taken in turns, percentile by percentile. The median has a bound.
    pub(crate) fn ratio(&mut self, what: &str, bound: f64, times: &Times, base: &Times) {
        let [low, middle, high] =
            [10, 50, 95].map(|percent| times.percentile(percent) / base.percentile(percent));
        // What one costs more than the other beside it: steadier than the medians where the disk is not.
        let paired = 1.0 + times.median_excess(base) / base.p50();
        let measured = format!("{low:.2} / {middle:.2} / {high:.2}, paired {paired:.2}");
        self.add(what, format!("<= {bound}"), measured, String::new(), Some(middle <= bound));
    }
}

fn over(times: &Times, floor: Option<&Times>) -> String {
    floor.map_or_else(String::new, |floor| format!("{:.1}", times.p50() / floor.p50()))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | target (p50) | measured (p10 / p50 / p95) | p50 over sync floor | reached |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        for Row { what, target, measured, over_floor, reached } in &self.0 {
            let reached = reached.map_or("", |reached| if reached { "yes" } else { "**no**" });
            writeln!(f, "| {what} | {target} | {measured} | {over_floor} | {reached} |")?;
        }
        Ok(())
    }
}
