//! What analysis costs: nanoseconds a word and documents a second on one thread, for each kind of text.
//!
//! `cargo bench -p otolith-core --bench analysis -- [--rounds 15] [--only KIND] [--file FILE]` prints one Markdown table; a FILE of one
//! document a line is measured beside the texts that are made here. Kinds take turns, so that they share the same
//! seconds; the tenth percentile of the rounds is what is told.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a program for people at a terminal

use otolith_core::lexical::{Field, prepare};
use otolith_core::text::{Analyzer, AnalyzerKind, Language};
use std::hint::black_box;
use std::time::Instant;

const DOCS: usize = 2_000;
const WORDS: usize = 80;
const VOCABULARY: usize = 20_000;

/// A small generator of its own, so that the texts are the same whatever version of whatever crate.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    /// Ranks by a law close to Zipf's: every octave of ranks as likely as any other.
    fn rank(&mut self) -> usize {
        let octave = self.below(VOCABULARY.ilog2() as usize);
        (1 << octave) - 1 + self.below(1 << octave)
    }
}

/// Words of two to four syllables.
fn vocabulary(draw: &mut Draw) -> Vec<String> {
    let onsets = ["b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "st", "tr"];
    let rhymes = ["a", "e", "i", "o", "u", "an", "er", "ing", "ed"];
    (0..VOCABULARY)
        .map(|_| {
            let syllables = 2 + draw.below(3);
            (0..syllables).map(|_| onsets[draw.below(14)].to_owned() + rhymes[draw.below(9)]).collect()
        })
        .collect()
}

/// Documents of words that `write` brings into shape, one after another.
fn texts(mut write: impl FnMut(&mut Draw, &str, usize) -> String) -> Vec<String> {
    let mut draw = Draw(20_261_130);
    let words = vocabulary(&mut draw);
    (0..DOCS)
        .map(|_| {
            (0..WORDS)
                .map(|at| {
                    let rank = draw.rank();
                    write(&mut draw, &words[rank], at)
                })
                .collect()
        })
        .collect()
}

fn capitalised(word: &str) -> String {
    word[..1].to_ascii_uppercase() + &word[1..]
}

/// Sentences with capitals, commas and stops; a word of a hundred is written with an accent.
fn prose(draw: &mut Draw, word: &str, at: usize) -> String {
    let word = if at.is_multiple_of(12) { capitalised(word) } else { word.to_owned() };
    let word = if draw.below(100) == 0 { format!("{word}é") } else { word };
    word + if at % 12 == 11 {
        ". "
    } else if draw.below(8) == 0 {
        ", "
    } else {
        " "
    }
}

/// Every fifth word an identifier, path, version or code.
fn code(draw: &mut Draw, word: &str, at: usize) -> String {
    if !at.is_multiple_of(5) {
        return format!("{word} ");
    }
    match draw.below(6) {
        0 => format!("src/{word}/mod.rs:{at} "),
        1 => format!("get{}Name() ", capitalised(word)),
        2 => format!("{word}_max_count "),
        3 => format!("ERR-{}, ", 1000 + draw.below(9000)),
        4 => format!("v1.{}.{} ", draw.below(30), draw.below(10)),
        _ => format!("https://{word}.example.com/docs?page={at} "),
    }
}

/// Han characters in place of the letters, a stop now and then.
fn chinese(draw: &mut Draw, word: &str, at: usize) -> String {
    let han = |b: u8| char::from_u32(0x4E00 + u32::from(b) * 37 % 3000).unwrap_or('中');
    let mut text: String = word.bytes().step_by(2).map(han).collect();
    if at % 9 == 8 {
        text.push(if draw.below(2) == 0 { '，' } else { '。' });
    }
    text
}

/// Every letter of the Latin alphabet as one of the Cyrillic.
fn cyrillic(_: &mut Draw, word: &str, _: usize) -> String {
    word.bytes().filter_map(|b| char::from_u32(0x430 + u32::from(b - b'a'))).collect::<String>() + " "
}

struct Kind {
    name: &'static str,
    analyzer: Analyzer,
    texts: Vec<String>,
    /// Terms that come out, stems and forms counted each.
    terms: usize,
    document: Vec<f64>,
    prepare: Vec<f64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments[at + 1].as_str())
    };
    let rounds: usize = argument("--rounds").map_or(15, |n| n.parse().unwrap());
    let default = Analyzer::default();
    let plain = Analyzer::new(AnalyzerKind::Plain, Language::Off);
    let mut kinds = vec![
        ("words, plain", plain, texts(|_, word, _| format!("{word} "))),
        ("words", default, texts(|_, word, _| format!("{word} "))),
        ("prose", default, texts(prose)),
        ("code", default, texts(code)),
        ("Chinese", default, texts(chinese)),
        ("Cyrillic", default, texts(cyrillic)),
    ];
    if let Some(only) = argument("--only") {
        kinds.retain(|(name, ..)| *name == only);
    }
    if let Some(file) = argument("--file") {
        let lines: Vec<String> =
            std::fs::read_to_string(file).unwrap().lines().take(10_000).map(String::from).collect();
        kinds.push(("the file, plain", plain, lines.clone()));
        kinds.push(("the file", default, lines));
    }
    let mut kinds: Vec<Kind> = kinds
        .into_iter()
        .map(|(name, analyzer, texts)| Kind {
            name,
            analyzer,
            texts,
            terms: 0,
            document: Vec::new(),
            prepare: Vec::new(),
        })
        .collect();
    for _ in 0..rounds {
        for kind in &mut kinds {
            measure(kind);
        }
    }
    println!(
        "| text | analyzer | terms a document | analysis, ns a term | prepare, µs a document | documents/s |"
    );
    println!("|---|---|---|---|---|---|");
    for kind in &mut kinds {
        let docs = kind.texts.len() as f64;
        let (document, prepare) = (tenth(&mut kind.document), tenth(&mut kind.prepare));
        println!(
            "| {} | {} | {:.0} | {:.1} | {:.2} | {:.0}k |",
            kind.name,
            kind.analyzer.id(),
            kind.terms as f64 / docs,
            document * 1e9 / kind.terms as f64,
            prepare * 1e6 / docs,
            docs / prepare / 1e3,
        );
    }
}

fn measure(kind: &mut Kind) {
    let start = Instant::now();
    let mut terms = 0;
    for text in &kind.texts {
        kind.analyzer.document(text, &mut |term, _| {
            black_box(term);
            terms += 1;
        });
    }
    kind.document.push(start.elapsed().as_secs_f64());
    kind.terms = terms;
    let start = Instant::now();
    for text in &kind.texts {
        black_box(prepare(&kind.analyzer, &[Field { text, weight_halves: 2 }]));
    }
    kind.prepare.push(start.elapsed().as_secs_f64());
}

fn tenth(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}
