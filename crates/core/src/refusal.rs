//! What a request is refused with: status, text, machine-readable reason (request-lifecycle 1.8).

use std::borrow::Cow;

/// Canonical error code, as the label `error_code` of `request_error_total` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// 400.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 408.
    RequestTimeout,
    /// 412.
    PreconditionFailed,
    /// 413.
    PayloadTooLarge,
    /// 429.
    ResourceExhausted,
    /// 500.
    Internal,
    /// 502.
    BadGateway,
    /// 503.
    ServiceUnavailable,
    /// 504.
    GatewayTimeout,
    /// The engine answered with an error status; never a status of our own.
    ModelServerError,
}

impl ErrorCode {
    /// The label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::RequestTimeout => "RequestTimeout",
            Self::PreconditionFailed => "PreconditionFailed",
            Self::PayloadTooLarge => "PayloadTooLarge",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::Internal => "Internal",
            Self::BadGateway => "BadGateway",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::GatewayTimeout => "GatewayTimeout",
            Self::ModelServerError => "ModelServerError",
        }
    }

    /// HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::RequestTimeout => 408,
            Self::PreconditionFailed => 412,
            Self::PayloadTooLarge => 413,
            Self::ResourceExhausted => 429,
            Self::Internal => 500,
            Self::BadGateway | Self::ModelServerError => 502,
            Self::ServiceUnavailable => 503,
            Self::GatewayTimeout => 504,
        }
    }
}

/// Value of the response header `x-llm-d-request-dropped-reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Every candidate was filtered away, or a queue is full.
    Saturated,
    /// There is nothing to choose from.
    NoEndpoints,
    /// Waited longer than its time to live.
    TtlExpired,
    /// The client left while waiting.
    ContextCancelled,
    /// The process is stopping.
    ShuttingDown,
}

impl DropReason {
    /// The header's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saturated => "rejected-saturated",
            Self::NoEndpoints => "rejected-no-endpoints",
            Self::TtlExpired => "rejected-ttl-expired",
            Self::ContextCancelled => "rejected-context-cancelled",
            Self::ShuttingDown => "rejected-shutting-down",
        }
    }
}

/// Why a request is not routed. Displays as the text an ext-proc client receives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inference error: {} - {message}", code.as_str())]
pub struct Refusal {
    /// Code and status.
    pub code: ErrorCode,
    /// What happened, for the client.
    pub message: Cow<'static, str>,
    /// Machine-readable reason, where one is defined.
    pub reason: Option<DropReason>,
}

impl Refusal {
    /// A refusal without a drop reason.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), reason: None }
    }

    /// The same with a drop reason.
    #[must_use]
    pub fn because(mut self, reason: DropReason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// 503 `rejected-no-endpoints`.
    #[must_use]
    pub fn no_endpoints() -> Self {
        Self::new(ErrorCode::ServiceUnavailable, "failed to find endpoint candidates for serving the request")
            .because(DropReason::NoEndpoints)
    }

    /// 429 `rejected-saturated`: the filters left nobody.
    #[must_use]
    pub fn all_filtered() -> Self {
        Self::new(ErrorCode::ResourceExhausted, "no endpoints available for the given request")
            .because(DropReason::Saturated)
    }
}
