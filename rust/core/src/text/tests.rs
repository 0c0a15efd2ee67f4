use super::*;
use proptest::prelude::*;

fn terms(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    Analyzer::default().document(text, &mut |term, halves| out.push(format!("{term}/{halves}")));
    out
}

fn off() -> Analyzer {
    Analyzer::new(AnalyzerKind::Default, Language::Off)
}

fn plain() -> Analyzer {
    Analyzer::new(AnalyzerKind::Plain, Language::Off)
}

fn query_terms(text: &str) -> Vec<String> {
    Analyzer::default().query(text).terms.into_iter().map(|t| t.term).collect()
}

#[test]
fn ids_name_what_the_terms_depend_on() {
    assert_eq!(Analyzer::default().id().to_string(), "default-english-2");
    assert_eq!(Analyzer::new(AnalyzerKind::Default, Language::Off).id().to_string(), "default-off-2");
    assert_eq!(Analyzer::new(AnalyzerKind::Default, Language::German).id().to_string(), "default-german-2");
    let plain = Analyzer::new(AnalyzerKind::Plain, Language::English);
    assert_eq!(plain.id().to_string(), "plain-2");
    assert_eq!(plain, Analyzer::new(AnalyzerKind::Plain, Language::Off));
    assert_eq!("plain".parse::<AnalyzerKind>().unwrap(), AnalyzerKind::Plain);
    assert!("Plain".parse::<AnalyzerKind>().is_err());
}

#[test]
fn terms_come_in_the_order_of_the_text_with_their_weights() {
    assert_eq!(terms("Running Café"), ["run/2", "=running/1", "café/2", "cafe/1"]);
    assert_eq!(
        terms("用HTTPServer写"),
        ["用/2", "httpserver/2", "=httpserver/1", "http/2", "=http/1", "server/2", "=server/1", "写/2"]
    );
    assert_eq!(terms("我喜欢"), ["我/2", "我喜/2", "喜/2", "喜欢/2", "欢/2"]);
    assert_eq!(terms("ERR-4471."), ["err-4471/2", "err/2", "=err/1", "4471/2"]);
}

#[test]
fn queries_hold_each_term_once_and_drop_stop_words_unless_alone() {
    assert_eq!(query_terms("what is the server of the Server"), ["server", "=server"]);
    assert_eq!(query_terms("what is it"), ["what", "=what", "is", "=is", "it", "=it"]);
    assert_eq!(query_terms("我的书"), ["的书", "书"].map(String::from));
    assert_eq!(query_terms("什么"), ["什", "什么", "么"]);
    assert!(Analyzer::default().query(" ... \u{200B}").is_empty());
    let query = Analyzer::default().query("Tokyo 東京");
    let weights: Vec<f32> = query.terms.iter().map(|t| t.weight).collect();
    assert_eq!(weights, [1.0, 1.0, 1.0, CJK_PAIR_WEIGHT, 1.0]);
    assert_eq!(query.terms[0].surface, "Tokyo");
}

#[test]
fn a_sink_may_analyse_again() {
    let analyzer = Analyzer::default();
    let mut inner = Vec::new();
    analyzer
        .document("running", &mut |term, _| analyzer.document(term, &mut |t, _| inner.push(t.to_owned())));
    assert_eq!(inner, ["run", "=run", "run", "=running"].map(String::from));
}

#[test]
fn a_long_text_without_a_border_is_bounded_in_terms() {
    for unit in ["a", "a1", "a.", "a_", "aB", "ß", "漢", "a'", "e\u{301}", "\u{301}", "ก", "+", "1,"] {
        let text = unit.repeat(20_000);
        let mut bytes = 0;
        Analyzer::default().document(&text, &mut |term, _| {
            assert!(term.len() <= 4 * 256 + 1, "{unit}: {} bytes", term.len());
            bytes += term.len();
        });
        assert!(bytes <= 40 * text.len(), "{unit}: {bytes}");
    }
}

