//! Whether the copy in memory is the one that the store gives.

use super::Engine;
use super::heal::wrong_with;
use super::served::{self, Served};
use crate::error::Result;
use crate::ids::DocId;
use crate::index::disk::Directory;
use crate::index::{Index, query_refused};
use crate::lexical::Readable;
use crate::store::{Problem, ProblemKind, Verified};
use crate::vector::{Effort, UnitRow};
use std::sync::PoisonError;

/// How often the comparison begins anew when somebody writes meanwhile.
const ATTEMPTS: usize = 5;

impl Engine {
    /// Checks the rows of the open store against each other; for one in RAM, which has no file to look at.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn verify_rows(&self) -> Result<Verified> {
        self.store.verify_rows()
    }

    /// Compares the copy that questions are asked of, once it has caught up, with one built anew: the same records,
    /// words, statistics, vectors. A handle that was never asked has no copy, and nothing to compare.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn verify_index(&self) -> Result<Vec<Problem>> {
        if let Some(damage) = self.index_damage() {
            let wrong = wrong_with(&damage);
            let detail = if self.options.read_only {
                format!("{wrong}; open the memory writable once to build the index anew")
            } else if self.went_on_without_graph(&damage)? {
                format!(
                    "{wrong}; vectors are compared one by one until `otolith compact` builds the graph anew"
                )
            } else {
                self.rebuild()?;
                format!("{wrong}; the index was built anew")
            };
            return Ok(vec![Problem {
                kind: ProblemKind::Index,
                table: String::new(),
                id: String::new(),
                detail,
            }]);
        }
        if !self.has_copy() {
            return Ok(Vec::new());
        }
        for _ in 0..ATTEMPTS {
            let fresh = served::build(&self.store, &self.analyzer, self.embedder().as_deref())?;
            let served = self.served()?;
            if served.position() == fresh.position() {
                return Ok(differences(&served, &fresh));
            }
        }
        // Under so many writes the copy is compared as far as it can be another time.
        Ok(Vec::new())
    }

    /// Whether there is a copy in memory or on disk.
    fn has_copy(&self) -> bool {
        let on_disk = |directory: &Directory| directory.newest().is_ok_and(|newest| newest > 0);
        self.served.read().unwrap_or_else(PoisonError::into_inner).index().is_some()
            || self.upkeep.directory.as_ref().is_some_and(on_disk)
    }
}

/// What a walk on the graphs should find of the ten nearest.
const ENOUGH: f64 = 0.95;
/// Stored vectors that are asked for their nearest.
const SAMPLE: usize = 200;

impl Engine {
    /// Share of the ten nearest to stored vectors that the vector leg finds, 0 to 1, over [`SAMPLE`] of them spread evenly;
    /// None where it compares all and finds all, or was never asked.
    ///
    /// # Errors
    /// Store errors.
    pub fn graph_recall(&self) -> Result<Option<f64>> {
        if !self.has_copy() {
            return Ok(None);
        }
        let served = self.served()?;
        let Some(index) = served.index() else { return Ok(None) };
        let vectors = index.vectors();
        let docs: Vec<DocId> =
            index.live().ones().map(|doc| DocId(doc as u32)).filter(|doc| vectors.contains(*doc)).collect();
        let (mut found, mut all) = (0, 0);
        for doc in docs.iter().step_by((docs.len() / SAMPLE).max(1)).take(SAMPLE) {
            let Some(row) = vectors.rows_of(*doc).next().map(|row| row.half.to_f32()) else { continue };
            let Ok(row) = UnitRow::new(&row, vectors.dim()) else { continue };
            let look = |effort| vectors.look(&row, 10, None, effort).map_err(query_refused);
            let own = look(Effort { exact_below: Some(0), ..Effort::default() })?;
            if own.walked == 0 {
                return Ok(None);
            }
            let exact = look(Effort { exact: true, ..Effort::default() })?;
            let least = exact.found.get(9).or(exact.found.last()).map_or(f32::NEG_INFINITY, |last| last.1);
            // Those that are tied with the last are as good.
            found += own.found.iter().take(10).filter(|(_, cosine)| *cosine >= least).count();
            all += exact.found.len().min(10);
        }
        Ok((all > 0).then(|| found as f64 / all as f64))
    }
}

/// What is wrong with a graph that finds so much: None if that is enough.
pub fn graph_problem(recall: f64) -> Option<Problem> {
    (recall < ENOUGH).then(|| Problem {
        kind: ProblemKind::Index,
        table: String::new(),
        id: String::new(),
        detail: format!(
            "the graph over the vectors finds {recall:.3} of the ten nearest, {ENOUGH} is wanted; run `otolith compact`"
        ),
    })
}

