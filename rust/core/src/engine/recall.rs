//! One question: filter, rank, fetch, report.

use super::Engine;
use super::graphs;
use super::read::known_in;
use super::report::{Analysis, Coverage, FilterEffect, Hit, LegReport, Report};
use super::served::{self, Served, VectorState};
use super::vectors::no_vectors;
use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::fusion::{self, Fusion, Scored, Weights};
use crate::ids::{DocId, RecordId};
use crate::index::{self, Ask, Index, Ranking};
use crate::query::Filter;
use crate::relevance;
use crate::text::Query;
use crate::vector::UnitRow;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Attempts to answer from one state of the store while others write.
const ATTEMPTS: usize = 4;

/// Which ways of searching are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legs {
    /// By words.
    pub lexical: bool,
    /// By vector.
    pub vector: bool,
}

impl Default for Legs {
    fn default() -> Self {
        Self { lexical: true, vector: true }
    }
}

/// A question.
#[derive(Debug, Clone)]
pub struct Recall<'a> {
    /// Words, in any language. Without words and vector, the newest records are listed.
    pub query: Option<&'a str>,
    /// Vector of the handle's embedder.
    pub vector: Option<&'a [f32]>,
    /// Fingerprint of the embedder that made it; that of the handle if None.
    pub vector_embedder: Option<&'a str>,
    /// Why there is no vector, for the report.
    pub vector_reason: Option<&'a str>,
    /// Most hits wanted.
    pub k: usize,
    /// Which records may be found.
    pub filter: Filter,
    /// Whether hits carry the tree behind their score.
    pub explain: bool,
    /// Hits below it are left out.
    pub min_relevance: f64,
    /// How scores are joined.
    pub fusion: Fusion,
    /// What each leg weighs.
    pub weights: Weights,
    /// Which legs are wanted.
    pub legs: Legs,
}

impl Default for Recall<'_> {
    fn default() -> Self {
        Self {
            query: None,
            vector: None,
            vector_embedder: None,
            vector_reason: None,
            k: 10,
            filter: Filter::default(),
            explain: false,
            min_relevance: 0.0,
            fusion: Fusion::default(),
            weights: Weights::default(),
            legs: Legs::default(),
        }
    }
}

/// A hit before its record is fetched.
struct Found {
    id: RecordId,
    hit: Unfetched,
}

struct Unfetched {
    score: f64,
    relevance: f64,
    parts: Vec<(&'static str, f64)>,
    matched_terms: Vec<String>,
    explanation: Option<crate::explain::Explanation>,
}

/// What was found, and its records; an error there when one is lost.
struct Answer {
    report: Report,
    found: Vec<Found>,
    episodes: Result<Vec<Option<Arc<Episode>>>>,
}

fn ids(found: &[Found]) -> Vec<RecordId> {
    found.iter().map(|found| found.id).collect()
}

impl Engine {
    /// Answers a question from everything committed before it began, by whichever process.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a floor outside 0 to 1, [`Error::DimensionMismatch`] for a vector of another width,
    /// store errors.
    pub fn recall(&self, ask: &Recall<'_>) -> Result<Report> {
        let start = Instant::now();
        if !(0.0..=1.0).contains(&ask.min_relevance) {
            return Err(Error::invalid("min_relevance", "must be within 0 and 1"));
        }
        let fits = self.fits(&ask.filter);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let answer = match self.answer_at_once(ask, &fits)? {
                Some(answer) => answer,
                None => self.answer_in_turn(ask, &fits)?,
            };
            let Answer { mut report, found, episodes } = answer;
            let episodes = match episodes {
                Err(lost) => {
                    if attempt >= ATTEMPTS {
                        return Err(lost);
                    }
                    self.distrust(lost)?;
                    continue;
                }
                Ok(episodes) => episodes,
            };
            // A record that went away between ranking and reading: ask again, a few times.
            if episodes.iter().any(Option::is_none) && attempt < ATTEMPTS {
                continue;
            }
            report.hits = found
                .into_iter()
                .zip(episodes)
                .filter_map(|(found, episode)| {
                    let Unfetched { score, relevance, parts, matched_terms, explanation } = found.hit;
                    Some(Hit { episode: episode?, score, relevance, parts, matched_terms, explanation })
                })
                .collect();
            report.elapsed_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            return Ok(report);
        }
    }

