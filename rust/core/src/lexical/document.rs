//! A document ready for insertion: analysed outside of any lock.

use crate::ids::TermId;
use crate::text::Analyzer;
use crate::text::term_table::{TermTable, hash};

/// One field of a document.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    /// Its text.
    pub text: &'a str,
    /// Its weight in halves: 2 counts once, 6 three times, 1 half; 0 leaves it out.
    pub weight_halves: u8,
}

/// Distinct terms of a document with their weighted frequencies.
#[derive(Debug, Clone, Default)]
pub struct PreparedDoc {
    terms: TermTable,
    /// Term frequency by number of the term, in quarters.
    tfs: Vec<u32>,
    /// Sum of the frequencies, in quarters.
    len: u32,
}

impl PreparedDoc {
    /// A document of these terms, each once, with their frequencies in quarters.
    pub(crate) fn of_terms<'t>(terms: impl Iterator<Item = (&'t [u8], u32)>) -> Self {
        let mut doc = Self::default();
        for (term, tf) in terms {
            let TermId(number) = doc.terms.intern(term, hash(term));
            if number as usize == doc.tfs.len() {
                doc.tfs.push(tf);
                doc.len = doc.len.saturating_add(tf);
            }
        }
        doc
    }

    /// How many distinct terms the document has.
    pub fn num_terms(&self) -> usize {
        self.terms.len()
    }

    /// Weighted length: the sum of all term frequencies.
    pub fn doc_len(&self) -> f32 {
        self.len as f32 / super::bm25::QUARTERS
    }

    /// Length in quarters.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Distinct terms in order of first appearance.
    pub(super) fn terms(&self) -> &TermTable {
        &self.terms
    }

    /// Frequency of each term, in quarters, in the same order.
    pub(super) fn tfs(&self) -> &[u32] {
        &self.tfs
    }
}

/// Analyses the fields of a document. Pure, so that it can be done outside of the index's lock.
///
/// Frequencies saturate at 2^30 occurrences of weight 1.
pub fn prepare(analyzer: &Analyzer, fields: &[Field<'_>]) -> PreparedDoc {
    let bytes: usize = fields.iter().map(|field| field.text.len()).sum();
    // English text has a distinct term (stem or surface form) about every five bytes; long texts repeat themselves.
    let mut doc = PreparedDoc {
        terms: TermTable::with_capacity((bytes / 4).clamp(8, 2048)),
        tfs: Vec::with_capacity((bytes / 4).clamp(8, 2048)),
        len: 0,
    };
    weighted_terms(*analyzer, fields, |term, hash, quarters| {
        let TermId(number) = doc.terms.intern(term, hash);
        match doc.tfs.get_mut(number as usize) {
            Some(tf) => *tf = tf.saturating_add(quarters),
            None => doc.tfs.push(quarters),
        }
        doc.len = doc.len.saturating_add(quarters);
    });
    doc
}

/// Calls `each` with every term of the fields, in order, its hash, and what it counts, in quarters.
fn weighted_terms(analyzer: Analyzer, fields: &[Field<'_>], mut each: impl FnMut(&[u8], u32, u32)) {
    for field in fields.iter().filter(|field| field.weight_halves > 0) {
        let weight = u32::from(field.weight_halves);
        analyzer.each_hashed_term(field.text, |term, hash, halves| {
            each(term, hash, weight * u32::from(halves));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_folded_into_one_frequency_and_length() {
        let fields = [
            Field { text: "Rust", weight_halves: 6 },
            Field { text: "rust runs, running", weight_halves: 1 },
            Field { text: "unseen", weight_halves: 0 },
        ];
        let doc = prepare(&Analyzer::default(), &fields);
        let terms: Vec<_> =
            doc.terms().iter().zip(doc.tfs()).map(|((_, term, _), &tf)| (term.to_vec(), tf)).collect();
        let expected = [("rust", 14), ("=rust", 7), ("run", 4), ("=runs", 1), ("=running", 1)];
        assert_eq!(terms, expected.map(|(term, tf)| (term.as_bytes().to_vec(), tf)));
        assert_eq!(doc.len(), 27);
    }
}
