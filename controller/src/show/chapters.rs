//! The chapters that can be run.

use contracts::host::ChapterFacts;

use crate::show::{Format, document, grid};

/// Chapters in their order, hidden ones left out. JSON: `{"schema": 1, "chapters": […]}`.
pub fn render(chapters: &[ChapterFacts], format: Format) -> serde_json::Result<String> {
    let shown: Vec<&ChapterFacts> = chapters.iter().filter(|c| !c.hidden).collect();
    if format == Format::Json {
        return document("chapters", &shown);
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
    Ok(grid(format, "lllll", &header, rows.collect()))
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
        let text = render(&chapters, Format::Text).unwrap();
        insta::assert_snapshot!("chapters_text", text);
        let markdown = render(&chapters, Format::Markdown).unwrap();
        insta::assert_snapshot!("chapters_markdown", markdown);
        let json = render(&chapters, Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["chapters"].as_array().unwrap().len(), 2);
    }
}
