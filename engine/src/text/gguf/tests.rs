//! Tokenizers built from GGUF metadata against ids that the reference tokenizers gave: Hugging
//! Face's `tokenizers` with transformers' own pipelines for the byte-level kinds, `sentencepiece`
//! for SentencePiece. `testdata/` holds the small vocabularies they were trained to.

use std::sync::LazyLock;

use contracts::openai::ChatMessage;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::text::Input;

type Metadata = HashMap<String, Value>;

#[derive(Deserialize)]
struct ByteLevelData {
    tokens: Vec<String>,
    merges: Vec<String>,
    cases: Vec<HashMap<String, serde_json::Value>>,
}

#[derive(Deserialize)]
struct SentencePieceData {
    tokens: Vec<String>,
    scores: Vec<f32>,
    types: Vec<i32>,
    cases: Vec<SentencePieceCase>,
}

#[derive(Deserialize)]
struct SentencePieceCase {
    text: String,
    ids: Vec<u32>,
}

fn byte_level_data() -> ByteLevelData {
    serde_json::from_str(include_str!("../testdata/byte_level.json")).unwrap()
}

fn sentencepiece_data() -> SentencePieceData {
    serde_json::from_str(include_str!("../testdata/sentencepiece.json")).unwrap()
}

fn strings(items: &[String]) -> Value {
    Value::Array(items.iter().cloned().map(Value::String).collect())
}

