//! Stop words: dropped from queries, never from documents, and never if nothing else is left.

/// English function words, sorted.
pub(super) const ENGLISH: [&str; 85] = [
    "a", "about", "am", "an", "and", "are", "as", "at", "be", "been", "being", "but", "by", "can", "could",
    "did", "do", "does", "doing", "for", "from", "had", "has", "have", "he", "her", "hers", "him", "his",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "might", "must", "my", "of", "on", "or", "our",
    "ours", "shall", "she", "should", "so", "some", "such", "than", "that", "the", "their", "theirs", "them",
    "then", "there", "these", "they", "this", "those", "to", "too", "us", "very", "was", "we", "were",
    "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
    "yours",
];

/// Chinese characters of grammar and question. A pair is dropped only if both of its characters are here.
const CJK: &str = "的了是在我你他她它们这那和与也就都而及着吗呢吧啊呀哪些什么谁怎样为之于个有被把对从到";

/// Whether a folded English word is on the list.
pub(super) fn is_english(word: &str) -> bool {
    ENGLISH.binary_search(&word).is_ok()
}

/// Whether every character of a CJK term is on the list.
pub(super) fn is_cjk_stop(term: &str) -> bool {
    term.chars().all(|c| CJK.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_keeps_words_with_a_meaning() {
        assert!(ENGLISH.is_sorted_by(|a, b| a < b));
        for word in ["may", "not", "no", "r", "c", "go"] {
            assert!(!is_english(word), "{word}");
        }
        assert!(is_cjk_stop("什么") && is_cjk_stop("的") && !is_cjk_stop("的人"));
    }
}
