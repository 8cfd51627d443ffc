//! The configuration of a model, `config.json`: the name of the model and its sizes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The contents of a `config.json`. Other members, such as descriptions, are ignored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModelConfig {
    /// The name of the model.
    pub model: ModelName,
    /// The default file of inputs, relative to the folder.
    pub input: String,
    /// The default file of translations for training, relative to the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Elements of an embedding.
    pub embed: usize,
    /// Number of classes, for trees and lattices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Number of tags, for taggers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<usize>,
    /// Elements of a tagger's hidden layer between stacks and scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlp: Option<usize>,
    /// Number of LSTMs in each stack of a tagger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<usize>,
    /// Elements of a character's embedding, for taggers with characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub char_embed: Option<usize>,
    /// Elements of a hidden vector of the stacks over characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub char_hidden: Option<usize>,
    /// Rate of dropout in training, for embeddings and for states that outputs read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f32>,
    /// Rate of dropout in training, for states that outputs read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout_output: Option<f32>,
}

macro_rules! model_names {
    ($($model:ident $name:literal $family:ident,)*) => {
        /// The name of a model, as in `config.json` and on the command line.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum ModelName {
            $(#[doc = concat!("[`", stringify!($model), "`](crate::", stringify!($model), ").")]
            $model,)*
        }

        impl ModelName {
            /// All models.
            pub const ALL: [Self; 9] = [$(Self::$model),*];

            /// Returns the name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$model => $name,)*
                }
            }

            /// Returns the family, which determines the inputs.
            #[must_use]
            pub fn family(self) -> Family {
                match self {
                    $(Self::$model => Family::$family,)*
                }
            }
        }
    };
}

model_names! {
    TreeLstm "tree_lstm" Trees,
    TreeLstm2Type "tree_lstm_2type" Trees,
    TreeGru "tree_gru" Trees,
    MvRnn "mv_rnn" Trees,
    BiLstmTagger "bilstm_tagger" Tagged,
    BiLstmTaggerChar "bilstm_tagger_char" Spelled,
    LstmNmt "lstm_nmt" Translation,
    LatticeLstm "lattice_lstm" Lattices,
    LatticeGru "lattice_gru" Lattices,
}

/// A family of models that read the same inputs and vocabulary files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// Binary trees; `vocab.txt`.
    Trees,
    /// Sentences of words with tags; `vocab.txt` and `tags.txt`.
    Tagged,
    /// Like `Tagged`, but unknown words are read character by character; also `chars.txt`.
    Spelled,
    /// Sentences to translate; `src_vocab.txt` and `tgt_vocab.txt`.
    Translation,
    /// Lattices of characters and words; `chars.txt` and `words.txt`.
    Lattices,
}

