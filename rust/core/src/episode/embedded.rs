//! The text an embedder sees for a record.

use super::Episode;
use std::fmt::Write;
use twox_hash::XxHash3_128;

/// Version of the text below; part of every embedder fingerprint, so that a change re-embeds.
pub const EMBEDDED_TEXT_VERSION: u32 = 1;

/// Longest chunk, in estimated tokens: common models read 256 to 512, and cut the rest without a word.
const CHUNK_TOKENS: usize = 384;

/// A record as an embedder sees it: one or several chunks, and a hash that tells whether a stored row is current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedText {
    /// Texts in order, at least one, none blank. The record counts by its best one.
    pub chunks: Vec<String>,
    /// Hash over all chunks.
    pub hash: u128,
}

impl EmbeddedText {
    /// Title, then `(date) actor: summary`, then body (speaker and date in the text are worth .16 share@10 on
    /// dialogue), split into chunks that each begin with the title and date again.
    pub fn of(episode: &Episode) -> Self {
        let (year, month, day) = episode.occurred_at.date();
        let mut head = String::new();
        if let Some(title) = &episode.title {
            let _ = writeln!(head, "{title}");
        }
        let _ = write!(head, "({year:04}-{month:02}-{day:02}) ");
        if let Some(actor) = &episode.actor {
            let _ = write!(head, "{actor}: ");
        }
        let mut text = episode.summary.clone();
        if let Some(body) = &episode.body {
            let _ = write!(text, "\n\n{body}");
        }
        // A long title must not eat the room of the text.
        let room = CHUNK_TOKENS.saturating_sub(tokens(&head)).max(CHUNK_TOKENS / 2);
        let chunks: Vec<String> =
            split(&text, room).into_iter().map(|part| format!("{head}{part}")).collect();
        let hash = XxHash3_128::oneshot(chunks.join("\0").as_bytes());
        Self { chunks, hash }
    }
}

/// Conservative estimate: four ASCII characters or one other character to a token.
fn tokens(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let chars = text.chars().count();
    ascii.div_ceil(4) + (chars - ascii)
}

/// Parts of at most `room` tokens, cut after a blank line, a line, a sentence or a space, whichever keeps at
/// least half of the room; never inside a character.
fn split(text: &str, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let mut quarters = 0;
        let mut end = rest.len();
        for (at, c) in rest.char_indices() {
            quarters += if c.is_ascii() { 1 } else { 4 };
            if quarters > room * 4 {
                end = at;
                break;
            }
        }
        if end < rest.len() {
            let window = &rest[..end];
            let cuts = ["\n\n", "\n", "。", ". ", "? ", "! ", " "];
            let cut = cuts
                .iter()
                .find_map(|mark| window.rfind(mark).map(|at| at + mark.len()).filter(|at| at * 2 >= end));
            end = cut.unwrap_or(end);
        }
        let (part, tail) = rest.split_at(end);
        parts.push(part.trim_end());
        rest = tail.trim_start();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::{Origin, Scope};
    use super::*;
    use crate::{ids::RecordId, time::Moment};
    use proptest::prelude::*;

    fn episode(summary: &str) -> Episode {
        let at: Moment = "2023-05-08T23:30:00-08:00".parse().unwrap();
        let mut episode = Episode::new(RecordId::new_episode(1), at, Scope::root(), Origin::User);
        summary.clone_into(&mut episode.summary);
        episode
    }

    #[test]
    fn the_text_names_title_date_and_actor() {
        let mut e = episode("We moved the cache to Redis.");
        e.title = Some("Cache".into());
        e.actor = Some("Ada".into());
        assert_eq!(EmbeddedText::of(&e).chunks, ["Cache\n(2023-05-08) Ada: We moved the cache to Redis."]);
    }

    #[test]
    fn the_hash_follows_the_text_and_nothing_else() {
        let base = episode("a");
        let mut tagged = base.clone();
        tagged.tags = vec!["t".into()];
        assert_eq!(EmbeddedText::of(&base).hash, EmbeddedText::of(&tagged).hash);
        let mut changed = base.clone();
        changed.body = Some("b".into());
        assert_ne!(EmbeddedText::of(&base).hash, EmbeddedText::of(&changed).hash);
    }

    proptest! {
        #[test]
        fn chunks_keep_every_word_and_the_limit(words in proptest::collection::vec("[a-z字]{1,12}|\n\n|。", 1..900)) {
            let text = words.join(" ");
            prop_assume!(!text.trim().is_empty());
            let chunks = EmbeddedText::of(&episode(&text)).chunks;
            for chunk in &chunks {
                prop_assert!(tokens(chunk) <= CHUNK_TOKENS + 1, "{}", tokens(chunk));
            }
            let joined: String = chunks.iter().map(|c| c.split_once(") ").unwrap().1).collect();
            let squeeze = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(squeeze(&joined), squeeze(&text));
        }
    }
}
