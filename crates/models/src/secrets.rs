//! What a provider is told in confidence and must not be heard of again.

use answerable_core::model::ReplyCall;
use answerable_ports::ModelTarget;
use answerable_tools::Mask;
use secrecy::ExposeSecret;

/// Secrets as they may be echoed in an error: the key, and whatever stands in the provider's headers.
pub(crate) fn of_errors(target: &ModelTarget) -> Mask {
    mask(target, |_| true)
}

/// Secrets as they may be echoed in a reply: of the headers only those that by their name are secret, for a model may
/// well say the words of a harmless one.
pub(crate) fn of_replies(target: &ModelTarget) -> Mask {
    const SECRET: [&str; 6] = ["auth", "key", "token", "secret", "cookie", "password"];
    mask(target, |name| SECRET.iter().any(|word| name.contains(word)))
}

/// A call without secrets, wherever in it the model wrote them.
pub(crate) fn masked(call: ReplyCall, mask: &Mask) -> ReplyCall {
    ReplyCall {
        id: call.id.map(|id| mask.text(&id)),
        name: mask.text(&call.name),
        arguments: mask.text(&call.arguments),
    }
}

fn mask(target: &ModelTarget, is_secret: impl Fn(&str) -> bool) -> Mask {
    let headers = target.headers.iter().filter(|(name, _)| is_secret(&name.to_ascii_lowercase()));
    let values = headers.flat_map(|(_, value)| {
        let value = value.expose_secret();
        // `Bearer KEY` is echoed as KEY.
        [Some(value), value.split_once(' ').map(|(_, bare)| bare)]
    });
    let key = target.api_key.as_ref().map(ExposeSecret::expose_secret);
    Mask::new(values.flatten().chain(key))
}