impl ModelConfig {
    /// Parses a `config.json`.
    ///
    /// # Errors
    /// If the text is not JSON of this form, or a size is out of range.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let config: Self =
            serde_json::from_str(text).map_err(|error| ConfigError(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Returns the text of a `config.json`, with a final newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON") + "\n"
    }

    /// Creates the configuration of our benchmarks for `outputs` classes or tags. There are two
    /// layers. `mlp` is `hidden`, and so is `embed` by default; `char_embed` and `char_hidden` are
    /// half of `embed`.
    #[must_use]
    pub fn new(model: ModelName, hidden: usize, embed: Option<usize>, outputs: usize) -> Self {
        let embed = embed.unwrap_or(hidden);
        let family = model.family();
        let classes = matches!(family, Family::Trees | Family::Lattices);
        let tagger = matches!(family, Family::Tagged | Family::Spelled);
        let spells = family == Family::Spelled;
        Self {
            model,
            input: String::new(),
            target: None,
            hidden,
            embed,
            classes: classes.then_some(outputs),
            tags: tagger.then_some(outputs),
            mlp: tagger.then_some(hidden),
            layers: tagger.then_some(2),
            char_embed: spells.then_some(embed / 2),
            char_hidden: spells.then_some(embed / 2),
            dropout: None,
            dropout_output: None,
        }
    }

    /// Checks that every size is in the range that all models share. Models check the rest.
    ///
    /// # Errors
    /// If a size is out of range. The error names the JSON member.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.model.family() == Family::Spelled && self.embed % 2 == 1 {
            let (model, embed) = (self.model, self.embed);
            return Err(ConfigError(format!(
                "{model}: \"embed\": expected an even number, 2 × \"char_hidden\", got {embed}; \
                 `edbatch init` takes it from --embed, by default from --hidden"
            )));
        }
        for (member, size) in self.sizes() {
            let max = if member == "layers" { MAX_LAYERS } else { MAX_SIZE };
            if let Some(size) = size.filter(|size| !(1..=max).contains(size)) {
                return Err(ConfigError(format!("\"{member}\": expected 1 to {max}, got {size}")));
            }
        }
        let rates = [("dropout", self.dropout), ("dropout_output", self.dropout_output)];
        for (member, rate) in rates {
            if let Some(rate) = rate.filter(|rate| !(0.0..1.0).contains(rate)) {
                let expected = "expected 0 to below 1";
                return Err(ConfigError(format!("\"{member}\": {expected}, got {rate}")));
            }
        }
        Ok(())
    }

    /// Returns the sizes, by the name of the JSON member.
    #[must_use]
    pub fn sizes(&self) -> [(&'static str, Option<usize>); 8] {
        [
            ("hidden", Some(self.hidden)),
            ("embed", Some(self.embed)),
            ("classes", self.classes),
            ("tags", self.tags),
            ("mlp", self.mlp),
            ("layers", self.layers),
            ("char_embed", self.char_embed),
            ("char_hidden", self.char_hidden),
        ]
    }

    /// Returns an optional size, or an error if it is missing.
    pub(crate) fn size(&self, member: &str, size: Option<usize>) -> Result<usize, ConfigError> {
        size.ok_or_else(|| ConfigError(format!("{} needs \"{member}\", got none", self.model)))
    }

    /// Checks that a size has the value `expected`, which `what` describes.
    pub(crate) fn expect(
        &self,
        member: &str,
        got: usize,
        what: &str,
        expected: usize,
    ) -> Result<(), ConfigError> {
        if got == expected {
            return Ok(());
        }
        let model = self.model;
        Err(ConfigError(format!("{model}: \"{member}\": expected {expected}, {what}, got {got}")))
    }
}

/// The maximum size of a dimension of a tensor.
const MAX_SIZE: usize = (1 << 31) - 1;

/// The maximum number of layers: more than real models have, but quick to declare.
const MAX_LAYERS: usize = 1000;

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ModelName {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| {
            let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
            let known = Self::ALL.map(Self::name).join(", ");
            ConfigError(format!("unknown model `{shown}`: expected one of {known}"))
        })
    }
}

impl TryFrom<String> for ModelName {
    type Error = ConfigError;

    fn try_from(name: String) -> Result<Self, ConfigError> {
        name.parse()
    }
}

impl From<ModelName> for &'static str {
    fn from(model: ModelName) -> Self {
        model.name()
    }
}

/// An error in a configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match ModelConfig::from_json(text) {
            Ok(config) => format!("{} of {}", config.model, config.hidden),
            Err(error) => error.to_string(),
        };
        assert!(got.contains(expected), "{text}: {got}");
    }

    #[test]
    fn configurations_are_read() {
        let sizes = r#""input": "in.txt", "embed": 2, "hidden""#;
        check(
            &format!(r#"{{"model": "tree_lstm", {sizes}: 3, "max_len": "x"}}"#),
            "tree_lstm of 3",
        );
        check(&format!(r#"{{"model": "tree", {sizes}: 3}}"#), "unknown model `tree`: expected one");
        check(
            &format!(r#"{{"model": "tree_lstm", {sizes}: 0}}"#),
            "\"hidden\": expected 1 to 2147483647, got 0",
        );
        check(&format!(r#"{{"model": "tree_lstm", {sizes}: -1}}"#), "invalid value");
        check(r#"{"model": "tree_lstm"}"#, "missing field `input`");
        check("", "EOF");
        let spelled = r#"{"model": "bilstm_tagger_char", "input": "x", "hidden": 4, "embed": 3}"#;
        check(
            spelled,
            "\"embed\": expected an even number, 2 × \"char_hidden\", got 3; `edbatch init`",
        );
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let config = ModelConfig::new(ModelName::TreeLstm, 8, None, 3);
        assert_eq!(ModelConfig::from_json(&format!("\u{FEFF}{}", config.to_json())), Ok(config));
        // One mark, at the start.
        check("\u{FEFF}\u{FEFF}{}", "expected value");
    }

    #[test]
    fn writing_and_reading_round_trips() {
        for model in ModelName::ALL {
            let config = ModelConfig::new(model, 8, None, 3);
            assert_eq!(ModelConfig::from_json(&config.to_json()), Ok(config));
        }
    }
}
