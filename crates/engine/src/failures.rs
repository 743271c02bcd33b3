//! Failures on purpose: a share of requests, or one that asks for it (`X-Return-Error`).

use clap::ValueEnum;
use hyper::StatusCode;

use crate::error::ApiError;

/// Kinds of injected failure, with the upstream names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum FailureKind {
    /// 429.
    RateLimit,
    /// 401.
    InvalidApiKey,
    /// 400.
    ContextLength,
    /// 503.
    ServerError,
    /// 400.
    InvalidRequest,
    /// 404.
    ModelNotFound,
}

impl FailureKind {
    /// Every kind.
    pub(crate) const ALL: &[Self] = &[
        Self::RateLimit,
        Self::InvalidApiKey,
        Self::ContextLength,
        Self::ServerError,
        Self::InvalidRequest,
        Self::ModelNotFound,
    ];

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) fn error(self) -> ApiError {
        let (status, message) = match self {
            Self::RateLimit => (StatusCode::TOO_MANY_REQUESTS, "Rate limit reached (injected failure)."),
            Self::InvalidApiKey => (StatusCode::UNAUTHORIZED, "Incorrect API key provided (injected failure)."),
            Self::ContextLength => {
                (StatusCode::BAD_REQUEST, "The prompt is longer than the model's context (injected failure).")
            }
            Self::ServerError => (StatusCode::SERVICE_UNAVAILABLE, "The server is overloaded (injected failure)."),
            Self::InvalidRequest => (StatusCode::BAD_REQUEST, "The request is invalid (injected failure)."),
            Self::ModelNotFound => (StatusCode::NOT_FOUND, "The model does not exist (injected failure)."),
        };
        ApiError::new(status, message)
    }
}
