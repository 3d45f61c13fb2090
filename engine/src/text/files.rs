//! A model's words from the files of a Hugging Face directory.
//!
//! Files may lie anywhere (a hub's cache links them one by one): [`TextFiles`] says where each is.

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use super::{Parts, Text, pieces::Pieces, template::Template};
use crate::error::EngineError;

/// Where the files are that tell a model's words. Only `tokenizer.json` is needed.
#[derive(Debug, Clone, Default)]
pub struct TextFiles {
    /// `tokenizer.json`.
    pub tokenizer: Option<PathBuf>,
    /// `tokenizer_config.json`: names of special tokens, chat template.
    pub tokenizer_config: Option<PathBuf>,
    /// `special_tokens_map.json`: names of special tokens, in older models.
    pub special_tokens_map: Option<PathBuf>,
    /// `chat_template.jinja`, stronger than the template in `tokenizer_config.json`.
    pub chat_template: Option<PathBuf>,
    /// `generation_config.json`: the ids that end an answer.
    pub generation_config: Option<PathBuf>,
    /// `config.json`: likewise, where `generation_config.json` names none.
    pub config: Option<PathBuf>,
}

impl TextFiles {
    /// Asks for each file by its name.
    pub fn find(mut look_up: impl FnMut(&str) -> Option<PathBuf>) -> Self {
        Self {
            tokenizer: look_up("tokenizer.json"),
            tokenizer_config: look_up("tokenizer_config.json"),
            special_tokens_map: look_up("special_tokens_map.json"),
            chat_template: look_up("chat_template.jinja"),
            generation_config: look_up("generation_config.json"),
            config: look_up("config.json"),
        }
    }

    /// The files that this directory has.
    pub fn in_dir(dir: &Path) -> Self {
        Self::find(|name| Some(dir.join(name)).filter(|path| path.is_file()))
    }
}

impl Text {
    /// Reads the tokenizer, template and stop ids of a model directory.
    ///
    /// # Errors
    /// As [`Text::from_files`].
    pub fn from_dir(dir: &Path) -> Result<Self, EngineError> {
        Self::from_files(&dir.display().to_string(), &TextFiles::in_dir(dir))
    }

    /// Reads the tokenizer, template and stop ids of `model` (a name for errors).
    ///
    /// Truncation and padding that `tokenizer.json` may ask for are switched off. Stop ids are the
    /// `eos_token_id` of `generation_config.json`, else of `config.json`, else the id of the
    /// tokenizer's `eos_token`.
    ///
    /// # Errors
    /// [`EngineError::Model`] naming the file that is missing or damaged,
    /// [`EngineError::Unsupported`] for a tokenizer of a kind that we would decode wrong.
    pub fn from_files(model: &str, files: &TextFiles) -> Result<Self, EngineError> {
        let reader = Reader { model };
        let Some(path) = &files.tokenizer else {
            return Err(EngineError::model(model, "tokenizer.json is missing"));
        };
        let bytes = reader.bytes(path)?;
        let tokenizer = reader.tokenizer(path, &bytes)?;

        let tokenizer_config = reader.json(files.tokenizer_config.as_deref())?;
        let mut names = token_names(&reader.json(files.special_tokens_map.as_deref())?);
        names.extend(token_names(&tokenizer_config));

        let template = match &files.chat_template {
            Some(path) => Some(reader.text(path)?),
            None => default_template(&tokenizer_config).map(str::to_owned),
        };
        let mut stop_ids = Vec::new();
        for path in [&files.generation_config, &files.config] {
            if stop_ids.is_empty() {
                stop_ids = reader.eos_ids(path.as_deref())?;
            }
        }
        if stop_ids.is_empty() {
            stop_ids.extend(
                names
                    .get("eos_token")
                    .and_then(|token| tokenizer.token_to_id(token)),
            );
        }
        Ok(Self::new(
            Parts {
                pieces: Pieces::of(&tokenizer)?,
                tokenizer,
                stop_ids,
                before: Vec::new(),
                after: Vec::new(),
                sha256: hex::encode(Sha256::digest(&bytes)),
            },
            template.map(|source| Template::new(&source, names)),
        ))
    }
}

/// Reads files so that each error names the model and the file.
struct Reader<'a> {
    model: &'a str,
}

