//! A record as it is searched: which of its fields, with what weight.

use crate::episode::Episode;
use crate::lexical::{Bm25Params, Field, PreparedDoc, prepare};
use crate::text::{Analyzer, Phrase};
use crate::time::Moment;

/// k1 of records (measured: plateau from .8 to 1.2 on dialogue and abstracts).
const K1: f32 = 1.0;
/// b of records: turns and notes differ less in length than in how much they say.
const B: f32 = 0.5;

/// Version of what is searched of a record and with what weight: part of the identity of an index.
pub(super) const WEIGHTS: &str = "w1";

/// Field weights, in halves.
const TITLE: u8 = 6;
const LABEL: u8 = 6;
const TEXT: u8 = 2;
const BODY: u8 = 1;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// BM25 constants for records.
pub(super) fn bm25() -> Bm25Params {
    Bm25Params::new(K1, B).unwrap_or_default()
}

/// The record as terms. Pure: runs before any lock is taken.
pub(super) fn prepared(analyzer: &Analyzer, episode: &Episode) -> PreparedDoc {
    let date = dates(episode.occurred_at);
    prepare(analyzer, &fields(episode, &date))
}

/// Whether one of the texts that are searched of a record holds a phrase.
pub(super) fn holds(analyzer: &Analyzer, episode: &Episode, phrase: &Phrase) -> bool {
    let date = dates(episode.occurred_at);
    fields(episode, &date).iter().any(|field| analyzer.holds(field.text, phrase))
}

/// What is searched of a record.
fn fields<'e>(episode: &'e Episode, date: &'e str) -> Vec<Field<'e>> {
    fn field(text: &str, weight_halves: u8) -> Field<'_> {
        Field { text, weight_halves }
    }
    let mut fields = vec![field(&episode.summary, TEXT), field(date, TEXT)];
    fields.extend(episode.title.as_deref().map(|text| field(text, TITLE)));
    fields.extend(episode.body.as_deref().map(|text| field(text, BODY)));
    fields.extend(episode.actor.as_deref().map(|text| field(text, TEXT)));
    fields.extend(episode.key_decisions.iter().map(|text| field(text, TEXT)));
    fields.extend(episode.tags.iter().chain(&episode.files_modified).map(|text| field(text, LABEL)));
    fields
}

/// The date in the three forms people ask for it: `2023-05-08 8 May 2023 2023年5月8日`.
fn dates(at: Moment) -> String {
    let (year, month, day) = at.date();
    let name = MONTHS[usize::try_from(month - 1).unwrap_or(0) % 12];
    format!("{year:04}-{month:02}-{day:02} {day} {name} {year} {year}年{month}月{day}日")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_written_three_ways() {
        assert_eq!(dates("2023-05-08T12:00:00Z".parse().unwrap()), "2023-05-08 8 May 2023 2023年5月8日");
        assert_eq!(
            dates("2023-12-31T23:30:00-08:00".parse().unwrap()),
            "2023-12-31 31 December 2023 2023年12月31日"
        );
    }
}