/// Printable text, any characters at all, and the ones the rules are about.
fn any_text() -> impl Strategy<Value = String> {
    let any = prop::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter);
    let edges = "[aZ01_.'’,:/@#+=\\\\ßİıé\u{A0}\u{202F}ﬁ㌔ﾊﾞＡ１❤\u{FE0F}\u{20E3}\u{301}\u{200D}\u{FEFF}漢かー한ก่👍🏽🇩🇪٤שָ \t\u{0}]{0,40}";
    prop_oneof!["\\PC{0,60}", any, edges]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_analysed_without_panic_and_the_same_for_query_and_document(text in any_text()) {
        for analyzer in [Analyzer::default(), off(), Analyzer::new(AnalyzerKind::Default, Language::German), plain()] {
            let mut document = std::collections::BTreeSet::new();
            analyzer.document(&text, &mut |term, halves| {
                assert!(!term.is_empty() && (halves == 1 || halves == 2));
                document.insert(term.to_owned());
            });
            for term in analyzer.query(&text).terms {
                prop_assert!(document.contains(&term.term), "{} only in the query", term.term);
            }
            prop_assert_eq!(analyzer.query(&text).is_empty(), document.is_empty());
        }
    }

    #[test]
    fn spans_stand_on_borders_and_hold_what_was_asked(text in any_text(), query in any_text(), whole in any::<bool>()) {
        use unicode_segmentation::UnicodeSegmentation;
        let query = if whole { text.clone() } else { query };
        let mut borders: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).collect();
        borders.push(text.len());
        for analyzer in [Analyzer::default(), off(), plain()] {
            let asked = analyzer.query(&query);
            let mut held = false;
            analyzer.document(&text, &mut |term, _| held |= asked.terms.iter().any(|t| t.term == term));
            let spans = analyzer.spans(&text, &asked);
            prop_assert_eq!(spans.is_empty(), !held, "{:?} {:?}", text, query);
            let mut last = None;
            for span in spans {
                prop_assert!(span.start < span.end && last.is_none_or(|end| end < span.start));
                prop_assert!(borders.binary_search(&span.start).is_ok() && borders.binary_search(&span.end).is_ok());
                last = Some(span.end);
            }
        }
    }

    #[test]
    fn a_word_is_marked_wherever_it_stands(word in "[a-z]{3,8}", left in "([A-Za-z]{1,6}[,.]? ){0,6}", right in "([,.]? [a-zé]{1,6}){0,6}") {
        let text = format!("{left}{word}{right}");
        for analyzer in [off(), plain()] {
            let spans = analyzer.spans(&text, &analyzer.query(&word));
            let here = left.len()..left.len() + word.len();
            prop_assert!(spans.iter().any(|span| span.start <= here.start && here.end <= span.end), "{:?} {:?}", text, spans);
        }
    }

    #[test]
    fn stemmers_of_all_languages_bear_any_word(text in "([a-zäéßıςα-ωа-яيةا-يक-ह\u{93f}அ-ஹא-ת]{1,9} ?){0,6}") {
        for &language in Language::ALL {
            Analyzer::new(AnalyzerKind::Default, language).document(&text, &mut |term, _| assert!(!term.is_empty()));
        }
    }

    #[test]
    fn plain_and_default_agree_on_words_of_letters(text in "([a-zа-яα-ωäéß]{2,9}[,;!?]? ){0,8}") {
        let of = |analyzer: Analyzer| {
            let mut out = Vec::new();
            analyzer.document(&text, &mut |term, halves| if halves == 2 { out.push(term.to_owned()) });
            out
        };
        prop_assert_eq!(of(off()), of(plain()));
    }

    #[test]
    fn a_question_has_each_term_once_in_the_order_of_the_text(words in prop::collection::vec(0..40u32, 0..80)) {
        let text: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
        let mut expected: Vec<&String> = Vec::new();
        for word in &text {
            if !expected.contains(&word) {
                expected.push(word);
            }
        }
        let query = plain().query(&text.join(" "));
        prop_assert_eq!(query.terms.iter().map(|term| &term.term).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ascii_gives_the_same_terms_beside_other_scripts(text in "[a-zA-Z0-9_.,:;/@#+'= -]{0,50}") {
        // The second text takes the general path; the pictograph at its end is one more term.
        let mut general = terms(&format!("{text} \u{1F680}"));
        prop_assert_eq!(general.pop().unwrap(), "\u{1F680}/2");
        prop_assert_eq!(general, terms(&text));
    }

    #[test]
    fn trailing_punctuation_never_makes_another_term(word in "[a-z]{1,8}|[A-Z]{2,4}-[0-9]{2,4}|[a-z]{2,4}\\.[a-z]{2,4}|[a-z]{2,4}_[a-z]{2,4}", end in "[.,;:!?)\\]}\"']{1,3}") {
        prop_assert_eq!(terms(&format!("{word}{end}")), terms(&word));
        prop_assert_eq!(terms(&format!("({word}{end} ")), terms(&word));
    }
}
