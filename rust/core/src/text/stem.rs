//! Stems, cached: text repeats its words, and a look-up costs a tenth of stemming.

use super::Language;
use super::term_table::hash;
use crate::prefetch::prefetch;
use frostem::Stemmer;
use std::cell::Cell;

/// First byte of a surface form. No other term begins with it, so a surface form never equals another word's stem.
pub(super) const SURFACE: char = '=';
/// Places for words per thread at first, and at most: 4 MB, which are taken as words come. Powers of two.
const FIRST_PLACES: usize = 1 << 10;
const MOST_PLACES: usize = 1 << 16;
/// `=word`, and the stem behind it unless the word begins with it. Words that do not fit are stemmed each time: they do
/// not repeat.
const PLACE_BYTES: usize = 53;

thread_local! {
    static CACHE: Cell<Option<Box<StemCache>>> = const { Cell::new(None) };
}

/// Runs `job` with this thread's cache for a language, `None` for one without stems. A nested call gets a cache of its
/// own.
pub(super) fn with_cache<R>(language: Language, job: impl FnOnce(Option<&mut StemCache>) -> R) -> R {
    let Some(algorithm) = language.algorithm() else { return job(None) };
    let cache = CACHE.take().filter(|cache| cache.stemmer.algorithm() == algorithm);
    let mut cache = cache.unwrap_or_else(|| Box::new(StemCache::new(Stemmer::new(algorithm))));
    let result = job(Some(&mut cache));
    CACHE.set(Some(cache));
    result
}

/// A term and its hash.
pub(super) type Hashed<'t> = (&'t [u8], u32);

/// Stem and surface form of words seen: a cache of two places a word, each one memory line.
pub(super) struct StemCache {
    stemmer: Stemmer,
    places: Vec<Place>,
    filled: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Place {
    stem_hash: u32,
    surface_hash: u32,
    /// Of `=word`; 0 in an empty place.
    surface_len: u8,
    stem_start: u8,
    stem_len: u8,
    bytes: [u8; PLACE_BYTES],
}

const _: () = assert!(size_of::<Place>() == 64);

impl Place {
    const EMPTY: Self = Self {
        stem_hash: 0,
        surface_hash: 0,
        surface_len: 0,
        stem_start: 0,
        stem_len: 0,
        bytes: [0; PLACE_BYTES],
    };

    fn holds(&self, word: &[u8]) -> bool {
        usize::from(self.surface_len) == word.len() + 1
            && self.bytes.get(1..=word.len()).is_some_and(|bytes| bytes == word)
    }

    /// `None` if they do not fit.
    fn of(word: &[u8], stem: &[u8]) -> Option<Self> {
        let mut place = Self::EMPTY;
        let surface_len = word.len() + 1;
        place.bytes[0] = SURFACE as u8;
        place.bytes.get_mut(1..surface_len)?.copy_from_slice(word);
        let stem_start = if word.starts_with(stem) { 1 } else { surface_len };
        place.bytes.get_mut(stem_start..stem_start + stem.len())?.copy_from_slice(stem);
        place.surface_hash = hash(&place.bytes[..surface_len]);
        place.stem_hash = hash(stem);
        (place.surface_len, place.stem_start, place.stem_len) =
            (surface_len as u8, stem_start as u8, stem.len() as u8);
        Some(place)
    }

    fn surface(&self) -> Hashed<'_> {
        (&self.bytes[..usize::from(self.surface_len)], self.surface_hash)
    }

    fn stem(&self) -> Hashed<'_> {
        let start = usize::from(self.stem_start);
        (&self.bytes[start..start + usize::from(self.stem_len)], self.stem_hash)
    }
}

impl StemCache {
    fn new(stemmer: Stemmer) -> Self {
        Self { stemmer, places: Vec::new(), filled: 0 }
    }

    /// Whether words beyond ASCII are stemmed: the English stemmer has no rules for them.
    pub(super) fn stems_wide_words(&self) -> bool {
        self.stemmer.algorithm() != frostem::Algorithm::English
    }

