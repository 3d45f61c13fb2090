//! Sweeps as they are shown at the end: each curve with its knee, and why it ended.

use contracts::run::{Load, Slo};
use serde::Serialize;

use crate::compare::work;
use crate::plan::sweep::Stop;
use crate::show::Format;
use crate::show::figures::limits;
use crate::show::sweep::{SweepPoint, render as points};

/// What a sweep of one arm on one agent came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Letter of the arm.
    pub arm: String,
    /// `ch01`, or the name of an engine.
    pub engine: String,
    /// The agent's name.
    pub agent: String,
    /// What a good request is, where the user said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// By rising load; only runs that were done.
    pub points: Vec<SweepPoint>,
    /// Index of the knee among the points.
    pub knee: Option<usize>,
    /// Why the load was raised no further; none if the sweep was ended before.
    pub stop: Option<Stop>,
}

/// Text or Markdown of all curves; JSON carries them in the session's document.
pub fn render(curves: &[Curve], format: Format) -> String {
    let mut text = String::new();
    for curve in curves {
        let head = format!(
            "sweep of {} (#{}) on {}",
            curve.engine, curve.arm, curve.agent
        );
        let format = match format {
            Format::Markdown => {
                text.push_str(&format!("### {head}\n\n"));
                Format::Markdown
            }
            Format::Text | Format::Json => {
                text.push_str(&format!("{head}\n"));
                Format::Text
            }
        };
        if !curve.points.is_empty() {
            text.push_str(&points(&curve.points, curve.knee, format));
            text.push('\n');
        }
        text.push_str(&format!("{}\n\n", end(curve)));
    }
    text
}

fn end(curve: &Curve) -> String {
    let knee = match curve.knee.and_then(|knee| curve.points.get(knee)) {
        Some(point) => format!("knee: {}", work::load(&point.load)),
        None => "no knee: no load gave a good request".to_owned(),
    };
    let open_loop = |point: &SweepPoint| !matches!(point.load, Load::Closed { .. });
    let good = match (&curve.slo, curve.points.first()) {
        (Some(slo), Some(point)) => format!("good: within {}\n", limits(slo, open_loop(point))),
        _ => String::new(),
    };
    let knee = format!("{good}{knee}");
    match curve.stop {
        Some(stop) => format!("{knee}; raised until: {}", stop.words()),
        None => format!("{knee} so far; the sweep was ended before its own end"),
    }
}

#[cfg(test)]
mod tests {
    use contracts::run::Mode;

    use super::*;
    use crate::fixtures;

    fn curve(stop: Option<Stop>) -> Curve {
        let point = |slots: u32, walls: &[f64]| {
            let run = fixtures::run(&format!("01R{slots}"), "ch02", Mode::Online);
            let mut run = fixtures::with_walls(run, walls);
            run.run.status.spec.workload.load = Load::Closed { concurrency: slots };
            SweepPoint::of(&run)
        };
        Curve {
            arm: "a".to_owned(),
            engine: "ch02".to_owned(),
            agent: "local".to_owned(),
            slo: Some(Slo {
                wall_ms: Some(2000.0),
                ..Slo::default()
            }),
            points: vec![point(1, &[100.0, 100.0]), point(2, &[150.0, 150.0])],
            knee: Some(1),
            stop,
        }
    }

    #[test]
    fn a_curve_names_its_knee_and_why_it_ended() {
        let text = render(&[curve(Some(Stop::Flat))], Format::Text);
        assert!(text.starts_with("sweep of ch02 (#a) on local\n"), "{text}");
        assert!(
            text.contains("knee: 2 at a time; raised until: two doublings"),
            "{text}"
        );
        assert!(text.contains("\ngood: within wall 2000ms\nknee"), "{text}");
        let markdown = render(&[curve(None)], Format::Markdown);
        assert!(markdown.starts_with("### sweep of ch02"), "{markdown}");
        assert!(markdown.contains("so far"), "{markdown}");
    }

    #[test]
    fn a_sweep_without_a_point_says_so() {
        let none = Curve {
            points: Vec::new(),
            knee: None,
            ..curve(Some(Stop::Failed))
        };
        let text = render(&[none], Format::Text);
        assert!(text.contains("no knee"), "{text}");
        assert!(text.contains("a run failed"), "{text}");
    }
}
