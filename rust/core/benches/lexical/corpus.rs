//! Texts and questions, the same in every run.

use std::collections::BTreeSet;

const WORDS: usize = 50_000;
const TOPICS: usize = 400;
const TOPIC_WORDS: usize = 500;
const QUESTIONS: usize = 300;

pub(crate) struct Corpus {
    pub(crate) texts: Vec<String>,
    pub(crate) questions: [(&'static str, Vec<String>); 3],
}

/// A generator of random numbers (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Shares of `count` words in falling order, summed up.
fn law(count: usize) -> Vec<f64> {
    let shares = (0..count).map(|rank| 1.0 / (rank as f64 + 2.7).powf(1.05));
    let mut sum = 0.0;
    let sums: Vec<f64> = shares
        .map(|share| {
            sum += share;
            sum
        })
        .collect();
    sums.iter().map(|share| share / sum).collect()
}

fn word(number: usize) -> String {
    let syllables = b"bcdfghjklmnprstvwz";
    let mut rest = number;
    let mut word = String::new();
    while word.len() < 4 || rest > 0 {
        word.push(char::from(syllables[rest % 18]));
        word.push(char::from(b"aeiou"[rest / 18 % 5]));
        rest /= 90;
    }
    word
}

impl Corpus {
    pub(crate) fn new(size: usize) -> Self {
        let random = &mut Random(20_240_607);
        let words: Vec<String> = (0..WORDS).map(word).collect();
        let topics: Vec<Vec<usize>> = (0..TOPICS)
            .map(|_| (0..TOPIC_WORDS).map(|_| 100 + random.below(WORDS - 100)).collect())
            .collect();
        let (all, within) = (law(WORDS), law(TOPIC_WORDS));
        let mut texts: Vec<Vec<usize>> = Vec::with_capacity(size);
        let mut doc_freqs = vec![0_usize; WORDS];
        for _ in 0..size {
            let topic = random.below(TOPICS);
            let drawn = (0..40 + random.below(81)).map(|_| {
                let share = random.unit();
                if random.unit() < 0.25 {
                    topics[topic][within.partition_point(|sum| *sum < share).min(TOPIC_WORDS - 1)]
                } else {
                    all.partition_point(|sum| *sum < share).min(WORDS - 1)
                }
            });
            let text: Vec<usize> = drawn.collect();
            text.iter().collect::<BTreeSet<_>>().iter().for_each(|word| doc_freqs[**word] += 1);
            texts.push(text);
        }
        let (mut selective, mut common, mut natural) = (Vec::new(), Vec::new(), Vec::new());
        let rare = 2..=20.max(size / 500);
        while selective.len() < QUESTIONS {
            let text = &texts[random.below(size.min(10_000))];
            let few: Vec<usize> =
                text.iter().copied().filter(|word| rare.contains(&doc_freqs[*word])).collect();
            if few.len() < 3 {
                continue;
            }
            let mut pick = |from: &[usize]| from[random.below(from.len())];
            let most: Vec<usize> = (2..30).collect();
            let top: Vec<usize> = (0..20).collect();
            let spell = |numbers: &[usize]| {
                let spelled: Vec<&str> = numbers.iter().map(|number| words[*number].as_str()).collect();
                spelled.join(" ")
            };
            selective.push(spell(&[pick(&few), pick(&few), pick(&few)]));
            common.push(spell(&[0, 1, pick(&most), pick(&most)]));
            natural.push(spell(&[
                pick(&top),
                pick(&top),
                pick(&top),
                pick(text),
                pick(text),
                pick(text),
                pick(&few),
            ]));
        }
        let spell = |text: &Vec<usize>| {
            let spelled: Vec<&str> = text.iter().map(|number| words[*number].as_str()).collect();
            spelled.join(" ")
        };
        Self {
            texts: texts.iter().map(spell).collect(),
            questions: [("selective", selective), ("common", common), ("natural", natural)],
        }
    }
}