impl Reader<'_> {
    fn error(&self, path: &Path, what: impl std::fmt::Display) -> EngineError {
        EngineError::model(self.model, format!("{}: {what}", path.display()))
    }

    fn bytes(&self, path: &Path) -> Result<Vec<u8>, EngineError> {
        fs::read(path).map_err(|error| self.error(path, error))
    }

    fn text(&self, path: &Path) -> Result<String, EngineError> {
        String::from_utf8(self.bytes(path)?).map_err(|_| self.error(path, "not UTF-8"))
    }

    /// Null for a file that isn't there.
    fn json(&self, path: Option<&Path>) -> Result<Value, EngineError> {
        let Some(path) = path else {
            return Ok(Value::Null);
        };
        serde_json::from_slice(&self.bytes(path)?)
            .map_err(|error| self.error(path, format!("not valid JSON: {error}")))
    }

    fn tokenizer(&self, path: &Path, bytes: &[u8]) -> Result<Tokenizer, EngineError> {
        let damaged = |error: &dyn std::fmt::Display| {
            self.error(path, format!("not a tokenizer that can be read: {error}"))
        };
        // The library panics on merges that make a token longer than any in the vocabulary.
        let mut tokenizer = catch_unwind(AssertUnwindSafe(|| Tokenizer::from_bytes(bytes)))
            .map_err(|_| damaged(&"merges and vocabulary do not fit"))?
            .map_err(|error| damaged(&error))?;
        tokenizer
            .with_truncation(None)
            .map_err(|error| damaged(&error))?
            .with_padding(None);

        // The library gives an added token another id when the file's is not free; then every
        // answer would be wrong without a word.
        let declared: Declared = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
        for token in declared.added_tokens {
            let id = tokenizer.token_to_id(&token.content);
            if id != Some(token.id) {
                let got = id.map_or("none".to_owned(), |id| id.to_string());
                return Err(damaged(&format!(
                    "added token {:?} has id {}, but gets {got}",
                    token.content, token.id
                )));
            }
        }
        Ok(tokenizer)
    }

    fn eos_ids(&self, path: Option<&Path>) -> Result<Vec<u32>, EngineError> {
        let config = self.json(path)?;
        let (Some(path), Some(value)) = (path, config.get("eos_token_id")) else {
            return Ok(Vec::new());
        };
        let ids = match value {
            Value::Null => Some(Vec::new()),
            Value::Array(ids) => ids.iter().map(token_id).collect(),
            id => token_id(id).map(|id| vec![id]),
        };
        ids.ok_or_else(|| {
            self.error(
                path,
                format!("eos_token_id must be a token id or a list of them, not {value}"),
            )
        })
    }
}

fn token_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// The part of `tokenizer.json` that is checked against what the library made of it.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<DeclaredToken>,
}

#[derive(Deserialize)]
struct DeclaredToken {
    id: u32,
    content: String,
}

/// `bos_token`, `eos_token` and the like, each a string or an object with `content`.
fn token_names(config: &Value) -> BTreeMap<String, String> {
    let entries = config
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.ends_with("_token"));
    entries
        .filter_map(|(key, value)| {
            let name = value.as_str().or_else(|| value.get("content")?.as_str())?;
            Some((key.clone(), name.to_owned()))
        })
        .collect()
}

