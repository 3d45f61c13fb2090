//! The tokenizer inside a real GGUF file: SmolLM2-135M-Instruct, which `scripts/fetch-smollm2`
//! fetches.
//!
//! The tests read the file that `CHAPTERBENCH_SMOLLM2_GGUF` names; without it they say so and
//! check nothing. CI sets it, and fails where it is set and the file is not there.
//!
//! Expected ids are those of Hugging Face's `tokenizers` (Python) on the same vocabulary and merges.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;

use candle_core::quantized::gguf_file::Content;
use contracts::openai::ChatMessage;
use engine::text::{Input, Text};

const VARIABLE: &str = "CHAPTERBENCH_SMOLLM2_GGUF";

fn smollm2() -> Option<Text> {
    let Some(path) = std::env::var_os(VARIABLE) else {
        eprintln!(
            "not checked: {VARIABLE} does not name the file that scripts/fetch-smollm2 fetches"
        );
        return None;
    };
    let content = Content::read(&mut File::open(path).unwrap()).unwrap();
    Some(Text::from_gguf("SmolLM2", &content.metadata).unwrap())
}

#[rustfmt::skip]
const CASES: &[(&str, &[u32])] = &[
    ("", &[]),
    ("The capital of France", &[504, 3575, 282, 4649]),
    ("  two  spaces   here ", &[216, 827, 216, 5600, 256, 1535, 216]),
    ("tabs\tand\nnew\n\nlines\r\n", &[100, 7366, 197, 397, 198, 2241, 198, 198, 5110, 2738]),
    ("In 2024: 1 12 123 1234 12345 3.14", &[788, 216, 34, 32, 34, 36, 42, 216, 33, 216, 33, 34, 216, 33, 34, 35, 216, 33, 34, 35, 36, 216, 33, 34, 35, 36, 37, 216, 35, 30, 33, 36]),
    ("½ ² ٣٤ digits", &[16738, 216, 19133, 216, 164, 113, 164, 114, 18638]),
    ("It's we'LL they're I'M x'd", &[1589, 506, 392, 23, 16421, 502, 2316, 339, 23, 61, 1792, 6737]),
    ("café naïve cafe\u{301}", &[83, 1939, 2756, 15486, 46494, 1020, 4565, 151, 219]),
    ("日本語 中文", &[23274, 115, 40993, 179, 120, 248, 216, 28589, 29184]),
    ("🦀👍🏽 ok", &[10813, 116, 218, 10813, 235, 231, 10813, 233, 138, 10907]),
    ("def f(x):\n    return x * 2\n", &[1604, 275, 24, 104, 727, 472, 1003, 1792, 1672, 216, 34, 198]),
    ("<|im_start|>user\nhi 12<|im_end|>\n", &[1, 4093, 198, 6004, 216, 33, 34, 2, 198]),
    (" xyzzy xyzzy", &[29023, 21472, 29023, 21472]),
    ("http://example.com/?q=12#a", &[5031, 1742, 7434, 30, 824, 35005, 97, 45, 33, 34, 19, 81]),
    (" — ‘quotes’ …", &[1841, 1551, 385, 2346, 417, 5548]),
];

#[test]
fn ids_are_the_reference_ones_and_decode_to_the_text() {
    let Some(text) = smollm2() else { return };
    for (raw, expected) in CASES {
        let ids = text.encode(&Input::Text((*raw).to_owned())).unwrap();
        assert_eq!(ids, *expected, "{raw:?}");
        let visible = raw.replace("<|im_start|>", "").replace("<|im_end|>", "");
        assert_eq!(text.decode(&ids), visible);
        let mut stream = text.detokenizer();
        let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
        assert!(!streamed.contains('\u{fffd}'), "{streamed:?}");
        streamed.push_str(&stream.finish());
        assert_eq!(streamed, visible);
    }
}

#[test]
fn facts_and_chat_template_are_the_files() {
    let Some(text) = smollm2() else { return };
    assert_eq!(text.vocab_size(), 49152);
    assert_eq!(text.stop_ids(), [2]);
    assert!(text.has_template());
    let message = ChatMessage {
        role: "user".to_owned(),
        content: "What is the capital of France?".into(),
    };
    let ids = text.encode(&Input::Chat(vec![message])).unwrap();
    let expected = [
        1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411,
        407, 19712, 8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1,
        520, 9531, 198,
    ];
    assert_eq!(ids, expected);
}
