//! The calls of one agent's API. No retry here: who follows a run knows what may be asked again.

use std::time::Duration;

use contracts::api::{
    ApiError, CalibrateRequest, CheckAnswer, CheckRequest, DoctorRequest, ErrorBody, ErrorCode,
    PROTOCOL_HEADER, RunList, StartRun,
};
use contracts::calibrate::ClientFloor;
use contracts::defaults::{BODY_BYTES_MAX, CONNECT_TIMEOUT, DOCTOR_TIME, SAMPLES_PAGE_MAX};
use contracts::doctor::ServerReport;
use contracts::host::HostInfo;
use contracts::run::{RunEvent, RunSpec, RunStatus};
use reqwest::{Method, RequestBuilder, Response};
use sha2::{Digest, Sha256};

use super::error::cause;
use super::events::EventReader;
use super::{AgentAddress, FleetError};

/// A call that an agent answers from memory or disk.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A check may have to look a model up on a hub.
const CHECK_TIMEOUT: Duration = Duration::from_secs(300);
/// A calibration takes seconds for each number of streams, and bounds itself at minutes.
const CALIBRATE_TIMEOUT: Duration = Duration::from_secs(600);
/// Silence of an event stream after which it is opened anew: a request may take minutes, but a
/// dead connection must be noticed.
const EVENTS_SILENCE: Duration = Duration::from_secs(60);

/// A page of samples: an agent fills 32 MiB and ends with the line that goes beyond, which may hold
/// an answer of the largest size and its record, twice that.
const SAMPLES_BODY_BYTES_MAX: usize = (32 << 20) + 2 * BODY_BYTES_MAX;

/// What the URL of an agent looks like.
const USE: &str = "use http://HOST:PORT";

/// One agent.
#[derive(Clone)]
pub struct AgentClient {
    address: AgentAddress,
    http: reqwest::Client,
}

impl AgentClient {
    /// Prepares a client; connects to nothing.
    ///
    /// # Errors
    /// A URL or certificate file that cannot be used.
    pub fn new(address: AgentAddress) -> Result<Self, FleetError> {
        let settings = |why: String| FleetError::Settings {
            name: address.name.clone(),
            why,
        };
        let url = reqwest::Url::parse(&address.url)
            .map_err(|error| settings(format!("url {}: {error}; {USE}", address.url)))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(settings(format!("url {}: {USE}", address.url)));
        }
        if !url.username().is_empty() || url.password().is_some() {
            // Not repeated here: it would be a secret on a screen.
            let why =
                "the url has a user or a password in it; name a token's file with --token-file";
            return Err(settings(why.to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(settings(format!("url {}: {USE}", address.url)));
        }
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        if let Some(file) = &address.ca_file {
            let refuse = |why: String| settings(format!("CA file {}: {why}", file.display()));
            let pem = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| refuse(cause(&error)))?;
            if certificates.is_empty() {
                return Err(refuse("no certificate in it".to_owned()));
            }
            builder = builder.tls_certs_only(certificates);
        } else if url.scheme() == "http" {
            // The system's certificates take long to read, and a bare container has none.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| settings(cause(&error)))?;
        Ok(Self { address, http })
    }

    /// Its name in the list.
    pub fn name(&self) -> &str {
        &self.address.name
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.address.url
    }

    /// Who answers; the protocol is checked here, before any work.
    ///
    /// # Errors
    /// Unreachable, refused, another protocol.
    pub async fn host(&self) -> Result<HostInfo, FleetError> {
        let info: HostInfo = self.json(self.call(Method::GET, "/v1/host")).await?;
        if info.protocol != contracts::PROTOCOL {
            return Err(self.api_error(ApiError {
                code: ErrorCode::Protocol,
                message: format!(
                    "speaks protocol {}, this controller {}; use the same build on both sides",
                    info.protocol,
                    contracts::PROTOCOL
                ),
                field: None,
                holder: None,
            }));
        }
        Ok(info)
    }

    /// Whether a spec could run there.
    ///
    /// # Errors
    /// Also a refusal that names the field.
    pub async fn check(&self, spec: &RunSpec) -> Result<CheckAnswer, FleetError> {
        self.checked(spec, false).await
    }

    /// [`check`](Self::check) with the executable's hash, which may take a part of a second more.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn check_binary(&self, spec: &RunSpec) -> Result<CheckAnswer, FleetError> {
        self.checked(spec, true).await
    }

