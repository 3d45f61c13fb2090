//! How the server refuses: a broken request, a model that it has not, fields beyond OpenAI's API.

use contracts::doctor::{Finding, Grade};
use serde_json::{Value, json};

use super::ask::{self, NO_MODEL};
use super::exchange::{Asker, Reply, Trouble};
use super::finding;
use super::whole::{self, Shape, excerpt};
use crate::load::Route;

/// Not JSON.
const BROKEN_BODY: &str = "{\"model\": ";

/// Asks what must be refused, and what may be.
pub async fn look(asker: &Asker, route: Route, model: &str) -> Vec<Finding> {
    let path = route.path();
    let bad = asker.post_text(path, BROKEN_BODY).await;
    let body = ask::body(route, NO_MODEL, ask::SHORT, 1);
    let unknown = asker.post(path, &body).await;
    vec![
        bad_request(&bad),
        unknown_model(&unknown),
        extensions(asker, route, model).await,
    ]
}

fn bad_request(reply: &Reply) -> Finding {
    let (grade, seen) = match reply {
        Ok(answer) => match (answer.head.status, whole::shape(answer)) {
            (200..=299, _) => (
                Grade::Odd,
                format!("{} to a body that is no JSON", answer.head.status),
            ),
            (status @ 400..=499, Shape::Object(words)) => (
                Grade::Fine,
                format!("{status} with an error object: {words}"),
            ),
            (status, Shape::Object(words)) => (
                Grade::Odd,
                format!("{status} with an error object: {words}"),
            ),
            (status, Shape::Json(words)) => (
                Grade::Odd,
                format!("{status} with JSON of its own: {words}"),
            ),
            (status, Shape::Html) => (Grade::Odd, format!("{status} with an HTML page")),
            (status, Shape::Text(words)) => (Grade::Odd, format!("{status} with text: {words}")),
            (status, Shape::Empty) => (Grade::Odd, format!("{status} without a word")),
        },
        Err(trouble) => (unanswered(trouble), trouble.to_string()),
    };
    finding("bad_request", grade, seen)
}

fn unknown_model(reply: &Reply) -> Finding {
    let (grade, seen) = match reply {
        Ok(answer) => match answer.head.status {
            404 => (Grade::Fine, whole::refusal(answer)),
            200..=299 => (
                Grade::Odd,
                "any name is taken: the model that answers is not known by its name".to_owned(),
            ),
            _ => (Grade::Odd, whole::refusal(answer)),
        },
        Err(trouble) => (unanswered(trouble), trouble.to_string()),
    };
    finding("unknown_model", grade, seen)
}

/// A failed request that only a timeout ends makes a run with failures as long as those timeouts.
fn unanswered(trouble: &Trouble) -> Grade {
    match trouble {
        Trouble::Silent(_) => Grade::Limits,
        Trouble::NoTime => Grade::Unknown,
        Trouble::Connect(_) | Trouble::Closed | Trouble::NotHttp(_) => Grade::Odd,
    }
}

/// Fields that many servers share, with values that change little.
fn extension_fields() -> [(&'static str, Value); 4] {
    [
        ("top_k", json!(50)),
        ("min_p", json!(0.01)),
        ("repetition_penalty", json!(1.01)),
        ("return_token_ids", json!(true)),
    ]
}

/// All fields at once; each alone only where that was refused.
async fn extensions(asker: &Asker, route: Route, model: &str) -> Finding {
    let ask = async |fields: &[(&'static str, Value)]| {
        let mut body = ask::body(route, model, ask::SHORT, 1);
        for (name, value) in fields {
            ask::with(&mut body, name, value.clone());
        }
        asker.post(route.path(), &body).await
    };
    let fields = extension_fields();
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let reply = ask(&fields).await;
    match &reply {
        Ok(answer) if (200..300).contains(&answer.head.status) => {
            let seen = format!("taken or ignored: {}", names.join(", "));
            return finding("extensions", Grade::Fine, seen);
        }
        Ok(answer) if (400..500).contains(&answer.head.status) => {}
        Ok(answer) => return finding("extensions", Grade::Unknown, whole::refusal(answer)),
        Err(trouble) => return finding("extensions", Grade::Unknown, trouble.to_string()),
    }
    let mut refused = Vec::new();
    for field in fields {
        let name = field.0;
        match ask(&[field]).await {
            Ok(answer) if (400..500).contains(&answer.head.status) => refused.push(name),
            Ok(_) | Err(_) => {}
        }
    }
    let words = reply.as_ref().map(whole::refusal).unwrap_or_default();
    let which = match refused.as_slice() {
        [] => "all at once".to_owned(),
        refused => refused.join(", "),
    };
    finding(
        "extensions",
        Grade::Limits,
        format!("refuses {which} ({})", excerpt(&words)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::testing::reply;

    #[test]
    fn only_an_error_object_with_4xx_is_as_the_api_has_it() {
        let object = r#"{"error":{"message":"no JSON"}}"#;
        for (reply, grade) in [
            (reply(400, object), Grade::Fine),
            (reply(500, object), Grade::Odd),
            (reply(422, r#"{"detail":[]}"#), Grade::Odd),
            (reply(400, "<html>"), Grade::Odd),
            (reply(200, "{}"), Grade::Odd),
            (Err(Trouble::Closed), Grade::Odd),
            (
                Err(Trouble::Silent(std::time::Duration::from_secs(1))),
                Grade::Limits,
            ),
        ] {
            let finding = bad_request(&reply);
            assert_eq!(finding.grade, grade, "{}", finding.seen);
        }
    }

    #[test]
    fn an_unknown_model_is_404() {
        assert_eq!(unknown_model(&reply(404, "")).grade, Grade::Fine);
        assert_eq!(unknown_model(&reply(400, "")).grade, Grade::Odd);
        assert_eq!(unknown_model(&reply(200, "{}")).grade, Grade::Odd);
    }
}
