//! One table of routes, and the layers around them.

use std::any::Any;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use tower_http::catch_panic::CatchPanicLayer;

use crate::head::refuse_bad_heads;
use crate::held::hold;
use crate::problem::Problem;
use crate::request_id::name_request;
use crate::routes;
use crate::seal::seal;
use crate::state::AppState;

/// One operation of the document.
pub(crate) struct Route {
    method: Method,
    path: &'static str,
    handler: MethodRouter<AppState>,
}

fn route<H, T>(method: Method, filter: MethodFilter, path: &'static str, handler: H) -> Route
where
    H: Handler<T, AppState>,
    T: 'static,
{
    Route { method, path, handler: on(filter, handler) }
}

macro_rules! methods {
    ($($name:ident = $method:ident;)*) => {$(
        /// A route of this method.
        pub(crate) fn $name<H: Handler<T, AppState>, T: 'static>(path: &'static str, handler: H) -> Route {
            route(Method::$method, MethodFilter::$method, path, handler)
        }
    )*};
}

methods! { get = GET; post = POST; put = PUT; patch = PATCH; delete = DELETE; }

/// Method and path template of every route, for comparing them with the document.
pub fn operations() -> Vec<(Method, &'static str)> {
    routes::all().into_iter().map(|route| (route.method, route.path)).collect()
}

/// The whole API.
pub fn router(state: AppState) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        // A file's path is all that is left.
        router = router.route(&route.path.replace("{path}", "{*path}"), route.handler);
    }
    router
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(state.clone(), hold))
        .layer(middleware::from_fn(refuse_bad_heads))
        .layer(middleware::from_fn_with_state(state.clone(), measure))
        .layer(middleware::from_fn_with_state(state.clone(), name_request))
        .layer(middleware::from_fn_with_state(state.clone(), seal))
        .with_state(state)
}

fn panicked(cause: Box<dyn Any + Send + 'static>) -> Response {
    let words = cause.downcast_ref::<String>().cloned();
    let words = words.or_else(|| cause.downcast_ref::<&str>().map(|words| (*words).to_owned()));
    Problem::internal(format!("a handler panicked: {}", words.unwrap_or_default())).into_response()
}

async fn measure(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    state.config.metrics.answered(method.as_str(), route, response.status().as_u16(), began.elapsed());
    response
}