fn byte_level(pre: &str) -> Metadata {
    let data = byte_level_data();
    let kind = |token: &String| match token.as_str() {
        "<think>" => 4,
        token if token.starts_with("<|") && token.len() > 2 => 3,
        _ => 1,
    };
    let types = data.tokens.iter().map(kind).map(Value::I32).collect();
    let string = |text: &str| Value::String(text.to_owned());
    [
        ("tokenizer.ggml.model", string("gpt2")),
        ("tokenizer.ggml.pre", string(pre)),
        ("tokenizer.ggml.tokens", strings(&data.tokens)),
        ("tokenizer.ggml.token_type", Value::Array(types)),
        ("tokenizer.ggml.merges", strings(&data.merges)),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.eos_token_id", Value::U32(2)),
        ("tokenizer.ggml.eot_token_id", Value::U32(0)),
        ("tokenizer.ggml.add_bos_token", Value::Bool(false)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn sentencepiece() -> Metadata {
    let data = sentencepiece_data();
    [
        ("tokenizer.ggml.model", Value::String("llama".to_owned())),
        ("tokenizer.ggml.tokens", strings(&data.tokens)),
        (
            "tokenizer.ggml.scores",
            Value::Array(data.scores.into_iter().map(Value::F32).collect()),
        ),
        (
            "tokenizer.ggml.token_type",
            Value::Array(data.types.into_iter().map(Value::I32).collect()),
        ),
        ("tokenizer.ggml.add_bos_token", Value::Bool(false)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn with(mut metadata: Metadata, key: &str, value: Value) -> Metadata {
    metadata.insert(key.to_owned(), value);
    metadata
}

fn without(mut metadata: Metadata, key: &str) -> Metadata {
    metadata.remove(key).unwrap();
    metadata
}

fn encode(text: &Text, raw: &str) -> Vec<u32> {
    text.encode(&Input::Text(raw.to_owned())).unwrap()
}

fn error(metadata: &Metadata) -> String {
    Text::from_gguf("m.gguf", metadata).unwrap_err().to_string()
}

#[test]
fn byte_level_ids_are_the_reference_ones() {
    for pre in ["smollm", "qwen2", "llama-bpe"] {
        let text = Text::from_gguf("m.gguf", &byte_level(pre)).unwrap();
        for case in byte_level_data().cases {
            let raw = case["text"].as_str().unwrap();
            let expected: Vec<u32> = serde_json::from_value(case[pre].clone()).unwrap();
            assert_eq!(encode(&text, raw), expected, "{pre}: {raw:?}");
        }
        assert_eq!(text.stop_ids(), [0, 2]);
    }
}

#[test]
fn digits_are_split_as_each_kind_wants() {
    let split = |pre: &str| -> Vec<String> {
        let text = Text::from_gguf("m.gguf", &byte_level(pre)).unwrap();
        encode(&text, "in 1234")
            .iter()
            .map(|&id| text.decode(&[id]))
            .collect()
    };
    assert_eq!(split("smollm"), ["in", " ", "1", "2", "3", "4"]);
    assert_eq!(split("qwen2"), ["in", " ", "1", "2", "3", "4"]);
    assert_eq!(split("llama-bpe"), ["in", " ", "123", "4"]);
}

#[test]
fn sentencepiece_ids_are_the_reference_ones() {
    let text = Text::from_gguf("m.gguf", &sentencepiece()).unwrap();
    for case in sentencepiece_data().cases {
        assert_eq!(encode(&text, &case.text), case.ids, "{:?}", case.text);
        assert_eq!(text.decode(&case.ids), case.text.replace('▁', " "));
    }
    assert_eq!(text.stop_ids(), [2], "EOS is 2 where the file names none");
}

#[test]
fn special_tokens_are_added_as_the_file_says() {
    let sentence = |metadata: &Metadata| encode(&Text::from_gguf("m.gguf", metadata).unwrap(), "a");
    let plain = sentence(&sentencepiece());
    let bos = without(sentencepiece(), "tokenizer.ggml.add_bos_token");
    assert_eq!(
        sentence(&bos),
        [&[1], plain.as_slice()].concat(),
        "SentencePiece adds BOS unless told"
    );
    let both = with(bos, "tokenizer.ggml.add_eos_token", Value::Bool(true));
    assert_eq!(sentence(&both), [&[1], plain.as_slice(), &[2]].concat());

    let unsaid = |pre| without(byte_level(pre), "tokenizer.ggml.add_bos_token");
    assert_eq!(
        sentence(&unsaid("llama-bpe"))[0],
        1,
        "Llama 3 adds BOS unless told"
    );
    assert_eq!(sentence(&unsaid("smollm")), sentence(&byte_level("smollm")));
}

#[test]
fn no_blank_is_put_before_a_text_where_the_file_forbids_it() {
    let metadata = with(
        sentencepiece(),
        "tokenizer.ggml.add_space_prefix",
        Value::Bool(false),
    );
    let text = Text::from_gguf("m.gguf", &metadata).unwrap();
    let with_blank = Text::from_gguf("m.gguf", &sentencepiece()).unwrap();
    assert_eq!(encode(&text, " capital"), encode(&with_blank, "capital"));
    assert_eq!(
        text.decode(&encode(&text, " capital")),
        " capital",
        "and none is taken away"
    );
}

#[test]
fn a_chat_goes_through_the_template_and_adds_no_bos() {
    let template = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}";
    let metadata = with(
        byte_level("llama-bpe"),
        "tokenizer.chat_template",
        Value::String(template.to_owned()),
    );
    let metadata = with(metadata, "tokenizer.ggml.add_bos_token", Value::Bool(true));
    let text = Text::from_gguf("m.gguf", &metadata).unwrap();
    let message = ChatMessage {
        role: "user".to_owned(),
        content: "hi".into(),
    };
    let chat = text.encode(&Input::Chat(vec![message])).unwrap();
    assert_eq!(
        chat,
        encode(&text, "user: hi<|im_end|>"),
        "one BOS: the template's"
    );
    assert_eq!(chat[0], 1);
}

#[test]
fn unused_tokens_are_no_text() {
    let mut metadata = byte_level("smollm");
    let before = Text::from_gguf("m.gguf", &metadata).unwrap().vocab_size();
    for (key, value) in [
        ("tokens", Value::String("[PAD]".to_owned())),
        ("token_type", Value::I32(5)),
    ] {
        let Some(Value::Array(items)) = metadata.get_mut(&format!("tokenizer.ggml.{key}")) else {
            unreachable!()
        };
        items.push(value);
    }
    let text = Text::from_gguf("m.gguf", &metadata).unwrap();
    assert_eq!(text.vocab_size(), before);
    assert_eq!(text.decode(&[u32::try_from(before).unwrap()]), "");
}

#[test]
fn other_kinds_are_refused_by_name() {
    let other = with(
        byte_level("smollm"),
        "tokenizer.ggml.model",
        Value::String("t5".to_owned()),
    );
    assert_eq!(
        error(&other),
        "cannot run model m.gguf: tokenizer.ggml.model = \"t5\": known are gpt2 and llama"
    );
    assert_eq!(
        error(&byte_level("deepseek-llm")),
        "cannot run model m.gguf: tokenizer.ggml.pre = \"deepseek-llm\": known are smollm, llama-bpe and qwen2"
    );
}

#[test]
fn damage_is_told_with_the_key() {
    let start = "model m.gguf: the tokenizer inside the file is damaged: ";
    for key in ["model", "pre", "tokens", "token_type", "merges"] {
        let key = format!("tokenizer.ggml.{key}");
        assert_eq!(
            error(&without(byte_level("smollm"), &key)),
            format!("{start}{key} is missing")
        );
    }
    let merges = strings(&[
        byte_level_data().merges.swap_remove(0),
        "nonsense".to_owned(),
    ]);
    let wrong = with(byte_level("qwen2"), "tokenizer.ggml.merges", merges);
    assert_eq!(
        error(&wrong),
        format!("{start}merge \"nonsense\" fits no tokens")
    );
    let wrong = with(
        byte_level("qwen2"),
        "tokenizer.ggml.eos_token_id",
        Value::U32(9999),
    );
    assert!(
        error(&wrong).contains("tokenizer.ggml.eos_token_id is 9999, but there are"),
        "{}",
        error(&wrong)
    );
    let wrong = with(
        sentencepiece(),
        "tokenizer.ggml.scores",
        Value::Array(vec![Value::F32(0.0)]),
    );
    assert_eq!(error(&wrong), format!("{start}420 tokens, but 1 scores"));
    let wrong = with(
        byte_level("smollm"),
        "tokenizer.ggml.tokens",
        Value::Bool(true),
    );
    assert_eq!(
        error(&wrong),
        format!("{start}tokenizer.ggml.tokens is no list of strings")
    );
}

#[test]
fn the_hash_follows_the_keys() {
    let hash = |metadata: &Metadata| {
        Text::from_gguf("m.gguf", metadata)
            .unwrap()
            .sha256()
            .to_owned()
    };
    assert_eq!(hash(&byte_level("smollm")), hash(&byte_level("smollm")));
    assert_ne!(hash(&byte_level("smollm")), hash(&byte_level("qwen2")));
}

/// The library's own decoder, the reference for ours.
fn reference(text: &Text, ids: &[u32]) -> String {
    text.parts.tokenizer.decode(ids, true).unwrap()
}

/// Pushes one by one; no push may end inside a character.
fn streamed(text: &Text, ids: &[u32]) -> String {
    let mut stream = text.detokenizer();
    let mut out: String = ids.iter().map(|&id| stream.push(id)).collect();
    out.push_str(&stream.finish());
    out
}

static SMOLLM: LazyLock<Text> =
    LazyLock::new(|| Text::from_gguf("m.gguf", &byte_level("smollm")).unwrap());
static LLAMA3: LazyLock<Text> =
    LazyLock::new(|| Text::from_gguf("m.gguf", &byte_level("llama-bpe")).unwrap());
static SENTENCEPIECE: LazyLock<Text> =
    LazyLock::new(|| Text::from_gguf("m.gguf", &sentencepiece()).unwrap());

proptest! {
    #[test]
    fn byte_level_decoding_is_the_librarys(ids in prop::collection::vec(0u32..430, 0..80)) {
        let text = &*SMOLLM;
        prop_assert_eq!(streamed(text, &ids), reference(text, &ids));
        prop_assert_eq!(text.decode(&ids), reference(text, &ids));
    }

    #[test]
    fn any_text_comes_back(raw in "[^<▁]*") {
        for text in [&*SMOLLM, &*LLAMA3] {
            prop_assert_eq!(text.decode(&encode(text, &raw)), raw.as_str());
        }
        let text = &*SENTENCEPIECE;
        let ids = encode(text, &raw);
        prop_assert_eq!(streamed(text, &ids), raw.as_str());
        prop_assert_eq!(reference(text, &ids), raw.as_str());
    }

    // Not the library's U+FFFD for every byte of a run that has one wrong byte: whole characters
    // of such a run were out before the wrong byte came.
    #[test]
    fn sentencepiece_bytes_are_decoded_as_utf8(ids in prop::collection::vec(0u32..420, 0..80)) {
        let text = &*SENTENCEPIECE;
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| text.parts.pieces.bytes(id).to_vec()).collect();
        let bytes = bytes.strip_prefix(b" ").unwrap_or(&bytes);
        prop_assert_eq!(streamed(text, &ids), String::from_utf8_lossy(bytes));
    }
}
