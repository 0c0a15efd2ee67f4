//! The cases of text analysis that the tests of both languages share.

use otolith_core::ids::DocId;
use otolith_core::lexical::{Bm25Params, Field, LexicalIndex, prepare};
use otolith_core::text::{Analyzer, AnalyzerKind, Language};
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
}

impl Case {
    fn analyzer(&self) -> Analyzer {
        let kind = match self.analyzer.as_deref() {
            None | Some("default") => AnalyzerKind::Default,
            Some("plain") => AnalyzerKind::Plain,
            Some(other) => panic!("{}: analyzer {other}", self.name),
        };
        let language = match self.language.as_deref() {
            None | Some("english") => Language::English,
            Some("off") => Language::Off,
            Some(other) => panic!("{}: language {other}", self.name),
        };
        Analyzer::new(kind, language)
    }

    /// What is wrong, if something is.
    fn failure(&self) -> Option<String> {
        let analyzer = self.analyzer();
        match (&self.text, &self.doc, &self.query, self.hits) {
            (Some(text), None, None, None) => {
                let mut terms = BTreeSet::new();
                analyzer.document(text, &mut |term, _| {
                    terms.insert(term.to_owned());
                });
                let missing: Vec<_> = self.has.iter().filter(|term| !terms.contains(*term)).collect();
                let unwanted: Vec<_> = self.not.iter().filter(|term| terms.contains(*term)).collect();
                let fine = missing.is_empty() && unwanted.is_empty();
                (!fine).then(|| format!("missing {missing:?}, unwanted {unwanted:?} in {terms:?}"))
            }
            (None, Some(doc), Some(query), Some(hits)) => {
                let mut index = LexicalIndex::new(Bm25Params::default());
                index
                    .insert(DocId(0), &prepare(&analyzer, &[Field { text: doc, weight_halves: 2 }]))
                    .unwrap();
                let found = !index.search(&analyzer.query(query), None).docs.is_empty();
                (found != hits).then(|| format!("{query:?} in {doc:?}: hits {found}"))
            }
            _ => Some("neither an analysis nor a match".to_owned()),
        }
    }
}

#[test]
fn all_cases_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/cases/text.toml");
    let cases: Cases = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.case.len() >= 100, "{} cases", cases.case.len());
    let failures: Vec<String> =
        cases.case.iter().filter_map(|case| Some(format!("{}: {}", case.name, case.failure()?))).collect();
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.case.len(), failures.join("\n"));
}