    /// Calls `with` with the stem and the surface form of a folded word.
    pub(super) fn forms<R>(&mut self, word: &str, with: impl FnOnce(Hashed<'_>, Hashed<'_>) -> R) -> R {
        self.forms_of(word, hash(word.as_bytes()), with)
    }

    /// Has the place of a word fetched, so that [`Self::forms_of`] need not wait for it.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        prefetch(&self.places, self.place_of(hash));
    }

    /// [`Self::forms`] of a word whose hash is known.
    #[inline]
    pub(super) fn forms_of<R>(
        &mut self,
        word: &str,
        hash: u32,
        with: impl FnOnce(Hashed<'_>, Hashed<'_>) -> R,
    ) -> R {
        let at = self.place_of(hash);
        // The neighbour lies in the line that the processor fetches along with the first.
        for at in [at, at ^ 1] {
            if let Some(place) = self.places.get(at)
                && place.holds(word.as_bytes())
            {
                return with(place.stem(), place.surface());
            }
        }
        self.forms_of_new(word, hash, with)
    }

    /// Out of reach while there are no places.
    #[inline]
    fn place_of(&self, hash: u32) -> usize {
        hash as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    #[inline(never)]
    fn forms_of_new<R>(
        &mut self,
        word: &str,
        word_hash: u32,
        with: impl FnOnce(Hashed<'_>, Hashed<'_>) -> R,
    ) -> R {
        let stem = self.stemmer.stem(word);
        // A term is never empty.
        let stem = if stem.is_empty() { word } else { &*stem };
        let Some(place) = Place::of(word.as_bytes(), stem.as_bytes()) else {
            let surface = format!("{SURFACE}{word}");
            return with(
                (stem.as_bytes(), hash(stem.as_bytes())),
                (surface.as_bytes(), hash(surface.as_bytes())),
            );
        };
        if self.places.len() < MOST_PLACES && self.filled * 2 >= self.places.len() {
            self.grow();
        }
        let at = self.place_of(word_hash);
        self.filled += usize::from(self.places[at ^ 1].surface_len == 0);
        self.places[at ^ 1] = self.places[at];
        self.places[at] = place;
        with(place.stem(), place.surface())
    }

    /// Starts again with more places; what was there comes back as it is seen.
    fn grow(&mut self) {
        let size = (self.places.len() * 4).clamp(FIRST_PLACES, MOST_PLACES);
        self.places = vec![Place::EMPTY; size];
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostem::Algorithm;

    #[test]
    fn cached_and_fresh_forms_agree_also_when_nested_and_when_displaced() {
        let mut calls = 0_usize;
        let mut forms = |word: &str| {
            calls += 1;
            with_cache(Language::English, |cache| {
                cache.unwrap().forms(word, |stem, surface| {
                    if calls.is_multiple_of(10_000) {
                        with_cache(Language::English, |inner| {
                            inner.unwrap().forms("nested", |stem, _| assert_eq!(stem.0, b"nest"));
                        });
                    }
                    assert_eq!((stem.1, surface.1), (hash(stem.0), hash(surface.0)), "{word}");
                    (stem.0.to_vec(), surface.0.to_vec())
                })
            })
        };
        let stemmer = Stemmer::new(Algorithm::English);
        let words: Vec<String> = (0..MOST_PLACES * 3)
            .map(|n| {
                format!("{}{}", "y".repeat(n % 60), ["running", "skies", "a", "hopefulness"][n % 4])
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

    #[test]
    fn another_language_has_another_cache() {
        let stem = |language, word: &str| {
            with_cache(language, |cache| {
                cache.unwrap().forms(word, |stem, _| String::from_utf8(stem.0.to_vec()))
            })
        };
        for _ in 0..2 {
            assert_eq!(stem(Language::English, "automaten").unwrap(), "automaten");
            assert_eq!(stem(Language::German, "automaten").unwrap(), "automat");
        }
        assert!(with_cache(Language::Off, |cache| cache.is_none()));
    }
}
