//! A sweep: each arm of the plan on each agent, a run a load, until the rule of [`plan::sweep`]
//! has seen enough. Each run is stored like any other; what they come to is a curve.
//!
//! [`plan::sweep`]: crate::plan::sweep

use contracts::run::{RunState, Soundness};
use futures_util::future::join_all;

use super::progress::Line;
use super::{Host, Outcome, Session, one};
use crate::plan::sweep::{Point, Range, Search};
use crate::plan::{PlannedArm, PlannedRun};
use crate::record::RunWithSamples;
use crate::show::curve::Curve;
use crate::show::sweep::SweepPoint;

impl Session<'_> {
    /// Sweeps every arm on every agent: agents at the same time, arms one after the other. An
    /// agent's trouble is in the outcome, since other agents go on.
    pub async fn sweep(&self, range: Range) -> (Outcome, Vec<Curve>) {
        let mut outcome = Outcome::new();
        let mut curves = Vec::new();
        let parts = self.hosts.iter().map(|host| self.sweep_host(host, &range));
        for (part, on_host) in join_all(parts).await {
            outcome.add(part);
            curves.extend(on_host);
        }
        (self.ended(outcome), curves)
    }

    async fn sweep_host(&self, host: &Host, range: &Range) -> (Outcome, Vec<Curve>) {
        let mut outcome = Outcome::new();
        let mut curves = Vec::new();
        let mut line = self.console.line(host.client.name(), None);
        let mut levels = Vec::new();
        for arm in &self.plan.arms {
            if self.interrupt.is_cancelled() {
                break;
            }
            let swept = self.sweep_arm(host, arm, range, (&mut line, &mut levels), &mut outcome);
            let (curve, goes_on) = swept.await;
            curves.push(curve);
            if !goes_on {
                break;
            }
        }
        line.close();
        (outcome, curves)
    }

    /// One arm's curve, and whether its host can do more; `levels` are those that any arm had here.
    async fn sweep_arm(
        &self,
        host: &Host,
        arm: &PlannedArm,
        range: &Range,
        (line, levels): (&mut Line, &mut Vec<f64>),
        outcome: &mut Outcome,
    ) -> (Curve, bool) {
        let mut search = Search::new(*range);
        let mut points = Vec::new();
        let mut goes_on = true;
        while let Some(level) = search.next() {
            if !outcome.runs.is_empty() {
                self.cool_down(line).await;
            }
            if self.interrupt.is_cancelled() {
                break;
            }
            let place = u32::try_from(outcome.runs.len()).unwrap_or(u32::MAX);
            let planned = PlannedRun {
                position: place,
                ..self.plan.point(range, arm, level, block_of(levels, level))
            };
            let ended = one::one_run(self, host, &planned, line).await;
            let Some(run) = self.take(outcome, ended) else {
                goes_on = false;
                break;
            };
            if run.run.status.state == RunState::Cancelled {
                break;
            }
            let measured = SweepPoint::of(&run);
            search.take(point(level, &run, &measured));
            if run.run.status.state == RunState::Done {
                points.push((level, measured));
            }
        }
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let knee = search.knee();
        let curve = Curve {
            arm: arm.letter.clone(),
            engine: crate::plan::engine_name(&arm.arm.engine).to_owned(),
            agent: host.client.name().to_owned(),
            slo: self.plan.request.slo.clone(),
            knee: points.iter().position(|(level, _)| Some(*level) == knee),
            points: points.into_iter().map(|(_, point)| point).collect(),
            stop: search.stop(),
        };
        (curve, goes_on)
    }
}

/// Each level is a pass of its own over the arms: those that measure it get the same cold prompts,
/// and no two levels do.
fn block_of(levels: &mut Vec<f64>, level: f64) -> u32 {
    let place = levels.iter().position(|other| *other == level);
    let place = place.unwrap_or_else(|| {
        levels.push(level);
        levels.len() - 1
    });
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// What the rule sees of a run.
fn point(level: f64, run: &RunWithSamples, measured: &SweepPoint) -> Point {
    let good_per_s = match &measured.goodput {
        Some(goodput) => Some(goodput.per_s),
        None => measured.req_per_s,
    };
    Point {
        level,
        good_per_s: good_per_s.filter(|_| run.run.status.state == RunState::Done),
        client_bound: measured.verdict == Soundness::ClientBound,
    }
}
