//! Addresses of those who want in, through the real client: none is reached, and each is refused before a connection.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::resolver::Lookup;
use super::{Allow, Fault, GuardedClient, Refused};

/// A server on this machine, and how often somebody came.
struct Inside {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Inside {
    /// Answers everybody with `answer`, and listens at both loopback addresses where there are two.
    async fn start(answer: String) -> Self {
        let first = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = first.local_addr().expect("an address").port();
        let visits = Arc::new(AtomicUsize::new(0));
        let second = TcpListener::bind(("::1", port)).await.ok();
        for listener in std::iter::once(first).chain(second) {
            let (visits, answer) = (Arc::clone(&visits), answer.clone());
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    visits.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
        Self { port, visits }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

fn answer(status: &str, more: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n")
}

/// Names, and what they resolve to in turn; the last answer stays.
fn names(known: &[(&str, &[&[&str]])]) -> Lookup {
    let known: BTreeMap<String, Vec<Vec<IpAddr>>> = known
        .iter()
        .map(|(name, answers)| {
            let answers = answers
                .iter()
                .map(|list| list.iter().map(|text| text.parse().expect("an address")).collect());
            ((*name).to_owned(), answers.collect())
        })
        .collect();
    let asked: Mutex<BTreeMap<String, usize>> = Mutex::default();
    Lookup::new(move |name| {
        let mut asked = asked.lock().expect("no panic");
        let turn = asked.entry(name.clone()).or_default();
        let answers = known.get(&name);
        let answer = answers.map(|answers| answers[(*turn).min(answers.len() - 1)].clone());
        *turn += 1;
        Box::pin(async move { answer.ok_or_else(|| std::io::Error::other("no such name")) })
    })
}

fn client(allow: &str, lookup: &Lookup) -> GuardedClient {
    GuardedClient::resolving(Allow::parse(allow).expect("a list"), lookup).expect("a client")
}

async fn call(client: &GuardedClient, url: &str) -> Result<u16, Fault> {
    let request = client.request(Method::GET, url).map_err(Fault::Refused)?;
    request.send().await.map(|response| response.status().as_u16()).map_err(|error| Fault::from(&error))
}

/// Hosts as they may stand in an address; none is public.
const HOSTS: [&str; 74] = [
    // This machine, in every spelling that a parser takes.
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0x7F000001",
    "017700000001",
    "0177.0.0.1",
    "0177.1",
    "00000177.0.0.1",
    "127.0.0.0x1",
    "127.0x0.0.1",
    "①②⑦.⓪.⓪.①",
    "１２７.０.０.１",
    "127。0。0。1",
    "127%2e0%2e0%2e1",
    "%31%32%37.0.0.1",
    // Nowhere, which is this machine too.
    "0",
    "0.0.0.0",
    "0x0",
    "0.0",
    "00",
    "0.1.2.3",
    "[::]",
    "[0:0:0:0:0:0:0:0]",
    "[::ffff:0.0.0.0]",
    // The newer kind.
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000::0001]",
    "[::127.0.0.1]",
    // Forms that carry an older address.
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::ffff:169.254.169.254]",
    "[::ffff:10.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::192.168.0.1]",
    "[64:ff9b:1::8.8.8.8]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2002:c0a8:101::]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[::ffff:0:127.0.0.1]",
    // Where clouds keep secrets.
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.254.170.2",
    "100.100.100.200",
    "192.0.0.192",
    "[fd00:ec2::254]",
    "[fe80::a9fe:a9fe]",
    // Networks of others.
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[fc00::1]",
    "[fdff::1]",
    "[fe80::1]",
    "[ff02::1]",
    "[2001:db8::1]",
];

#[tokio::test]
async fn no_spelling_of_a_private_address_is_called() {
    let inside = Inside::start(answer("200 OK", "")).await;
    let (lookup, began) = (names(&[]), Instant::now());
    let guarded = client("", &lookup);
    for host in HOSTS {
        for url in [format!("http://{host}:{}/", inside.port), format!("https://{host}:{}/", inside.port)] {
            assert_eq!(call(&guarded, &url).await, Err(Fault::Refused(Refused::Private)), "{url}");
        }
    }
    for odd in [
        "http://user@127.0.0.1/",
        "http://8.8.8.8@127.0.0.1/",
        "http://127.0.0.1#@8.8.8.8/",
        "http://8.8.8.8:80@127.0.0.1:PORT/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:PORT/_x",
        "dict://127.0.0.1:PORT/",
        "data:text/plain,x",
        "unix:///var/run/docker.sock",
        "javascript:x",
        "//127.0.0.1/",
        "http:///127.0.0.1:PORT/",
        "http:127.0.0.1:PORT",
        "http:\\\\127.0.0.1:PORT\\",
        " http://127.0.0.1:PORT/",
        "ht\ttp://127.0.0.1:PORT/",
        "http://[::1%25lo]:PORT/",
        "http://127.0.0.1:PORT:80/",
        "http://256.0.0.1/",
        "http://",
    ] {
        let url = odd.replace("PORT", &inside.port.to_string());
        assert!(matches!(call(&guarded, &url).await, Err(Fault::Refused(_))), "{url}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "refused at once, not after a try: {:?}",
        began.elapsed()
    );
    assert_eq!(inside.visits(), 0);
}

#[tokio::test]
async fn names_are_judged_by_what_they_resolve_to() {
    let inside = Inside::start(answer("200 OK", "")).await;
    let lookup = names(&[
        ("localtest.example", &[&["127.0.0.1"]]),
        ("six.example", &[&["::1"]]),
        ("mapped.example", &[&["::ffff:127.0.0.1"]]),
        ("nat64.example", &[&["64:ff9b::7f00:1"]]),
        ("metadata.google.internal", &[&["169.254.169.254"]]),
        ("169-254-169-254.example", &[&["169.254.169.254", "fd00:ec2::254"]]),
        ("nowhere.example", &[&["0.0.0.0", "::"]]),
        ("intranet", &[&["10.1.2.3", "192.168.1.1"]]),
        ("localhost", &[&["127.0.0.1", "::1"]]),
        ("xn--9ca.example", &[&["127.0.0.1"]]),
    ]);
    let guarded = client("", &lookup);
    for host in [
        "localtest.example",
        "LOCALTEST.example",
        "six.example",
        "mapped.example",
        "nat64.example",
        "metadata.google.internal",
        "169-254-169-254.example",
        "nowhere.example",
        "intranet",
        "localhost",
        "é.example",
    ] {
        let url = format!("http://{host}:{}/", inside.port);
        assert_eq!(call(&guarded, &url).await, Err(Fault::Refused(Refused::Private)), "{url}");
    }
    let unknown = format!("http://unknown.example:{}/", inside.port);
    assert_eq!(call(&guarded, &unknown).await, Err(Fault::NotConnected));
    assert_eq!(inside.visits(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let inside = Inside::start(answer("200 OK", "")).await;
    // What the operator allows plays the public address here, for nothing is reached beyond this machine.
    let lookup = names(&[
        ("rebinds.example", &[&["127.0.0.1"], &["10.0.0.1"], &["::1"]]),
        ("mixed.example", &[&["10.0.0.1", "169.254.169.254", "127.0.0.1", "::1"]]),
    ]);
    let guarded = client("127.0.0.1/32", &lookup);
    let rebinds = format!("http://rebinds.example:{}/", inside.port);
    assert_eq!(call(&guarded, &rebinds).await, Ok(200), "it is called where it was found");
    for turn in 2..4 {
        assert_eq!(call(&guarded, &rebinds).await, Err(Fault::Refused(Refused::Private)), "turn {turn}");
    }
    assert_eq!(inside.visits(), 1);
    let mixed = format!("http://mixed.example:{}/", inside.port);
    let began = Instant::now();
    assert_eq!(call(&guarded, &mixed).await, Ok(200));
    assert!(began.elapsed() < Duration::from_secs(2), "the others are not even tried");
    assert_eq!(inside.visits(), 2);
}

#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let trap = Inside::start(answer("200 OK", "")).await;
    let lookup = names(&[("trap.example", &[&["127.0.0.1"]])]);
    for (status, target) in [
        ("301 Moved Permanently", "http://127.0.0.1:PORT/"),
        ("302 Found", "http://trap.example:PORT/"),
        ("303 See Other", "http://[::1]:PORT/"),
        ("307 Temporary Redirect", "//127.0.0.1:PORT/"),
        ("308 Permanent Redirect", "/again"),
        ("300 Multiple Choices", "http://169.254.169.254/"),
    ] {
        let target = target.replace("PORT", &trap.port.to_string());
        let door = Inside::start(answer(status, &format!("location: {target}\r\n"))).await;
        let url = format!("http://127.0.0.1:{}/", door.port);
        let wanted: u16 = status[..3].parse().expect("a status");
        assert_eq!(call(&client("127.0.0.1/32", &lookup), &url).await, Ok(wanted));
        assert_eq!((door.visits(), trap.visits()), (1, 0), "{status} {target}");
    }
}
