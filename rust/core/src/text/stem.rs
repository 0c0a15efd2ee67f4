//! English stems, cached: text repeats its words, and a look-up costs a fifth of stemming.

use super::term_table::hash;
use frostem::{Algorithm, Stemmer};
use std::cell::Cell;

/// First byte of a surface form. No other term begins with it, so a surface form never equals another word's stem.
pub(super) const SURFACE: char = '=';
/// Places for words per thread, a power of two: about 1.5 MB when full. A word takes the place of another one.
const PLACES: usize = 1 << 15;
/// Words that are longer, or whose stem is, are stemmed each time: they do not repeat.
const MAX_BYTES: usize = 21;

thread_local! {
    static CACHE: Cell<Option<Box<StemCache>>> = const { Cell::new(None) };
}

/// Runs `job` with this thread's cache. A nested call gets a cache of its own.
pub(super) fn with_cache<R>(job: impl FnOnce(&mut StemCache) -> R) -> R {
    let mut cache = CACHE.take().unwrap_or_else(|| Box::new(StemCache::new()));
    let result = job(&mut cache);
    CACHE.set(Some(cache));
    result
}

/// Stem and surface form of words seen: a direct-mapped cache of one memory line a word.
pub(super) struct StemCache {
    stemmer: Stemmer,
    places: Vec<Place>,
}

/// `=word` and, from `stem_start`, the stem; `stem_start` is 0 in an empty place.
#[derive(Clone, Copy)]
struct Place {
    bytes: [u8; 46],
    stem_start: u8,
    end: u8,
}

impl StemCache {
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::new(Algorithm::English), places: Vec::new() }
    }

    /// Calls `with` with the stem and the surface form of a folded ASCII word.
    pub(super) fn forms(&mut self, word: &str, with: impl FnOnce(&[u8], &[u8])) {
        if word.len() > MAX_BYTES {
            return with(self.stemmer.stem(word).as_bytes(), format!("{SURFACE}{word}").as_bytes());
        }
        if self.places.is_empty() {
            self.places = vec![Place { bytes: [0; 46], stem_start: 0, end: 0 }; PLACES];
        }
        let place = &mut self.places[hash(word.as_bytes()) as usize % PLACES];
        let middle = word.len() + 1;
        if usize::from(place.stem_start) != middle || &place.bytes[1..middle] != word.as_bytes() {
            let stem = self.stemmer.stem(word);
            let end = middle + stem.len();
            if end > place.bytes.len() {
                return with(stem.as_bytes(), format!("{SURFACE}{word}").as_bytes());
            }
            place.bytes[0] = SURFACE as u8;
            place.bytes[1..middle].copy_from_slice(word.as_bytes());
            place.bytes[middle..end].copy_from_slice(stem.as_bytes());
            (place.stem_start, place.end) = (middle as u8, end as u8);
        }
        with(&place.bytes[middle..usize::from(place.end)], &place.bytes[..middle]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_and_fresh_forms_agree_also_when_nested_and_when_displaced() {
        let mut calls = 0_usize;
        let mut forms = |word: &str| {
            calls += 1;
            with_cache(|cache| {
                let mut got = (Vec::new(), Vec::new());
                cache.forms(word, |stem, surface| {
                    got = (stem.to_owned(), surface.to_owned());
                    if calls.is_multiple_of(10_000) {
                        with_cache(|inner| inner.forms("nested", |stem, _| assert_eq!(stem, b"nest")));
                    }
                });
                got
            })
        };
        let stemmer = Stemmer::new(Algorithm::English);
        let words: Vec<String> = (0..PLACES * 3)
            .map(|n| {
                format!("{}{}", "y".repeat(n % 30), ["running", "skies", "a", "hopefulness"][n % 4])
                    + &n.to_string()
            })
            .chain(["running", "sky", "y", "", "internationalizations"].map(String::from))
            .collect();
        for word in words.iter().chain(&words[..1000]).chain(&words) {
            let (stem, surface) = forms(word);
            assert_eq!(stem, stemmer.stem(word).as_bytes(), "{word}");
            assert_eq!(surface, format!("={word}").as_bytes());
        }
    }
}