    /// The answer of one snapshot, when the copy is as far as the store is: it tells that, and holds the records. None
    /// when there is something to do first.
    fn answer_at_once(&self, ask: &Recall<'_>, fits: impl Fn(&Episode) -> bool) -> Result<Option<Answer>> {
        if self.upkeep.watch.wants_look() {
            self.call_keeper();
        }
        self.store.read(|view| {
            let now = served::position(view)?;
            let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
            if !served.is_current(now) {
                return Ok(None);
            }
            let (report, found) = self.search(&served, ask)?;
            let recent = served.recent();
            let episodes = known_in(view, &ids(&found), Some(now), |id| {
                let known = recent.and_then(|recent| recent.get(id));
                let episode = match known {
                    Some(episode) => Some(episode),
                    None => view.episode(id)?.map(Arc::new).inspect(|episode| {
                        // The copy cannot move on while it is held: what the snapshot says is what it says.
                        if let Some(recent) = recent {
                            recent.keep(episode);
                        }
                    }),
                };
                Ok(episode.filter(|episode| fits(episode)))
            });
            Ok(Some(Answer { report, found, episodes }))
        })
    }

    /// The same, with the copy brought there first.
    fn answer_in_turn(&self, ask: &Recall<'_>, fits: impl Fn(&Episode) -> bool) -> Result<Answer> {
        let ((report, found), from) = {
            let served = self.served()?;
            (self.search(&served, ask)?, served.position())
        };
        let episodes = self.known(&ids(&found), from, fits);
        let episodes = episodes.map(|found| found.into_iter().map(|found| found.map(Arc::new)).collect());
        Ok(Answer { report, found, episodes })
    }

    fn search(&self, served: &Served, ask: &Recall<'_>) -> Result<(Report, Vec<Found>)> {
        let mut allowed = served.select(&ask.filter, &self.options.scope);
        let text = ask.query.map(str::trim).filter(|text| !text.is_empty());
        let query = text.map(|text| self.read(text)).filter(|query| !query.is_empty());
        let (vector, vector_reason) = self.query_vector(served, ask)?;
        let lexical_reason = match (ask.legs.lexical, text, &query) {
            (false, ..) => Some("not asked for"),
            (true, None, _) => Some("no words in the question"),
            (true, Some(_), None) => Some("the question holds nothing that can be searched"),
            (true, Some(_), Some(_)) => None,
        };
        if let Some(query) = query.as_ref().filter(|query| !query.phrases.is_empty()) {
            self.keep_phrases(served, query, &mut allowed)?;
        }
        let phrases =
            query.iter().flat_map(|query| &query.phrases).map(|phrase| phrase.text.clone()).collect();
        let query = query.filter(|_| ask.legs.lexical);
        let analysis = Analysis {
            text: ask.query.unwrap_or_default().to_owned(),
            terms: query.as_ref().map_or_else(Vec::new, surfaces),
            expansions: Vec::new(),
            phrases,
            analyzer: self.analyzer,
        };
        let mut report = Report {
            hits: Vec::new(),
            legs: vec![leg("lexical", lexical_reason.map(ToOwned::to_owned)), leg("vector", vector_reason)],
            analysis,
            filters: allowed.effects.iter().map(|e| FilterEffect { name: e.name, left: e.left }).collect(),
            asked_for: ask.k,
            considered: allowed.count(),
            served: allowed.total,
            below_relevance: 0,
            unreadable: served.left_out(),
            coverage: self.coverage_of(served),
            elapsed_us: 0,
        };
        let Some(index) = served.index().filter(|_| ask.k > 0) else { return Ok((report, Vec::new())) };
        let newest = |doc: DocId| (Reverse(served.occurred_at(doc)), served.id(doc));
        if query.is_none() && vector.is_none() {
            // Words that hold nothing to search, or a leg that cannot run, find nothing; no question at all lists.
            let found = if ask.query.is_none() && ask.vector.is_none() {
                served.newest(&allowed.docs, ask.k)
            } else {
                Vec::new()
            };
            let found = found.into_iter().filter_map(|doc| served.id(doc).map(plain));
            return Ok((report, found.collect()));
        }
        let question = Ask {
            query: query.as_ref(),
            vector: vector.as_ref(),
            allowed: (!allowed.all).then_some(&*allowed.docs),
            // A floor may leave out any of the best: then all that match are judged.
            k: if ask.min_relevance > 0.0 { usize::MAX } else { ask.k },
            fusion: ask.fusion,
            weights: ask.weights,
            effort: graphs::effort(),
            centred: true,
        };
        let mut ranking = index.rank(&question).map_err(index::query_refused)?;
        report.legs[0].candidates = ranking.lexical_found;
        report.legs[1].candidates = ranking.vector_found;
        report.legs[1].method = vector.as_ref().map(|_| match ranking.vectors_seen {
            (_, 0) => "exact",
            (0, _) => "graph",
            _ => "graph and exact",
        });
        report.analysis.expansions = ranking.expansions();
        let scored = std::mem::take(&mut ranking.scored);
        let judge = Judge {
            index,
            ranking: &ranking,
            mean: vector.as_ref().and_then(|_| index.vectors().mean()),
            vector: vector.as_ref(),
        };
        let (scored, below) = judge.keep(scored, ask.min_relevance);
        report.below_relevance = below;
        let best = fusion::select(scored, ask.k, ranking.order(newest));
        let found = best.iter().filter_map(|scored| {
            let id = served.id(scored.raw.doc)?;
            Some(Found { id, hit: describe(&question, &judge, scored, ask.explain) })
        });
        let found = found.collect();
        Ok((report, found))
    }

