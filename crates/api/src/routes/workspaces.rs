//! Files of workspaces.

use answerable_core::id::WorkspaceId;
use answerable_core::json::sha256_hex;
use answerable_core::workspace::{FilePath, MAX_FILE_BYTES, read_prefix};
use answerable_ports::{
    Author, Change, Expected, FilesCommitted, NewContent, Workspace, WorkspaceCommit, WorkspaceStore as _,
};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, header};

use crate::auth::{RunsRead, RunsWrite, Tenant};
use crate::body;
use crate::file_path::FileName;
use crate::page::Page;
use crate::path::Id;
use crate::preconditions::{Precondition, tag};
use crate::problem::{Answer, FULL_FOR_S, Problem, attachment};
use crate::query::Params;
use crate::router::{Route, delete, get, put};
use crate::shapes::workspaces::{StoredFile, WorkspaceFile};
use crate::state::AppState;

/// Longest media type that is kept.
const LONGEST_TYPE: usize = 255;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/workspaces/{workspace_id}/files", list),
        get("/v1/workspaces/{workspace_id}/files/{path}", fetch),
        put("/v1/workspaces/{workspace_id}/files/{path}", store),
        delete("/v1/workspaces/{workspace_id}/files/{path}", remove),
    ]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(workspace_id): Id<WorkspaceId>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let workspace = known(&state, &tenant, workspace_id).await?;
    let prefix = read_prefix(params.get("prefix").unwrap_or_default())
        .map_err(|fault| Problem::invalid_at("/query/prefix", fault.to_string()))?;
    // A prefix may be longer than a cursor.
    let list = format!("files:{workspace_id}:{}", sha256_hex(prefix.as_bytes()));
    let limit = usize::try_from(page.fetch()).unwrap_or(usize::MAX);
    let files = state.config.workspaces.list(workspace, prefix, page.after(&list)?, limit).await?;
    page.answer(&list, files, |file| file.path.to_string(), WorkspaceFile::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    name: FileName,
) -> Result<Response, Problem> {
    let workspace = known(&state, &tenant, name.workspace_id).await?;
    let files = &state.config.workspaces;
    let file = files.file(workspace, &name.path).await?.ok_or_else(Problem::not_found)?;
    let content = files.content(tenant.id, &file).await?;
    Ok(tagged(attachment(&file.media_type, content), file.version))
}

async fn store(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    name: FileName,
    Precondition(wanted): Precondition,
    request: Request,
) -> Result<Response, Problem> {
    let workspace = known(&state, &tenant, name.workspace_id).await?;
    let media_type = media_type(request.headers())?;
    let most = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
    let content = body::collect(request, most).await?;
    let bytes = content.len() as u64;
    let expected = wanted.unwrap_or(Expected::Anything);
    let content = Some(NewContent { bytes: content.into(), media_type });
    let version = change(&state, &tenant, workspace, &name.path, expected, content).await?;
    let stored = StoredFile { path: name.path.to_string(), version, bytes };
    Ok(tagged(Answer::ok(&stored)?.into_response(), version))
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    name: FileName,
    Precondition(wanted): Precondition,
) -> Result<Answer, Problem> {
    if wanted == Some(Expected::Absent) {
        return Err(Problem::invalid_at("/header/if-none-match", "does not go with DELETE"));
    }
    let workspace = known(&state, &tenant, name.workspace_id).await?;
    if wanted.is_none() && state.config.workspaces.file(workspace, &name.path).await?.is_none() {
        return Err(Problem::not_found());
    }
    let expected = wanted.unwrap_or(Expected::Anything);
    change(&state, &tenant, workspace, &name.path, expected, None).await?;
    Ok(Answer::no_content())
}

/// A workspace that there is.
async fn known<S>(state: &AppState, tenant: &Tenant<S>, id: WorkspaceId) -> Result<Workspace, Problem> {
    let workspace = Workspace { tenant_id: tenant.id, workspace_id: id };
    if state.config.workspaces.exists(workspace).await? { Ok(workspace) } else { Err(Problem::not_found()) }
}

/// Makes one change; gives its version.
async fn change<S>(
    state: &AppState,
    tenant: &Tenant<S>,
    workspace: Workspace,
    path: &FilePath,
    expected: Expected,
    content: Option<NewContent>,
) -> Result<i64, Problem> {
    let changes = vec![Change { path: path.clone(), expected, content }];
    let commit = WorkspaceCommit { workspace, by: Author::Caller(tenant.who()), changes };
    match state.config.workspaces.commit_asked_by(commit, tenant.origin.clone()).await? {
        FilesCommitted::Stored { version } => Ok(version),
        FilesCommitted::Conflict { found: Some(version), .. } => {
            Err(Problem::precondition_failed(format!("The file has version {version}.")))
        }
        FilesCommitted::Conflict { found: None, .. } => {
            Err(Problem::precondition_failed("There is no such file."))
        }
        FilesCommitted::InTheWay { file, within } => Err(Problem::conflict(format!(
            "{file} is a file, so {within} can't be in a folder of that name."
        ))),
        FilesCommitted::OverLimit(words) => Err(Problem::invalid_at("", words)),
        FilesCommitted::Full(words) => Err(Problem::quota_exceeded(words, FULL_FOR_S)),
        FilesCommitted::NoWorkspace => Err(Problem::not_found()),
        FilesCommitted::Repeated(_) => Err(Problem::internal("a caller's change was taken for a call's")),
    }
}

/// The type that the sender names, if any.
fn media_type(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| (1..=LONGEST_TYPE).contains(&text.len()));
    let words = format!("must have 1 to {LONGEST_TYPE} printable ASCII characters");
    text.map(|text| Some(text.to_owned())).ok_or_else(|| Problem::invalid_at("/header/content-type", words))
}

fn tagged(mut response: Response, version: i64) -> Response {
    if let Ok(value) = HeaderValue::from_str(&tag(version)) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}
