//! The OpenAI server: one factory for any engine.
//!
//! [`app`] gives the routes over a [`Worker`]; [`serve`] puts them on a socket. Here are the paths
//! and the two endpoints that generate; documents, errors and counts are in the files beside.

mod answer;
mod error;
mod facts;
mod logprobs;
mod metrics;
mod request;
pub mod serve;
mod stream;
mod tokenise;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json, Router,
    body::{Body, Bytes, HttpBody, to_bytes},
    extract::{Request, State},
    http::{Method, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use contracts::{defaults::BODY_BYTES_MAX, generate::GenerateResult, host::BuildFacts};

use self::{
    answer::Head,
    error::ApiError,
    logprobs::Logprobs,
    metrics::{Metrics, Watch},
    request::{Kind, Order},
    tokenise::LongPrompts,
};
use crate::{
    error::EngineError,
    worker::{Answer, Event, Phase, Ready, Refused, Worker},
};

/// How long a client may take to send a body: its place in memory is not free.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The name under which any server answers for its model.
const DEFAULT_MODEL: &str = "default";

/// What a server says about itself.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Chapter's id.
    pub chapter: String,
    /// The model's name in `/v1/models` and in answers.
    pub served_name: String,
    /// The id that the agent gave at spawn.
    pub instance: Option<String>,
    /// Build of the engine.
    pub build: BuildFacts,
}

/// What all handlers share.
struct Shared {
    worker: Worker,
    identity: Identity,
    metrics: Arc<Metrics>,
    /// Start of the server, Unix seconds.
    created: i64,
    /// Start of the server in ns: makes answers' ids differ between servers.
    epoch: u64,
    answers: AtomicU64,
    long_prompts: LongPrompts,
}

/// All routes over one engine.
pub fn app(worker: Worker, identity: Identity) -> Router {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let long_prompts = LongPrompts::new(worker.queue_max());
    let shared = Shared {
        worker,
        identity,
        metrics: Arc::new(Metrics::new()),
        created: i64::try_from(since_epoch.as_secs()).unwrap_or_default(),
        epoch: u64::try_from(since_epoch.as_nanos()).unwrap_or_default(),
        answers: AtomicU64::new(0),
        long_prompts,
    };
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(facts::models))
        .route("/v1/models/{*name}", get(facts::model))
        .route("/health", get(facts::health))
        .route("/metrics", get(facts::metrics))
        .fallback(|uri: Uri| async move { ApiError::no_such_path(uri.path()) })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            ApiError::wrong_method(method.as_str(), uri.path())
        })
        .with_state(Arc::new(shared))
}

async fn chat_completions(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    generate(&shared, Kind::Chat, request.into_body()).await
}

async fn completions(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    generate(&shared, Kind::Completions, request.into_body()).await
}

/// One request, from its body to its answer.
async fn generate(shared: &Shared, kind: Kind, body: Body) -> Response {
    let mut watch = Watch::new(&shared.metrics, kind);
    match accept(shared, kind, body).await {
        Ok(Accepted {
            order,
            answer,
            logprobs,
        }) if order.stream => {
            let head = shared.head(kind, &order);
            stream::respond(head, order.include_usage, answer, logprobs, watch)
        }
        Ok(Accepted {
            order,
            answer,
            logprobs,
        }) => match collect(answer).await {
            Ok(result) => {
                watch.finished(&result);
                Json(shared.head(kind, &order).whole(result, logprobs)).into_response()
            }
            Err(error) => fail(error.into(), &mut watch),
        },
        Err(error) => fail(error, &mut watch),
    }
}

fn fail(error: ApiError, watch: &mut Watch) -> Response {
    watch.failed(error.status);
    error.into_response()
}

/// A request that the engine has taken.
struct Accepted {
    order: Order,
    answer: Answer,
    logprobs: Logprobs,
}

/// Everything that can be refused is refused here, while the status is still to be chosen.
async fn accept(shared: &Shared, kind: Kind, body: Body) -> Result<Accepted, ApiError> {
    let model = shared.model()?;
    let body = read_body(body).await?;
    let (mut order, ask) = request::read(kind, &body)?;
    shared.check_name(order.model.take().as_deref())?;
    if kind == Kind::Chat && !model.facts.chat_template {
        let message =
            "messages: this model has no chat template; use /v1/completions with a prompt";
        return Err(ApiError::bad_field("messages", message));
    }
    let ask = shared.long_prompts.tokenise(ask, &model.text).await?;
    let mut answer = shared.worker.submit(ask)?;
    match answer.next().await {
        Event::Ended(Err(error)) => Err(error.into()),
        Event::Accepted => Ok(Accepted {
            order,
            answer,
            logprobs: Logprobs::new(kind, model.text.clone()),
        }),
        // The worker never does this; to hang on it would be worse than to say so.
        Event::Token { .. } | Event::Ended(Ok(_)) => {
            Err(EngineError::Internal("the engine answered before it accepted".to_owned()).into())
        }
    }
}

/// The whole body, within limits of size and of time.
async fn read_body(body: Body) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::too_large(BODY_BYTES_MAX);
    // Where the length is announced nothing need be read to refuse it.
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::bad_request(format!(
            "the body could not be read: {error}"
        ))),
        Err(_) => Err(ApiError::too_slow(BODY_TIMEOUT)),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error)
        .is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

async fn collect(mut answer: Answer) -> Result<GenerateResult, EngineError> {
    loop {
        if let Event::Ended(result) = answer.next().await {
            return result.map(|result| *result);
        }
    }
}

impl Shared {
    /// What the engine loaded, or why there is nothing to ask yet.
    fn model(&self) -> Result<Arc<Ready>, ApiError> {
        match &*self.worker.phase().borrow() {
            Phase::Ready(model) => Ok(Arc::clone(model)),
            Phase::Loading => Err(Refused::Loading.into()),
            Phase::Failed(why) => Err(Refused::Failed(why.to_string()).into()),
        }
    }

    fn check_name(&self, asked: Option<&str>) -> Result<(), ApiError> {
        let served = self.identity.served_name.as_str();
        match asked {
            Some(asked) if asked != served && asked != DEFAULT_MODEL => {
                Err(ApiError::no_such_model(asked, served))
            }
            _ => Ok(()),
        }
    }

    fn head(&self, kind: Kind, order: &Order) -> Head {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let prefix = match kind {
            Kind::Chat => "chatcmpl",
            Kind::Completions => "cmpl",
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Head {
            kind,
            id: format!("{prefix}-{:x}-{number}", self.epoch),
            created: i64::try_from(now.as_secs()).unwrap_or_default(),
            model: self.identity.served_name.clone(),
            return_token_ids: order.return_token_ids,
        }
    }
}
