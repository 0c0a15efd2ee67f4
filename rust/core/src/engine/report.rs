//! What an answer says.

use crate::episode::{Episode, Trust};
use crate::error::counted;
use crate::explain::Explanation;
use crate::text::Analyzer;
use std::ops::Range;
use std::sync::Arc;

/// One result.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The record, as it was when the answer was made.
    pub episode: Arc<Episode>,
    /// Orders the answer, 0 to 1.
    pub score: f64,
    /// How likely it is about the question at all, 0 to 1, the same scale for every query.
    pub relevance: f64,
    /// Raw `bm25` and `cosine`, scaled `lexical` and `vector`, as far as they count.
    pub parts: Vec<(&'static str, f64)>,
    /// Words of the question that it holds, as they were asked.
    pub matched_terms: Vec<String>,
    /// The tree behind the score, when asked for.
    pub explanation: Option<Explanation>,
}

impl Hit {
    /// What may be relied on.
    pub fn trust(&self) -> Trust {
        self.episode.trust
    }
}

/// What became of one way of searching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegReport {
    /// `lexical` or `vector`.
    pub name: &'static str,
    /// Whether it ran.
    pub ran: bool,
    /// Why it did not.
    pub reason: Option<String>,
    /// How many records it put forward: its best ones, more than were asked for when two legs are joined.
    pub candidates: usize,
    /// How the vector leg went about it: `exact` when it compared every vector that may be found, `graph` when it walked
    /// on graphs, `graph and exact` for both: what has no graph yet is compared.
    pub method: Option<&'static str>,
}

/// Name of the effect of phrases: how many records hold them.
pub(super) const PHRASE: &str = "phrase";
/// How many more hold the words of all phrases and were not read.
pub(super) const PHRASE_NOT_CHECKED: &str = "phrase_not_checked";

/// One condition of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterEffect {
    /// Name of the field.
    pub name: &'static str,
    /// How many of the handle's records it alone leaves.
    pub left: usize,
}

/// How the question was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// Its text.
    pub text: String,
    /// The terms that were searched, as they were written.
    pub terms: Vec<String>,
    /// Words that were taken for others as well, each with these, best first.
    pub expansions: Vec<(String, Vec<String>)>,
    /// What stood in quotation marks.
    pub phrases: Vec<String>,
    /// What read it.
    pub analyzer: Analyzer,
}

impl Analysis {
    /// Where a text holds what was asked for or what it was taken for, as [`Analyzer::spans`] has it.
    pub fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let words = self.expansions.iter().flat_map(|(_, words)| words.iter().map(String::as_str));
        self.analyzer.spans_with(text, &self.analyzer.query(&self.text), words)
    }
}

/// How many records have vectors: `total` is the sum of the five counts after it, always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Records served.
    pub total: usize,
    /// Searched by vector.
    pub vectorized: usize,
    /// Not embedded yet.
    pub pending: usize,
    /// Embedded when their text was another.
    pub stale: usize,
    /// Given a vector of another width.
    pub dimension_mismatches: usize,
    /// Given a vector that cannot be searched: zero, NaN, infinite.
    pub refused: usize,
    /// Width, once known.
    pub dim: Option<usize>,
    /// Fingerprint of the embedder counted for.
    pub embedder: Option<String>,
}

impl Coverage {
    /// Share of records searched by vector; 1 when there are none.
    pub fn ratio(&self) -> f64 {
        if self.total == 0 { 1.0 } else { self.vectorized as f64 / self.total as f64 }
    }

    /// Records that only words can find.
    pub fn bm25_only(&self) -> usize {
        self.total - self.vectorized
    }

    /// Whether vectors of another width were given.
    pub fn has_dimension_mismatch(&self) -> bool {
        self.dimension_mismatches > 0
    }
}

/// The answer to one question.
#[derive(Debug, Clone)]
pub struct Report {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Lexical, then vector.
    pub legs: Vec<LegReport>,
    /// How the question was read.
    pub analysis: Analysis,
    /// Each condition with what it alone leaves.
    pub filters: Vec<FilterEffect>,
    /// How many hits were asked for.
    pub asked_for: usize,
    /// Records left by all conditions together: those that could have been found.
    pub considered: usize,
    /// Records the handle serves, before the filter.
    pub served: usize,
    /// Hits that were dropped for too little relevance.
    pub below_relevance: usize,
    /// Records that are in no answer because their rows are damaged.
    pub unreadable: usize,
    /// State of the vectors.
    pub coverage: Coverage,
    /// Time from question to answer, in microseconds.
    pub elapsed_us: u64,
}

impl Report {
    /// Why there are no hits, in sentences; empty when there are some.
    pub fn why_empty(&self) -> String {
        if !self.hits.is_empty() {
            return String::new();
        }
        if self.asked_for == 0 {
            return "No hits were asked for (k = 0).".to_owned();
        }
        let mut why = vec![match (self.served, self.considered) {
            (0, _) => "The memory holds no records here.".to_owned(),
            (_, 0) if self.phrase_alone() => self.why_no_phrase(),
            (served, 0) => format!("The filters left none of {}.", counted(served, "record")),
            (served, considered) if served == considered => {
                format!("Searched {}.", counted(served, "record"))
            }
            (served, considered) => format!("Searched {considered} of {}.", counted(served, "record")),
        }];
        if self.unreadable > 0 {
            why.push(format!("{} could not be read: see `otolith status`.", self.unreadable));
        }
        let effects: Vec<String> =
            self.asked_filters().map(|f| format!("{} leaves {}", f.name, f.left)).collect();
        if self.considered < self.served && !effects.is_empty() {
            why.push(format!("Filters, each alone: {}.", effects.join(", ")));
            if self.left_by(PHRASE) == Some(0) {
                why.push(self.why_no_phrase());
            }
        }
        if self.considered > 0 {
            if !self.analysis.terms.is_empty() {
                why.push(format!("Words searched: {}.", self.analysis.terms.join(", ")));
            }
            for leg in &self.legs {
                why.push(match &leg.reason {
                    Some(reason) => format!("No {} search: {reason}.", leg.name),
                    None => format!("The {} search found {}.", leg.name, leg.candidates),
                });
            }
            if self.below_relevance > 0 {
                why.push(format!("{} were below the asked relevance.", self.below_relevance));
            }
        }
        why.join(" ")
    }

    /// The filters that were asked for as such.
    fn asked_filters(&self) -> impl Iterator<Item = &FilterEffect> {
        self.filters.iter().filter(|filter| ![PHRASE, PHRASE_NOT_CHECKED].contains(&filter.name))
    }

    fn left_by(&self, name: &str) -> Option<usize> {
        self.filters.iter().find(|filter| filter.name == name).map(|filter| filter.left)
    }

    /// Whether nothing but quotation marks narrowed the search.
    fn phrase_alone(&self) -> bool {
        self.left_by(PHRASE) == Some(0) && self.asked_filters().next().is_none()
    }

    fn why_no_phrase(&self) -> String {
        let phrases: Vec<String> =
            self.analysis.phrases.iter().map(|phrase| format!("\"{phrase}\"")).collect();
        let found = match self.left_by(PHRASE_NOT_CHECKED) {
            Some(unread) => format!(
                "None of the records that were read holds {}; {unread} more hold its words and were not read.",
                phrases.join(" and ")
            ),
            None => format!("No record holds {} as it stands in quotation marks.", phrases.join(" and ")),
        };
        format!("{found} Without the marks its words are searched.")
    }
}
