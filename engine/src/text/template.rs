//! Chat templates: a conversation becomes the text that the model was trained on.
//!
//! Templates are Jinja as Hugging Face transformers runs it: blocks trimmed, Python's string
//! methods, `raise_exception`, `strftime_now`, `tojson`, `{% generation %}`.

use std::{collections::BTreeMap, error::Error as _};

use contracts::openai::ChatMessage;
use minijinja::{AutoEscape, Environment, Value as Variable, context, syntax::SyntaxConfig};
use minijinja_contrib::pycompat;
use serde_json::Value;

use super::template_functions::{self, Raised};
use crate::error::EngineError;

const NAME: &str = "chat_template";

/// A model's template, compiled.
pub(super) struct Template {
    /// Or what is wrong with it, told when it is used: raw text needs no template.
    environment: Result<Environment<'static>, String>,
    /// `bos_token`, `eos_token` and so on: variables of the template.
    token_names: BTreeMap<String, String>,
}

impl Template {
    /// Compiles a template; `token_names` are variables in it.
    pub(super) fn new(source: &str, token_names: BTreeMap<String, String>) -> Self {
        Self {
            environment: compile(source).map_err(|error| one_line(&error)),
            token_names,
        }
    }

    /// The text of a conversation, ready for the assistant's turn.
    ///
    /// # Errors
    /// [`EngineError::BadInput`] naming `messages`, or the message at fault.
    pub(super) fn render(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        if messages.is_empty() {
            return Err(EngineError::bad_input(
                "messages",
                "must hold at least one message",
            ));
        }
        let environment = self.environment.as_ref().map_err(|error| {
            EngineError::bad_input(
                "messages",
                format!("the model's chat template cannot be read: {error}"),
            )
        })?;
        let messages = messages
            .iter()
            .enumerate()
            .map(message)
            .collect::<Result<Vec<_>, _>>()?;
        let variables = context! {
            messages,
            // transformers passes both, always.
            tools => (),
            documents => (),
            add_generation_prompt => true,
            ..Variable::from_pairs(self.token_names.clone())
        };
        environment
            .get_template(NAME)
            .and_then(|template| template.render(variables))
            .map_err(|error| {
                let message = match raised(&error) {
                    Some(message) => format!("the model's chat template refuses them: {message}"),
                    None => format!("the model's chat template fails: {}", one_line(&error)),
                };
                EngineError::bad_input("messages", message)
            })
    }
}

fn compile(source: &str) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(pycompat::unknown_method_callback);
    template_functions::register(&mut environment);
    environment.add_template_owned(NAME, without_generation_tags(source))?;
    Ok(environment)
}

/// A message as templates see it: `role`, `content`, in this order.
fn message((index, message): (usize, &ChatMessage)) -> Result<Variable, EngineError> {
    let content = text_of(&message.content)
        .map_err(|what| EngineError::bad_input(format!("messages[{index}].content"), what))?;
    Ok(Variable::from_pairs([
        ("role", message.role.clone()),
        ("content", content),
    ]))
}

/// Content as one string; text parts of a list are joined by line ends.
fn text_of(content: &Value) -> Result<String, &'static str> {
    const WANTED: &str = "must be a string or a list of {\"type\": \"text\", \"text\": …} parts";
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| {
                match (
                    part.get("type").and_then(Value::as_str),
                    part.get("text").and_then(Value::as_str),
                ) {
                    (Some("text") | None, Some(text)) => Ok(text),
                    _ => Err(WANTED),
                }
            })
            .collect::<Result<Vec<_>, _>>()
            .map(|parts| parts.join("\n")),
        _ => Err(WANTED),
    }
}

/// What the template told `raise_exception`.
fn raised(error: &minijinja::Error) -> Option<String> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(Raised(message)) = error.downcast_ref() {
            return Some(message.clone());
        }
        source = error.source();
    }
    None
}

fn one_line(error: &minijinja::Error) -> String {
    error.to_string().lines().collect::<Vec<_>>().join(" ")
}

/// `{% generation %}` marks the assistant's words for training and prints what it holds: here it
/// becomes `{% if true %}`, with its own signs for blanks.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag_and_rest)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        let Some((tag, after)) = tag_and_rest.split_once("%}") else {
            rest = tag_and_rest;
            continue;
        };
        match tag
            .trim_start_matches(['-', '+'])
            .trim_end_matches(['-', '+'])
            .trim()
        {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        out.push_str("%}");
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Reference {
        messages: Vec<ChatMessage>,
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        name: String,
        template: String,
        text: String,
    }

    fn template(source: &str) -> Template {
        let names = [("bos_token", "<s>"), ("eos_token", "</s>")];
        Template::new(
            source,
            names
                .map(|(key, token)| (key.to_owned(), token.to_owned()))
                .into(),
        )
    }

    fn user(content: Value) -> Vec<ChatMessage> {
        vec![ChatMessage {
            role: "user".to_owned(),
            content,
        }]
    }

    fn render(source: &str, content: Value) -> Result<String, String> {
        template(source)
            .render(&user(content))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn templates_give_what_transformers_gives() {
        // Made by transformers 5.24 with its clock set to the day that strftime_now gives.
        let reference: Reference =
            serde_json::from_str(include_str!("testdata/templates.json")).unwrap();
        for case in reference.cases {
            let text = template(&case.template)
                .render(&reference.messages)
                .unwrap();
            assert_eq!(text, case.text, "{}", case.name);
        }
    }

    #[test]
    fn content_may_be_a_list_of_text_parts() {
        let parts = json!([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]);
        assert_eq!(
            render("{{ messages[0].content }}", parts).unwrap(),
            "one \ntwo"
        );
        for wrong in [
            json!(null),
            json!(3),
            json!([{"type": "image_url", "image_url": {}}]),
        ] {
            let message = render("{{ messages[0].content }}", wrong).unwrap_err();
            assert!(
                message.starts_with("messages[0].content: must be a string or a list"),
                "{message}"
            );
        }
    }

    #[test]
    fn refusals_name_the_messages_and_are_one_line() {
        assert_eq!(
            render("{{ raise_exception('Roles must alternate!') }}", json!("")).unwrap_err(),
            "messages: the model's chat template refuses them: Roles must alternate!"
        );
        let in_a_macro = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}";
        assert_eq!(
            render(in_a_macro, json!("")).unwrap_err(),
            "messages: the model's chat template refuses them: no"
        );
        for (source, start) in [
            (
                "{% for %}",
                "messages: the model's chat template cannot be read: ",
            ),
            (
                "{{ 1 // 0 }}",
                "messages: the model's chat template fails: ",
            ),
            (
                "{{ strftime_now('%Q') }}",
                "messages: the model's chat template fails: ",
            ),
        ] {
            let message = render(source, json!("")).unwrap_err();
            assert!(
                message.starts_with(start) && !message.contains('\n'),
                "{message}"
            );
        }
        let none = template("x").render(&[]).unwrap_err().to_string();
        assert_eq!(none, "messages: must hold at least one message");
    }

    #[test]
    fn dates_never_change() {
        let all = "%A %d %B %Y %a %b %y %m %e %j %H:%M:%S %I %p %F %T %D %h %%";
        assert_eq!(
            render(&format!("{{{{ strftime_now('{all}') }}}}"), json!("")).unwrap(),
            "Friday 26 July 2024 Fri Jul 24 07 26 208 00:00:00 12 AM 2024-07-26 00:00:00 07/26/24 Jul %"
        );
    }
}
