//! The languages whose words can be stemmed, under Snowball's names.

use crate::error::{Error, Result};
use frostem::Algorithm;
use std::str::FromStr;

macro_rules! languages {
    ($($language:ident $name:literal,)+) => {
        /// Which language's words are stemmed. Only English has a list of stop words, which queries drop.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum Language {
            /// Snowball's English stemmer and 85 function words.
            #[default]
            English,
            $(
                #[doc = concat!("Snowball's stemmer `", $name, "`, no stop words.")]
                $language,
            )+
            /// Words as they are, no stop words.
            Off,
        }

        impl Language {
            /// All of them: the default, the others by name, and off.
            pub const ALL: &[Self] = &[Self::English, $(Self::$language,)+ Self::Off];

            /// As in settings and in the id of an analyzer.
            pub fn name(self) -> &'static str {
                match self {
                    Self::English => "english",
                    $(Self::$language => $name,)+
                    Self::Off => "off",
                }
            }

            pub(super) fn algorithm(self) -> Option<Algorithm> {
                match self {
                    Self::English => Some(Algorithm::English),
                    $(Self::$language => Some(Algorithm::$language),)+
                    Self::Off => None,
                }
            }
        }
    };
}

// Snowball's second algorithms for a language (porter, lovins, dutch_porter) are left out.
languages! {
    Arabic "arabic",
    Armenian "armenian",
    Basque "basque",
    Catalan "catalan",
    Czech "czech",
    Danish "danish",
    Dutch "dutch",
    Earlymodernenglish "earlymodernenglish",
    Esperanto "esperanto",
    Estonian "estonian",
    Finnish "finnish",
    French "french",
    German "german",
    Greek "greek",
    Hindi "hindi",
    Hungarian "hungarian",
    Indonesian "indonesian",
    Irish "irish",
    Italian "italian",
    Lithuanian "lithuanian",
    Nepali "nepali",
    Norwegian "norwegian",
    Persian "persian",
    Polish "polish",
    Portuguese "portuguese",
    Romanian "romanian",
    Russian "russian",
    Serbian "serbian",
    Sesotho "sesotho",
    Spanish "spanish",
    Swedish "swedish",
    Tamil "tamil",
    Turkish "turkish",
    Ukrainian "ukrainian",
    Yiddish "yiddish",
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|language| language.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|language| language.name()).collect();
            Error::invalid("language", format!("{text:?} is not one of {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_snowballs_and_come_back() {
        for &language in Language::ALL {
            assert_eq!(language.name().parse::<Language>().unwrap(), language);
            assert!(language.algorithm().is_none_or(|algorithm| algorithm.name() == language.name()));
        }
        let offered: Vec<&str> = Algorithm::all().iter().map(|algorithm| algorithm.name()).collect();
        let ours = |name: &&str| name.parse::<Language>().is_ok();
        assert!(offered.iter().all(ours), "{offered:?}: one is compiled that nobody can choose");
        assert_eq!(offered.len() + 1, Language::ALL.len());
        assert!(
            Language::ALL[1..].is_sorted_by_key(|language| (*language == Language::Off, language.name()))
        );
        assert!("German".parse::<Language>().unwrap_err().to_string().contains("german"));
    }
}
