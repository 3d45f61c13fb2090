//! Model directories laid out on disk: whole, in parts, and damaged.

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
        assert!(text.has_template());
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
fn a_damaged_id_does_not_take_all_memory() {
    let mut huge = tokenizer();
    huge["model"]["vocab"]["ab"] = json!(u32::MAX);
    assert_eq!(
        fails(&[("tokenizer.json", huge)]),
        "cannot run a tokenizer with token id 4294967295: ids must be below 4194304"
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