    async fn checked(&self, spec: &RunSpec, with_binary: bool) -> Result<CheckAnswer, FleetError> {
        let body = CheckRequest {
            spec: spec.clone(),
            with_binary,
        };
        let call = self
            .call(Method::POST, "/v1/check")
            .json(&body)
            .timeout(CHECK_TIMEOUT);
        self.json(call).await
    }

    /// Measures its load generator's own error.
    ///
    /// # Errors
    /// Also busy.
    pub async fn calibrate(&self, streams: &[u32]) -> Result<ClientFloor, FleetError> {
        let body = CalibrateRequest {
            streams: streams.to_vec(),
        };
        let call = self
            .call(Method::POST, "/v1/calibrate")
            .json(&body)
            .timeout(CALIBRATE_TIMEOUT);
        self.json(call).await
    }

    /// Looks at a server from there; takes as long as that server's answers.
    ///
    /// # Errors
    /// Also busy, and a server that cannot be reached.
    pub async fn doctor(&self, request: &DoctorRequest) -> Result<ServerReport, FleetError> {
        let call = self
            .call(Method::POST, "/v1/doctor")
            .json(request)
            .timeout(DOCTOR_TIME + CALL_TIMEOUT);
        self.json(call).await
    }

    /// Starts a run. Asking again with the same id and spec starts nothing twice.
    ///
    /// # Errors
    /// Also busy, and a refusal that names the field.
    pub async fn start(&self, run: &StartRun) -> Result<RunStatus, FleetError> {
        let call = self
            .call(Method::POST, "/v1/runs")
            .json(run)
            .timeout(CHECK_TIMEOUT);
        self.json(call).await
    }

    /// What its spool holds.
    ///
    /// # Errors
    /// Unreachable, refused.
    pub async fn runs(&self) -> Result<Vec<RunStatus>, FleetError> {
        let list: RunList = self.json(self.call(Method::GET, "/v1/runs")).await?;
        Ok(list.runs)
    }

    /// How a run stands.
    ///
    /// # Errors
    /// Also a run that it does not know.
    pub async fn status(&self, run_id: &str) -> Result<RunStatus, FleetError> {
        self.json(self.call(Method::GET, &format!("/v1/runs/{run_id}")))
            .await
    }

    /// Orders a run to end; it answers at once, in every state.
    ///
    /// # Errors
    /// Also a run that it does not know.
    pub async fn cancel(&self, run_id: &str) -> Result<RunStatus, FleetError> {
        self.json(self.call(Method::POST, &format!("/v1/runs/{run_id}/cancel")))
            .await
    }

    /// Says that a run is stored: the agent forgets it.
    ///
    /// # Errors
    /// Unreachable, refused.
    pub async fn acknowledge(&self, run_id: &str) -> Result<(), FleetError> {
        self.send(self.call(Method::DELETE, &format!("/v1/runs/{run_id}")))
            .await?;
        Ok(())
    }

    /// Opens a run's events after `after`.
    ///
    /// # Errors
    /// Also a run that it does not know.
    pub async fn events(&self, run_id: &str, after: u64) -> Result<EventStream, FleetError> {
        let path = format!("/v1/runs/{run_id}/events?after={after}");
        // A stream has no total time; each silence is bounded instead.
        let call = self.request(Method::GET, &path);
        let response = tokio::time::timeout(CALL_TIMEOUT, self.send(call))
            .await
            .map_err(|_| self.unreachable("no answer in time"))??;
        Ok(EventStream {
            client: self.clone(),
            response,
            reader: EventReader::default(),
        })
    }

