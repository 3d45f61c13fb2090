//! The agents that the controller knows, and how they answer.

use contracts::host::HostInfo;
use serde::Serialize;

use crate::show::{Format, document, grid, words};

/// One agent; `host` and `error` are both none where nobody asked it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentView {
    /// Name in the controller's list.
    pub name: String,
    /// Where it listens.
    pub url: String,
    /// What it answered.
    pub host: Option<HostInfo>,
    /// Why it did not answer, in one line.
    pub error: Option<String>,
}

/// `agents list`, where nobody was asked, and `agents check`. JSON: `{"schema": 1, "agents": […]}`.
pub fn render(agents: &[AgentView], format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("agents", agents);
    }
    if agents.is_empty() {
        return Ok("no agents; `controller agents add NAME URL` adds one\n".to_owned());
    }
    let checked = agents.iter().any(|a| a.host.is_some() || a.error.is_some());
    if !checked {
        let rows = agents.iter().map(|a| vec![a.name.clone(), a.url.clone()]);
        return Ok(grid(format, "ll", &["agent", "url"], rows.collect()));
    }
    let header = ["agent", "url", "state", "host", "build", "engines"];
    Ok(grid(
        format,
        "llllll",
        &header,
        agents.iter().map(row).collect(),
    ))
}

fn row(agent: &AgentView) -> Vec<String> {
    let mut row = vec![agent.name.clone(), agent.url.clone()];
    match (&agent.host, &agent.error) {
        (Some(host), _) => row.extend([state(host), machine(host), build(host), engines(host)]),
        (None, Some(error)) => row.push(error.clone()),
        (None, None) => row.push("not asked".to_owned()),
    }
    row.resize(6, String::new());
    row
}

fn state(info: &HostInfo) -> String {
    match (&info.quarantine, &info.busy_with) {
        (Some(why), _) => format!("quarantined: {why}"),
        (None, Some(run)) => format!("busy with {run}"),
        (None, None) => "ready".to_owned(),
    }
}

fn machine(info: &HostInfo) -> String {
    let host = &info.host;
    let gpus: String = host
        .gpus
        .iter()
        .map(|gpu| format!(", {}", gpu.name))
        .collect();
    format!(
        "{}: {}, {}, {}{gpus}",
        host.hostname,
        host.cpu_model,
        words::count(u64::from(host.cores), "core"),
        words::bytes(host.memory_bytes),
    )
}

fn build(info: &HostInfo) -> String {
    let build = &info.build;
    let commit = if build.commit.is_empty() {
        String::new()
    } else {
        format!("+{}", build.commit)
    };
    format!("{}{commit} ({})", build.version, build.profile)
}

/// Chapters that users see, then the engines that the agent's config names, with their kinds.
fn engines(info: &HostInfo) -> String {
    let chapters = info.chapters.iter().filter(|c| !c.hidden);
    let engines = info.engines.iter();
    let names: Vec<String> = chapters
        .map(|chapter| chapter.id.clone())
        .chain(engines.map(|engine| format!("{} ({})", engine.name, engine.kind)))
        .collect();
    names.join(" ")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::host::{BuildFacts, ChapterFacts, EngineFacts, GpuFacts, HostFacts, HostState};

    use super::*;

    fn info() -> HostInfo {
        let chapter = |id: &str, hidden| ChapterFacts {
            id: id.to_owned(),
            title: String::new(),
            adds: String::new(),
            streams: true,
            same_tokens: true,
            hidden,
        };
        HostInfo {
            protocol: 1,
            agent_id: "a1".to_owned(),
            boot_id: "b1".to_owned(),
            build: BuildFacts {
                version: "0.1.0".to_owned(),
                commit: "abc1234".to_owned(),
                profile: "release".to_owned(),
                features: Vec::new(),
            },
            host: HostFacts {
                hostname: "bench-1".to_owned(),
                cpu_model: "AMD EPYC 9654".to_owned(),
                cores: 16,
                memory_bytes: 64 << 30,
                gpus: vec![GpuFacts {
                    name: "H200".to_owned(),
                    ..GpuFacts::default()
                }],
                ..HostFacts::default()
            },
            state: HostState::default(),
            chapters: vec![chapter("ch01", false), chapter("fake", true)],
            engines: vec![EngineFacts {
                name: "before".to_owned(),
                kind: "chapterbench".to_owned(),
                binary_sha256: None,
            }],
            busy_with: None,
            quarantine: None,
        }
    }

    fn agents() -> Vec<AgentView> {
        let agent = |name: &str, host, error| AgentView {
            name: name.to_owned(),
            url: format!("http://{name}:7070"),
            host,
            error,
        };
        let busy = HostInfo {
            busy_with: Some("01RUN".to_owned()),
            ..info()
        };
        vec![
            agent("box", Some(info()), None),
            agent("busy", Some(busy), None),
            agent("gone", None, Some("connection refused".to_owned())),
        ]
    }

    #[test]
    fn checked_and_listed() {
        insta::assert_snapshot!("agents_check", render(&agents(), Format::Text).unwrap());
        insta::assert_snapshot!(
            "agents_check_markdown",
            render(&agents(), Format::Markdown).unwrap()
        );
        let listed: Vec<AgentView> = agents()
            .into_iter()
            .map(|a| AgentView {
                host: None,
                error: None,
                ..a
            })
            .collect();
        insta::assert_snapshot!("agents_list", render(&listed, Format::Text).unwrap());
    }

    #[test]
    fn json_has_the_hosts_whole() {
        let json = render(&agents(), Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["schema"], 1);
        let host: HostInfo = serde_json::from_value(document["agents"][0]["host"].clone()).unwrap();
        assert_eq!(host, info());
    }
}
