//! Words that differ from one by a typo: an insertion, a deletion, another letter, or two neighbours exchanged, each
//! place changed once (optimal string alignment).

/// Rows of the table of distances, one a letter of the other word. Words that share a beginning share its rows, so that
/// sorted names are looked through as a tree.
pub(super) struct Near {
    word: Vec<char>,
    most: usize,
    /// Letters of the other word so far, and where each ends.
    letters: Vec<char>,
    ends: Vec<usize>,
    /// `letters.len() + 1` rows of `word.len() + 1` distances.
    rows: Vec<u8>,
}

/// What looking at a name showed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is near.
    Near,
    /// It is too far away, and so is every name that begins with so many of its bytes.
    Far(usize),
}

impl Near {
    /// Words at most `most` edits away from `word`.
    pub(super) fn new(word: &str, most: usize) -> Self {
        let word: Vec<char> = word.chars().collect();
        let rows = (0..=word.len()).map(|at| at.min(most + 1) as u8).collect();
        Self { word, most, letters: Vec::new(), ends: Vec::new(), rows }
    }

    /// Whether a name is near. Rows of what it shares with the name before, `shared` bytes, are kept.
    pub(super) fn look(&mut self, name: &str, shared: usize) -> Look {
        let kept = self.ends.partition_point(|end| *end <= shared);
        self.letters.truncate(kept);
        self.ends.truncate(kept);
        let width = self.word.len() + 1;
        self.rows.truncate((kept + 1) * width);
        let start = self.ends.last().copied().unwrap_or(0);
        for (at, letter) in name.get(start..).unwrap_or_default().char_indices() {
            self.letters.push(letter);
            self.ends.push(start + at + letter.len_utf8());
            if self.row(width) > self.most {
                return Look::Far(self.ends.last().copied().unwrap_or(0));
            }
        }
        let distance = self.rows.last().map_or(usize::MAX, |distance| usize::from(*distance));
        if distance <= self.most { Look::Near } else { Look::Far(name.len() + 1) }
    }

    /// Appends the row of the last letter; gives what the distance of any word with this beginning is at least. Places
    /// further from the diagonal than the most edits are never reached.
    fn row(&mut self, width: usize) -> usize {
        let depth = self.letters.len();
        let letter = self.letters[depth - 1];
        let beyond = u8::try_from(self.most + 1).unwrap_or(u8::MAX);
        let start = self.rows.len();
        self.rows.resize(start + width, beyond);
        let (before, own) = self.rows.split_at_mut(start);
        let above = &before[start - width..];
        if depth <= self.most {
            own[0] = depth as u8;
        }
        let mut least = own[0];
        let (first, last) = (depth.saturating_sub(self.most).max(1), (depth + self.most).min(width - 1));
        for at in first..=last {
            let same = self.word[at - 1] == letter;
            let mut best = (above[at - 1] + u8::from(!same)).min(own[at - 1] + 1).min(above[at] + 1);
            if depth > 1
                && at > 1
                && self.word[at - 1] == self.letters[depth - 2]
                && self.word[at - 2] == letter
            {
                best = best.min(before[start - 2 * width + at - 2] + 1);
            }
            own[at] = best.min(beyond);
            least = least.min(own[at]);
        }
        // Two letters that come exchanged cost one with the row before the last.
        let exchanged = above.iter().copied().min().unwrap_or(beyond) + 1;
        usize::from(least.min(exchanged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(a: &[char], b: &[char]) -> usize {
        let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                rows[i][j] = if i == 0 || j == 0 {
                    i + j
                } else {
                    let mut best = (rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]))
                        .min(rows[i - 1][j] + 1)
                        .min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        best = best.min(rows[i - 2][j - 2] + 1);
                    }
                    best
                };
            }
        }
        rows[a.len()][b.len()]
    }

    proptest! {
        #[test]
        fn sorted_names_are_as_far_as_they_are(
            names in prop::collection::btree_set("[abcé]{0,7}", 1..60), word in "[abcé]{1,7}", most in 1..3usize,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let letters: Vec<char> = word.chars().collect();
            let is_near = |name: &&String| naive(&letters, &name.chars().collect::<Vec<_>>()) <= most;
            let expected: Vec<&String> = names.iter().filter(is_near).collect();
            let mut found = Vec::new();
            let mut near = Near::new(&word, most);
            let mut last = "";
            let mut skipped: Option<String> = None;
            for name in &names {
                if skipped.as_ref().is_some_and(|beginning| name.starts_with(beginning)) {
                    continue;
                }
                let shared = last.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
                last = name;
                skipped = None;
                match near.look(name, shared) {
                    Look::Near => found.push(name),
                    Look::Far(bytes) => skipped = name.get(..bytes).map(ToOwned::to_owned),
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn neighbours_exchanged_are_one_edit() {
        for (a, b, distance) in [
            ("recieve", "receive", 1),
            ("teh", "the", 1),
            ("ca", "abc", 3),
            ("abcdef", "badcfe", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(Near::new(a, distance).look(b, 0), Look::Near, "{a} {b}");
            assert!(matches!(Near::new(a, distance - 1).look(b, 0), Look::Far(_)), "{a} {b}");
        }
    }
}
