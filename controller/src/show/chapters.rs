//! The chapters and the named engines that can be run.

use contracts::host::{ChapterFacts, EngineFacts};

use crate::show::{Format, grid, pretty};

/// Chapters in their order, hidden ones left out, then the engines that the agent's file names, if it
/// names any. JSON: `{"schema": 1, "chapters": […], "engines": […]}`.
pub fn render(
    chapters: &[ChapterFacts],
    engines: &[EngineFacts],
    format: Format,
) -> serde_json::Result<String> {
    let shown: Vec<&ChapterFacts> = chapters.iter().filter(|c| !c.hidden).collect();
    if format == Format::Json {
        return pretty(&serde_json::json!({
            "schema": contracts::SCHEMA,
            "chapters": shown,
            "engines": engines,
        }));
    }
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let rows = shown.iter().map(|chapter| {
        vec![
            chapter.id.clone(),
            chapter.title.clone(),
            yes_no(chapter.streams),
            if chapter.same_tokens { "same" } else { "near" }.to_owned(),
            chapter.adds.clone(),
        ]
    });
    let header = ["chapter", "title", "streams", "tokens", "adds"];
    let mut text = grid(format, "lllll", &header, rows.collect());
    if !engines.is_empty() {
        let rows = engines.iter();
        let rows = rows.map(|engine| vec![engine.name.clone(), engine.kind.clone()]);
        text.push('\n');
        text.push_str(&grid(format, "ll", &["engine", "kind"], rows.collect()));
    }
    Ok(text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn hidden_chapters_are_not_listed() {
        let chapter = |id: &str, title: &str, hidden| ChapterFacts {
            id: id.to_owned(),
            title: title.to_owned(),
            adds: format!("what {id} adds"),
            streams: id != "ch01",
            same_tokens: true,
            hidden,
        };
        let chapters = [
            chapter("ch01", "baseline", false),
            chapter("ch02", "token loop", false),
            chapter("fake", "fake", true),
        ];
        let text = render(&chapters, &[], Format::Text).unwrap();
        insta::assert_snapshot!("chapters_text", text);
        let markdown = render(&chapters, &[], Format::Markdown).unwrap();
        insta::assert_snapshot!("chapters_markdown", markdown);
        let json = render(&chapters, &[], Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["chapters"].as_array().unwrap().len(), 2);
        assert_eq!(document["engines"], serde_json::json!([]));
    }
    #[test]
    fn named_engines_follow_with_their_kind() {
        let engines =
            [("before", "chapterbench"), ("vllm", "server")].map(|(name, kind)| EngineFacts {
                name: name.to_owned(),
                kind: kind.to_owned(),
                binary_sha256: None,
            });
        let text = render(&[], &engines, Format::Text).unwrap();
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "",
                "  engine  kind",
                "  before  chapterbench",
                "  vllm    server"
            ]
        );
    }
}