/// The template of `tokenizer_config.json`: a string, or the one named `default` of a list.
fn default_template(config: &Value) -> Option<&str> {
    match config.get("chat_template")? {
        Value::String(source) => Some(source),
        Value::Array(named) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))?
            .get("template")?
            .as_str(),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::text::Input;

    /// Three letters, two special tokens, and a post-processor that puts BOS first.
    fn tokenizer() -> Value {
        let special = |id, content| {
            json!({"id": id, "content": content, "special": true, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false})
        };
        json!({
            "version": "1.0",
            "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
            "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"},
            "added_tokens": [special(0, "<s>"), special(1, "</s>")],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
            "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "c": 4, "ab": 5},
                "merges": ["a b"]}
        })
    }

    fn model(files: &[(&str, Value)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tokenizer.json"), tokenizer().to_string()).unwrap();
        for (name, content) in files {
            let content = content
                .as_str()
                .map_or_else(|| content.to_string(), str::to_owned);
            fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    fn load(files: &[(&str, Value)]) -> Text {
        Text::from_dir(model(files).path()).unwrap()
    }

    fn fails(files: &[(&str, Value)]) -> String {
        let dir = model(files);
        let error = Text::from_dir(dir.path()).unwrap_err().to_string();
        error.replace(&dir.path().display().to_string(), "DIR")
    }

    fn chat(text: &Text) -> Vec<u32> {
        let message = contracts::openai::ChatMessage {
            role: "user".into(),
            content: "abc".into(),
        };
        text.encode(&Input::Chat(vec![message])).unwrap()
    }

    #[test]
    fn raw_text_is_neither_cut_nor_padded_and_gets_the_tokenizers_own_bos() {
        let text = load(&[]);
        assert_eq!(
            text.encode(&Input::Text("abcabc".into())).unwrap(),
            [0, 5, 4, 5, 4]
        );
        assert_eq!(text.encode(&Input::Ids(vec![7, 0])).unwrap(), [7, 0]);
        assert_eq!(text.decode(&[0, 5, 4, 1, 99]), "abc");
        assert_eq!(text.vocab_size(), 6);
        assert!(!text.has_template());
        let refused = text
            .encode(&Input::Chat(Vec::new()))
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("messages: this model has no chat template"),
            "{refused}"
        );
    }

    #[test]
    fn templates_are_found_in_every_place() {
        let source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
        let object = json!({"content": "</s>", "lstrip": false});
        let names = json!({"bos_token": "<s>", "eos_token": object});
        let one = json!({"chat_template": source, "bos_token": "<s>", "eos_token": object});
        let named =
            json!([{"name": "tool_use", "template": "c"}, {"name": "default", "template": source}]);
        for files in [
            vec![("tokenizer_config.json", one)],
            vec![
                ("tokenizer_config.json", json!({"chat_template": named})),
                ("special_tokens_map.json", names.clone()),
            ],
            vec![
                (
                    "tokenizer_config.json",
                    json!({"chat_template": "c", "bos_token": null}),
                ),
                ("special_tokens_map.json", names),
                ("chat_template.jinja", json!(source)),
            ],
        ] {
            let text = load(&files);
            assert_eq!(chat(&text), [0, 5, 4, 1], "BOS once, from the template");
            assert!(!text.without_template().has_template());
        }
        let no_default = json!({"chat_template": [{"name": "tool_use", "template": "c"}]});
        assert!(!load(&[("tokenizer_config.json", no_default)]).has_template());
    }

    #[test]
    fn stop_ids_come_from_the_first_file_that_names_some() {
        let eos = |value: Value| json!({ "eos_token_id": value });
        let config = ("config.json", eos(json!(3)));
        let names = ("tokenizer_config.json", json!({"eos_token": "</s>"}));
        let generation = |value| ("generation_config.json", eos(value));
        let stop_ids = |files: &[(&str, Value)]| load(files).stop_ids().to_vec();
        assert_eq!(
            stop_ids(&[generation(json!([4, 1, 4])), config.clone(), names.clone()]),
            [1, 4]
        );
        assert_eq!(
            stop_ids(&[generation(json!(null)), config.clone(), names.clone()]),
            [3]
        );
        assert_eq!(stop_ids(&[config, names.clone()]), [3]);
        assert_eq!(stop_ids(&[names]), [1]);
        assert_eq!(stop_ids(&[]), [0u32; 0]);
        assert_eq!(
            fails(&[generation(json!("2"))]),
            "model DIR: DIR/generation_config.json: eos_token_id must be a token id or a list of them, not \"2\""
        );
    }

    #[test]
    fn a_missing_or_damaged_file_is_named_in_one_line() {
        let empty = tempfile::tempdir().unwrap();
        let error = Text::from_dir(empty.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "model {}: tokenizer.json is missing",
                empty.path().display()
            )
        );

        let mut long_merge = tokenizer();
        long_merge["model"]["merges"] = json!(["</s> </s>"]);
        let mut wrong_id = tokenizer();
        wrong_id["added_tokens"][1]["id"] = json!(4);
        let damaged = "model DIR: DIR/tokenizer.json: not a tokenizer that can be read: ";
        for (content, start) in [
            (json!("{"), damaged.to_owned()),
            (json!({"model": {"type": "Unheard"}}), damaged.to_owned()),
            (
                long_merge,
                format!("{damaged}merges and vocabulary do not fit"),
            ),
            (
                wrong_id,
                format!("{damaged}added token \"</s>\" has id 4, but gets 1"),
            ),
        ] {
            let error = fails(&[("tokenizer.json", content)]);
            assert!(
                error.starts_with(&start) && !error.contains('\n'),
                "{error}"
            );
        }
        let error = fails(&[("tokenizer_config.json", json!("{\"a\":"))]);
        assert!(
            error.starts_with("model DIR: DIR/tokenizer_config.json: not valid JSON: "),
            "{error}"
        );
    }

    #[test]
    fn decoders_that_are_not_known_are_refused() {
        let mut other = tokenizer();
        other["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        assert_eq!(
            fails(&[("tokenizer.json", other)]),
            "cannot run the tokenizer's decoder (WordPiece): only byte-level and SentencePiece decoders are known"
        );
    }
}
