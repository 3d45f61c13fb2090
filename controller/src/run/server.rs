//! What is known of the server that a run will ask: the newest report of `doctor`, made now where
//! there is none.

use std::time::Duration;

use contracts::api::DoctorRequest;
use contracts::defaults::{DOCTOR_PROBE_TIMEOUT, DOCTOR_TIME};
use contracts::run::{EngineRef, RunSpec};

use super::{Host, Session};
use crate::record::StoredReport;
use crate::store::StoreError;

/// The report to keep with a run of `spec`; none for engines that agents start. A look that fails,
/// or takes longer than a whole request of the run may, is told and stops nothing: the run itself
/// says why it fails, or shows that it does not.
///
/// # Errors
/// The database.
pub async fn report(
    session: &Session<'_>,
    host: &Host,
    spec: &RunSpec,
) -> Result<Option<StoredReport>, StoreError> {
    let EngineRef::Url { url, served_name } = &spec.arm.engine else {
        return Ok(None);
    };
    if let Some(known) = session.store.server_report(url).await? {
        return Ok(Some(known));
    }
    session.console.note(&format!(
        "looking at {url} first, as `controller doctor` does, for it has not been looked at yet"
    ));
    let request = DoctorRequest {
        url: url.clone(),
        served_name: served_name.clone(),
        request_timeout_ms: u64::try_from(DOCTOR_PROBE_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
        secrets: session.secrets.clone(),
    };
    let within = Duration::from_millis(spec.limits.request_timeout_ms).min(DOCTOR_TIME);
    // An agent whose caller hangs up stops looking.
    let looked = tokio::select! {
        looked = tokio::time::timeout(within, host.client.doctor(&request)) => looked,
        () = session.interrupt.cancelled() => return Ok(None),
    };
    let Ok(looked) = looked else {
        session.console.note(&format!(
            "no report of the server: looking takes longer than {within:?}, the --timeout of this run; make one with `controller doctor {url}`"
        ));
        return Ok(None);
    };
    match looked {
        Ok(report) => {
            let now = crate::now_unix_ms();
            let name = host.client.name();
            let stored = session.store.add_server_report(report, name, now);
            stored.await.map(Some)
        }
        Err(error) => {
            session
                .console
                .note(&format!("no report of the server: {error}"));
            Ok(None)
        }
    }
}
