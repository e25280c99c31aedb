//! How the shop and the model end: on a signal, or with the process that started them.

use std::io::Read;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Returns when the process is asked to end: SIGINT, SIGTERM or, with `with_parent`, when
/// standard input closes. A parent that holds the other end of that pipe takes its children
/// along even if it is killed.
pub(crate) async fn told_to_end(with_parent: bool) {
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut stream) => {
                stream.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    let orphaned = async {
        if with_parent {
            input_closed().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
        () = orphaned => {}
    }
}

/// Returns when standard input closes. A thread of its own reads it: one of the runtime's would
/// hold up the process's end until the next byte came.
async fn input_closed() {
    let (sender, closed) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        drop(sender);
    });
    let _ = closed.await;
}
