//! Errors as vLLM words them: `{"error":{"message","type","param","code"}}`.

use hyper::StatusCode;
use serde_json::json;

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<&'static str>,
}

impl ApiError {
    /// With the type that belongs to the status.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status.as_u16() {
            400 => "BadRequestError",
            401 => "AuthenticationError",
            403 => "PermissionDeniedError",
            404 => "NotFoundError",
            422 => "UnprocessableEntityError",
            429 => "RateLimitError",
            500.. => "InternalServerError",
            _ => "APIConnectionError",
        };
        Self { status, kind, message: message.into(), param: None }
    }

    /// 400 because of one parameter's value.
    pub(crate) fn value(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// 400 because the body does not have the shape of a request.
    pub(crate) fn body(message: impl Into<String>) -> Self {
        Self { kind: "Bad Request", ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(crate) fn json(&self) -> String {
        let message = serde_json::Value::from(self.message.as_str());
        let param = json!(self.param);
        format!(
            r#"{{"error":{{"message":{message},"type":"{}","param":{param},"code":{}}}}}"#,
            self.kind,
            self.status.as_u16()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_follows_from_the_status() {
        for (status, kind) in [
            (400, "BadRequestError"),
            (401, "AuthenticationError"),
            (403, "PermissionDeniedError"),
            (404, "NotFoundError"),
            (422, "UnprocessableEntityError"),
            (429, "RateLimitError"),
            (500, "InternalServerError"),
            (503, "InternalServerError"),
            (418, "APIConnectionError"),
        ] {
            let error = ApiError::new(StatusCode::from_u16(status).expect("valid"), "a \"quoted\" text");
            assert_eq!(
                error.json(),
                format!(
                    r#"{{"error":{{"message":"a \"quoted\" text","type":"{kind}","param":null,"code":{status}}}}}"#
                )
            );
        }
    }
}
