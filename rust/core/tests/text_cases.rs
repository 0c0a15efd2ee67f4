//! The cases of text analysis that the tests of both languages share.
#![allow(clippy::unwrap_used)] // a test, outside of its test function too

use otolith_core::ids::DocId;
use otolith_core::lexical::{Bm25Params, Field, LexicalIndex, prepare};
use otolith_core::text::Analyzer;
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    analyzer: Option<String>,
    language: Option<String>,
    text: Option<String>,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
    doc: Option<String>,
    query: Option<String>,
    hits: Option<bool>,
    marked: Option<String>,
}

impl Case {
    fn analyzer(&self) -> Analyzer {
        let kind = self.analyzer.as_deref().unwrap_or("default");
        let language = self.language.as_deref().unwrap_or("english");
        Analyzer::new(kind.parse().unwrap(), language.parse().unwrap())
    }

    /// What is wrong, if something is.
    fn failure(&self) -> Option<String> {
        let analyzer = self.analyzer();
        match (&self.text, &self.doc, &self.query, self.hits, &self.marked) {
            (Some(text), None, None, None, None) => {
                let mut terms = BTreeSet::new();
                analyzer.document(text, &mut |term, _| {
                    terms.insert(term.to_owned());
                });
                let missing: Vec<_> = self.has.iter().filter(|term| !terms.contains(*term)).collect();
                let unwanted: Vec<_> = self.not.iter().filter(|term| terms.contains(*term)).collect();
                let fine = missing.is_empty() && unwanted.is_empty();
                (!fine).then(|| format!("missing {missing:?}, unwanted {unwanted:?} in {terms:?}"))
            }
            (None, Some(doc), Some(query), Some(hits), None) => {
                let mut index = LexicalIndex::new(Bm25Params::default());
                index
                    .insert(DocId(0), &prepare(&analyzer, &[Field { text: doc, weight_halves: 2 }]))
                    .unwrap();
                let found = !index.search(&analyzer.query(query), None).docs.is_empty();
                (found != hits).then(|| format!("{query:?} in {doc:?}: hits {found}"))
            }
            (None, None, Some(query), None, Some(marked)) => {
                let text = marked.replace(['[', ']'], "");
                let found = mark(&analyzer, &text, query);
                (found != *marked).then(|| format!("{query:?}: {found}"))
            }
            _ => Some("neither an analysis nor a match nor spans".to_owned()),
        }
    }
}

fn mark(analyzer: &Analyzer, text: &str, query: &str) -> String {
    let mut marked = String::new();
    let mut from = 0;
    for span in analyzer.spans(text, &analyzer.query(query)) {
        marked.extend([&text[from..span.start], "[", &text[span.clone()], "]"]);
        from = span.end;
    }
    marked + &text[from..]
}

#[test]
fn all_cases_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/cases/text.toml");
    let cases: Cases = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.case.len() >= 200, "{} cases", cases.case.len());
    let names: BTreeSet<&str> = cases.case.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.case.len(), "two cases have one name");
    let failures: Vec<String> =
        cases.case.iter().filter_map(|case| Some(format!("{}: {}", case.name, case.failure()?))).collect();
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.case.len(), failures.join("\n"));
}