    /// Writes all sample lines of a run in a final state to `lines`, page by page, and checks them
    /// against the totals in its status: what was written counts only if this returns without error.
    ///
    /// # Errors
    /// Also lines that are not those promised, and what `lines` says.
    pub async fn samples(
        &self,
        status: &RunStatus,
        lines: &mut impl std::io::Write,
    ) -> Result<(), FleetError> {
        let run_id = &status.run_id;
        let wrong = |why: String| FleetError::Samples {
            name: self.address.name.clone(),
            url: self.address.url.clone(),
            run_id: run_id.clone(),
            why,
        };
        let Some(totals) = &status.samples else {
            return Ok(());
        };
        let mut count = 0;
        let mut hash = Sha256::new();
        while count < totals.count {
            let path = format!("/v1/runs/{run_id}/samples?from={count}&limit={SAMPLES_PAGE_MAX}");
            let response = self.send(self.call(Method::GET, &path)).await?;
            let body = self.body(response, SAMPLES_BODY_BYTES_MAX).await?;
            let ended = body.iter().filter(|byte| **byte == b'\n').count() as u64;
            if ended == 0 {
                break;
            }
            count += ended;
            hash.update(&body);
            lines.write_all(&body).map_err(|why| FleetError::NotKept {
                run_id: run_id.clone(),
                why,
            })?;
        }
        if count != totals.count {
            return Err(wrong(format!("{count} samples, not {}", totals.count)));
        }
        if hex::encode(hash.finalize()) != totals.sha256 {
            return Err(wrong(
                "the samples' SHA-256 is not the one promised".to_owned(),
            ));
        }
        Ok(())
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.request(method, path).timeout(CALL_TIMEOUT)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .http
            .request(method, format!("{}{path}", self.address.url))
            .header(PROTOCOL_HEADER, contracts::PROTOCOL);
        match &self.address.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn json<T: serde::de::DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, FleetError> {
        let response = self.send(request).await?;
        let body = self.body(response, BODY_BYTES_MAX).await?;
        serde_json::from_slice(&body)
            .map_err(|error| self.bad_answer(format!("its answer cannot be read: {error}")))
    }

    /// Sends; an answer that is not 2xx is an error in the agent's own words.
    async fn send(&self, request: RequestBuilder) -> Result<Response, FleetError> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&cause(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response, BODY_BYTES_MAX).await?;
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => Err(self.api_error(body.error)),
            Err(_) => Err(self.bad_answer(format!("it answered HTTP {status}"))),
        }
    }

    /// Reads a body of at most `bytes_max`.
    async fn body(&self, mut response: Response, bytes_max: usize) -> Result<Vec<u8>, FleetError> {
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(error) => return Err(self.unreachable(&cause(&error))),
            }
            if body.len() > bytes_max {
                return Err(self.bad_answer(format!("an answer over {bytes_max} bytes")));
            }
        }
    }

    fn unreachable(&self, why: &str) -> FleetError {
        FleetError::Unreachable {
            name: self.address.name.clone(),
            url: self.address.url.clone(),
            why: why.to_owned(),
        }
    }

    fn bad_answer(&self, why: String) -> FleetError {
        FleetError::BadAnswer {
            name: self.address.name.clone(),
            url: self.address.url.clone(),
            why,
        }
    }

    fn api_error(&self, error: ApiError) -> FleetError {
        FleetError::Api {
            name: self.address.name.clone(),
            url: self.address.url.clone(),
            error: Box::new(error),
        }
    }
}

/// A run's events as they come.
pub struct EventStream {
    client: AgentClient,
    response: Response,
    reader: EventReader,
}

impl EventStream {
    /// The next events; none at the stream's end.
    ///
    /// # Errors
    /// A connection that broke or was silent for too long: open the stream again.
    pub async fn next(&mut self) -> Result<Option<Vec<RunEvent>>, FleetError> {
        let chunk = tokio::time::timeout(EVENTS_SILENCE, self.response.chunk())
            .await
            .map_err(|_| self.client.unreachable("silent event stream"))?
            .map_err(|error| self.client.unreachable(&cause(&error)))?;
        match chunk {
            Some(bytes) => self
                .reader
                .push(&bytes)
                .map(Some)
                .map_err(|why| self.client.bad_answer(why)),
            None => Ok(None),
        }
    }
}
