//! OTLP over gRPC.

use http::uri::PathAndQuery;
use tonic::client::Grpc as Client;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Extensions, Request, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

use super::target::{Target, TargetError, USER_AGENT};
use super::wire::{Export, NotTaken, Taken, shortened, with_causes};

/// A channel that connects again by itself.
#[derive(Debug, Clone)]
pub(crate) struct Grpc {
    channel: Channel,
    headers: MetadataMap,
    gzip: bool,
}

impl Grpc {
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        let unusable = |error: tonic::transport::Error| TargetError(with_causes(&error));
        let mut endpoint = Endpoint::from_shared(target.endpoint.to_string())
            .and_then(|endpoint| endpoint.user_agent(USER_AGENT))
            .map_err(unusable)?
            .connect_timeout(target.timeout);
        if target.endpoint.scheme() == "https" {
            let tls = match &target.certificate {
                Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls).map_err(unusable)?;
        }
        let headers = MetadataMap::from_headers(target.header_map()?);
        Ok(Self { channel: endpoint.connect_lazy(), headers, gzip: target.gzip })
    }

    pub(crate) async fn send<E: Export>(&self, request: E) -> Result<Taken, NotTaken> {
        let mut client = Client::new(self.channel.clone());
        if self.gzip {
            client = client
                .send_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Gzip);
        }
        client.ready().await.map_err(|error| NotTaken::not_now(with_causes(&error)))?;
        let request = Request::from_parts(self.headers.clone(), Extensions::default(), request);
        let codec = ProstCodec::<E, E::Answer>::default();
        let answered = client.unary(request, PathAndQuery::from_static(E::METHOD), codec).await;
        answered.map(|answer| E::taken(answer.into_inner())).map_err(|status| not_taken(&status))
    }
}

/// What a status says of sending the same again.
fn not_taken(status: &Status) -> NotTaken {
    let why = match std::error::Error::source(status) {
        // It didn't come to an answer.
        Some(cause) => with_causes(cause),
        None => format!("answered {:?}: {}", status.code(), shortened(status.message())),
    };
    let pause = status.get_details_retry_info().and_then(|info| info.retry_delay);
    match status.code() {
        // Too large, if no pause is asked for; some say out of range to the same.
        Code::ResourceExhausted if pause.is_none() => NotTaken::Refused(why),
        Code::InvalidArgument | Code::OutOfRange => NotTaken::Refused(why),
        _ => NotTaken::NotNow { why, after: pause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tonic_types::ErrorDetails;

    #[test]
    fn each_code_says_whether_to_send_it_again() {
        for (code, refused) in [
            (Code::InvalidArgument, true),
            (Code::OutOfRange, true),
            (Code::ResourceExhausted, true),
            (Code::Unavailable, false),
            (Code::DeadlineExceeded, false),
            (Code::Unauthenticated, false),
            (Code::PermissionDenied, false),
            (Code::Unimplemented, false),
            (Code::Internal, false),
        ] {
            let told = not_taken(&Status::new(code, "too\nmuch"));
            assert_eq!(matches!(told, NotTaken::Refused(_)), refused, "{code:?}");
            assert_eq!(told.why(), format!("answered {code:?}: toomuch"));
        }
    }

    #[test]
    fn who_asks_for_a_pause_wants_it_again() {
        let pause = Duration::from_secs(7);
        let mut details = ErrorDetails::new();
        details.set_retry_info(Some(pause));
        for code in [Code::ResourceExhausted, Code::Unavailable] {
            let told = not_taken(&Status::with_error_details(code, "later", details.clone()));
            assert_eq!(
                told,
                NotTaken::NotNow { why: format!("answered {code:?}: later"), after: Some(pause) }
            );
        }
    }
}