fn differences(served: &Served, fresh: &Served) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut tell = |id: String, detail: &str| {
        let detail = format!("{detail}; close and open the memory to build its index anew");
        problems.push(Problem { kind: ProblemKind::Index, table: String::new(), id, detail });
    };
    let (Some(index), Some(other)) = (served.index(), fresh.index()) else { return problems };
    if served.embedder() != fresh.embedder() {
        tell(String::new(), "the index serves the vectors of another embedder");
    }
    let (words, other_words) = (Readable::new(index.lexical()), Readable::new(other.lexical()));
    if words.totals() != other_words.totals() || index.num_docs() != other.num_docs() {
        tell(String::new(), "the index counts other documents or lengths than the store has");
    }
    if words.doc_freqs() != other_words.doc_freqs() {
        tell(String::new(), "the index counts terms otherwise than the store has them");
    }
    let all = |copy: &Served, index: &Index| copy.in_order(index.live(), false, None, usize::MAX);
    let (have, want) = (all(served, index), all(fresh, other));
    let (mut have, mut want) = (have.iter().peekable(), want.iter().peekable());
    loop {
        let (held, wanted) = match (have.peek(), want.peek()) {
            (None, None) => break,
            (Some(row), Some(expected)) if row.id == expected.id => (have.next(), want.next()),
            (Some(row), expected) if expected.is_none_or(|e| row.id < e.id) => (have.next(), None),
            _ => (None, want.next()),
        };
        let (Some(row), Some(twin)) = (held, wanted) else {
            let detail = match held {
                Some(_) => "the index has a record that the store has not",
                None => "the index has not the record",
            };
            if let Some(row) = held.or(wanted) {
                tell(row.id.to_string(), detail);
            }
            continue;
        };
        let in_memory = (served.record(row.doc), fresh.record(twin.doc));
        let other_record = matches!(in_memory, (Some(own), Some(twin)) if own.fields != twin.fields);
        if other_record || served.fields(row.doc) != fresh.fields(twin.doc) {
            tell(row.id.to_string(), "the index has other fields of the record than the store");
        }
        if words.document(row.doc) != other_words.document(twin.doc)
            || words.doc_len(row.doc) != other_words.doc_len(twin.doc)
        {
            tell(row.id.to_string(), "the index has other words of the record than the store");
        }
        let same_rows = index.vectors().rows_of(row.doc).eq(other.vectors().rows_of(twin.doc));
        if row.vectors != twin.vectors || !same_rows {
            tell(row.id.to_string(), "the index has other vectors of the record than the store");
        }
    }
    if index.vectors().mean() != other.vectors().mean() {
        tell(String::new(), "the index has another mean of all vectors than the store gives");
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::{EngineOptions, Put};
    use super::*;
    use crate::episode::EpisodePatch;
    use crate::store::Wait;

    fn put(engine: &Engine, summary: &str, vector: &[f32]) -> crate::ids::RecordId {
        let fields = EpisodePatch { summary: Some(summary.to_owned()), ..EpisodePatch::default() };
        let put = Put { fields, vector: Some(vector.to_vec()), ..Put::default() };
        engine.put(&Wait::default(), put).unwrap().episode.id
    }

    #[test]
    fn a_copy_that_followed_is_the_same_and_one_that_missed_something_is_not() {
        let engine = Engine::in_memory(EngineOptions::default()).unwrap();
        let first = put(&engine, "red apples", &[1.0, 0.0]);
        assert_eq!(engine.verify_index().unwrap(), [], "no copy yet");
        drop(engine.served().unwrap());
        for n in 0..50 {
            put(&engine, &format!("number {n}"), &[0.1, n as f32 + 1.0]);
        }
        engine.forget(&Wait::default(), vec![first]).unwrap();
        assert_eq!(engine.verify_index().unwrap(), []);
        let second = put(&engine, "green pears", &[0.5, 0.5]);
        drop(engine.served().unwrap());
        // What a missed change would leave: the words of a record that the index never heard of.
        let other = Engine::in_memory(EngineOptions::default()).unwrap();
        put(&other, "something else", &[0.5, 0.5]);
        drop(other.served().unwrap());
        let (served, strange) = (engine.served().unwrap(), other.served().unwrap());
        let found = differences(&strange, &served);
        assert!(found.iter().all(|problem| problem.kind == ProblemKind::Index));
        let ids: Vec<&str> = found.iter().map(|problem| problem.id.as_str()).collect();
        assert!(ids.contains(&second.to_string().as_str()) && ids.len() > 50, "{ids:?}");
        assert_eq!(differences(&served, &served), []);
    }
}