    /// A question as it is searched.
    fn read(&self, text: &str) -> Query {
        let mut query = self.analyzer.query_with(text, &self.options.synonyms);
        query.expansion = self.options.expansion;
        query
    }

    /// The question's vector, or why the vector leg does not run.
    fn query_vector(&self, served: &Served, ask: &Recall<'_>) -> Result<(Option<UnitRow>, Option<String>)> {
        let reason = |reason: &str| Ok((None, Some(reason.to_owned())));
        if !ask.legs.vector {
            return reason("not asked for");
        }
        let Some(row) = ask.vector else {
            let blank = ask.query.is_none_or(|query| query.trim().is_empty());
            let none = if blank { "no question" } else { "no embedder" };
            return reason(ask.vector_reason.unwrap_or(none));
        };
        if ask.vector_embedder.is_some_and(|made| self.embedder().as_deref() != Some(made)) {
            return reason("the embedder of this handle changed while the question was asked; ask it again");
        }
        if let Some(why) = self.vectors_unusable(served) {
            return Ok((None, Some(why)));
        }
        let Some(dim) = served.embedder().map(|e| e.dim as usize) else {
            return reason(&no_vectors(&self.coverage_of(served)));
        };
        let row = index::query_row(row, Some(dim))?;
        if served.index().is_none_or(|index| index.vectors().is_empty()) {
            return reason(&no_vectors(&self.coverage_of(served)));
        }
        Ok((Some(row), None))
    }

    /// Coverage over the records of this handle.
    pub(super) fn coverage_of(&self, served: &Served) -> Coverage {
        let states = served.states(&self.options.scope);
        let count = |state: VectorState| states[state as usize];
        Coverage {
            total: states.iter().sum(),
            vectorized: count(VectorState::Current),
            pending: count(VectorState::Pending),
            stale: count(VectorState::Stale),
            dimension_mismatches: count(VectorState::Mismatch),
            refused: count(VectorState::Refused),
            dim: served.embedder().map(|e| e.dim as usize),
            embedder: self.embedder().or_else(|| served.embedder().map(|e| e.fingerprint.clone())),
        }
    }
}

fn leg(name: &'static str, reason: Option<String>) -> LegReport {
    LegReport { name, ran: reason.is_none(), reason, candidates: 0, method: None }
}

/// The words of a question as they were written, each once.
fn surfaces(query: &Query) -> Vec<String> {
    let mut seen = FxHashSet::default();
    let terms = query.terms.iter().filter(|term| seen.insert(term.surface.as_str()));
    terms.map(|term| term.surface.clone()).collect()
}

fn plain(id: RecordId) -> Found {
    let hit = Unfetched {
        score: 0.0,
        relevance: 0.0,
        parts: Vec::new(),
        matched_terms: Vec::new(),
        explanation: None,
    };
    Found { id, hit }
}

/// Judges relevance, which needs more than the score.
struct Judge<'a> {
    index: &'a Index,
    ranking: &'a Ranking<'a>,
    mean: Option<Vec<f64>>,
    vector: Option<&'a UnitRow>,
}

impl Judge<'_> {
    fn relevance(&self, scored: &Scored) -> f64 {
        let mass = f64::from(self.ranking.mass(scored.raw.doc));
        match (self.vector, &self.mean) {
            (Some(query), Some(mean)) if scored.raw.cosine.is_some() => {
                let rows = self.index.vectors().rows_of(scored.raw.doc);
                let cosines =
                    rows.map(|row| relevance::centred_cosine(&row.half.to_f32(), query.as_slice(), mean));
                relevance::hybrid(mass, cosines.fold(-1.0, f64::max))
            }
            _ => relevance::lexical(mass),
        }
    }

    /// The candidates of at least this relevance, and how many were less.
    fn keep(&self, scored: Vec<Scored>, floor: f64) -> (Vec<Scored>, usize) {
        if floor <= 0.0 {
            return (scored, 0);
        }
        let before = scored.len();
        let kept: Vec<Scored> = scored.into_iter().filter(|s| self.relevance(s) >= floor).collect();
        let below = before - kept.len();
        (kept, below)
    }
}

fn describe(ask: &Ask<'_>, judge: &Judge<'_>, scored: &Scored, explain: bool) -> Unfetched {
    Unfetched {
        score: scored.score,
        relevance: judge.relevance(scored),
        parts: index::Parts::of(scored).named().collect(),
        matched_terms: judge.ranking.matched_terms(scored.raw.doc),
        explanation: explain.then(|| judge.ranking.explain(ask, scored)),
    }
}
