//! Scaled rotary embeddings in `.gguf` files: read for our decoder, refused by candle's models.

use std::{collections::BTreeMap, fs, path::Path};

use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, gguf_file::Value},
};
use contracts::run::Dtype;
use engine::{
    chapters::{self, Setup},
    inspect,
    model::{
        self, ModelRequest,
        config::Config,
        gguf::Gguf,
        open::{self, Runner},
        rope::{RopeScaling, YarnRope},
        rope_table::inverse_frequencies,
    },
    text::Input,
};

use crate::{
    gguf_file::{Made, add_tokenizer, made, scale, set},
    support::{Expected, greedy, one_line, request, vector},
};

#[test]
fn scaled_files_are_read_and_candle_refuses_them() {
    let divisors = llama3_divisors();
    type Edit = Box<dyn Fn(&mut Made)>;
    let cases: [(Edit, RopeScaling); 4] = [
        (
            Box::new(|made| scale(made, "linear", 4.0)),
            RopeScaling::Linear { factor: 4.0 },
        ),
        (
            Box::new(|made| set(made, "llama.rope.scale_linear", Value::F32(4.0))),
            RopeScaling::Linear { factor: 4.0 },
        ),
        (
            Box::new(|made| {
                scale(made, "yarn", 4.0);
                let original = "llama.rope.scaling.original_context_length";
                set(made, original, Value::U32(64));
            }),
            RopeScaling::Yarn(YarnRope::of_paper(4.0, 64)),
        ),
        (
            Box::new({
                let divisors = divisors.clone();
                move |made| {
                    let tensor = Tensor::new(divisors.as_slice(), &Device::Cpu).unwrap();
                    made.tensors.insert("rope_freqs.weight".to_owned(), tensor);
                }
            }),
            RopeScaling::Divided(divisors.clone()),
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    for (edit, scaling) in cases {
        let mut made = made();
        add_tokenizer(&mut made);
        edit(&mut made);
        made.write(&path, GgmlDType::F32);
        let config = Gguf::open(&path, "tiny").unwrap().config().clone();
        assert_eq!(config.rope_scaling, scaling);
        for dtype in [None, Some(Dtype::F32)] {
            let request = ModelRequest {
                dtype,
                ..request(&path)
            };
            let error = one_line(&model::load(&request).err().unwrap());
            assert!(error.ends_with("chapter 3 and later can"), "{error}");
        }
        // Ours opens it, once it is told a type.
        let request = ModelRequest {
            dtype: Some(Dtype::F32),
            ..request(&path)
        };
        let opened = open::open(&request, Runner::Decoder).unwrap();
        assert_eq!(opened.config, config);
        if let RopeScaling::Divided(_) = scaling {
            for (ours, theirs) in inverse_frequencies(&config)
                .iter()
                .zip(inverse_frequencies(&llama3_config()))
            {
                assert!((ours / theirs - 1.0).abs() < 1e-6, "{ours}, not {theirs}");
            }
        }
    }
    let opened = open::open(&request(&path), Runner::Decoder);
    let seen = inspect::inspect_as(path.to_str().unwrap(), None, Some(Runner::Decoder));
    for error in [opened.err().unwrap(), seen.err().unwrap()] {
        assert!(one_line(&error).ends_with("add --dtype f32"), "{error}");
    }
}

#[test]
fn divisors_that_cannot_divide_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    for (number, message) in [
        (0.0, "tensor rope_freqs.weight holds 0"),
        (1e-38, "scaling divided comes to numbers beyond all range"),
        (f32::NAN, "tensor rope_freqs.weight holds NaN"),
        (1.0, "its metadata names a linear scaling too"),
    ] {
        let mut made = made();
        let tensor = Tensor::new(&[number; 8], &Device::Cpu).unwrap();
        made.tensors.insert("rope_freqs.weight".to_owned(), tensor);
        if number == 1.0 {
            scale(&mut made, "linear", 2.0);
        }
        made.write(&path, GgmlDType::F32);
        let error = one_line(&Gguf::open(&path, "tiny").err().unwrap());
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_scaled_gguf_file_answers_as_the_model_it_was_made_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let write = |edit: &dyn Fn(&mut Made)| {
        let mut made = made();
        add_tokenizer(&mut made);
        edit(&mut made);
        made.write(&path, GgmlDType::F32);
    };
    write(&|made| scale(made, "linear", 4.0));
    check_answers(&path, &vector("tiny-llama-linear").1);
    let divisors = llama3_divisors();
    write(&|made| {
        let tensor = Tensor::new(divisors.as_slice(), &Device::Cpu).unwrap();
        made.tensors.insert("rope_freqs.weight".to_owned(), tensor);
    });
    check_answers(&path, &vector("tiny-llama-llama3").1);
}

/// As the converter of llama.cpp writes them: plain frequencies over scaled ones.
fn llama3_divisors() -> Vec<f32> {
    let scaled = llama3_config();
    let plain = Config {
        rope_scaling: RopeScaling::None,
        ..scaled.clone()
    };
    let pairs = inverse_frequencies(&plain).into_iter();
    pairs
        .zip(inverse_frequencies(&scaled))
        .map(|(plain, scaled)| plain / scaled)
        .collect()
}

/// The config that [`llama3_divisors`] stand for.
fn llama3_config() -> Config {
    let path = vector("tiny-llama-llama3").0.join("config.json");
    Config::parse(&fs::read(path).unwrap(), "tiny").unwrap()
}

fn check_answers(path: &Path, expected: &Expected) {
    let model = ModelRequest {
        dtype: Some(Dtype::F32),
        ..request(path)
    };
    let options = BTreeMap::new();
    let mut engine = (chapters::find("ch03").unwrap().build)(Setup { model, options }).unwrap();
    for case in &expected.cases {
        let input = Input::Ids(case.input_ids.clone());
        let result = engine
            .generate(&input, &greedy(expected.max_new_tokens))
            .unwrap();
        assert_eq!(result.output_ids, case.greedy_ids, "{:?}", case.prompt);
    }
}
