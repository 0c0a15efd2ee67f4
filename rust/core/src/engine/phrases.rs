//! Phrases in quotation marks: a record without one is no answer.

use super::Engine;
use super::document;
use super::report::{PHRASE, PHRASE_NOT_CHECKED};
use super::served::Served;
use crate::columns::{Effect, Selection};
use crate::error::Result;
use crate::ids::DocId;
use crate::text::Query;
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::cmp::Reverse;

/// Of the records that hold all words of all phrases so many are read to see whether they stand in order: the best by
/// words.
const CHECKED: usize = 2_000;

impl Engine {
    /// Leaves in `allowed` the records that hold the phrases of a question. Their words are looked for in the index, their
    /// order in the texts themselves.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub(super) fn keep_phrases(
        &self,
        served: &Served,
        query: &Query,
        allowed: &mut Selection<'_>,
    ) -> Result<()> {
        let Some(index) = served.index() else { return Ok(()) };
        for phrase in &query.phrases {
            if let Some(docs) = index.lexical().holding_all(&phrase.terms, &allowed.docs) {
                allowed.docs = Cow::Owned(docs);
            }
        }
        let mut docs: Vec<DocId> = allowed.docs.ones().map(|doc| DocId(doc as u32)).collect();
        let unread = docs.len().saturating_sub(CHECKED);
        if unread > 0 {
            let mut best = index.lexical().top(query, CHECKED, Some(&allowed.docs));
            let newest = |doc: DocId| (Reverse(served.occurred_at(doc)), served.id(doc));
            best.sort_unstable_by(|a, b| {
                b.score.total_cmp(&a.score).then_with(|| newest(a.doc).cmp(&newest(b.doc)))
            });
            best.truncate(CHECKED);
            let found: FxHashSet<DocId> = best.iter().map(|found| found.doc).collect();
            // Words that every record holds, and stop words, choose none of them: then the newest.
            docs.retain(|doc| !found.contains(doc));
            docs.sort_by_cached_key(|doc| newest(*doc));
            docs.truncate(CHECKED - best.len());
            docs.extend(found);
        }
        let left = allowed.docs.to_mut();
        left.clear();
        allowed.all = false;
        self.store.read(|view| {
            for doc in docs {
                let episode = served.id(doc).map(|id| view.episode(id)).transpose()?.flatten();
                let holds = episode.is_some_and(|episode| {
                    query.phrases.iter().all(|phrase| document::holds(&self.analyzer, &episode, phrase))
                });
                left.set(doc.index(), holds);
            }
            Ok(())
        })?;
        allowed.effects.push(Effect { name: PHRASE, left: allowed.docs.count_ones(..) });
        if unread > 0 {
            allowed.effects.push(Effect { name: PHRASE_NOT_CHECKED, left: unread });
        }
        Ok(())
    }
}
