//! The web page: which files are served, with which headers, and when.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use antwort::config::{Settings, UiSwitch};
use reqwest::StatusCode;

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

/// The files below `ui/` of the repository.
fn files() -> BTreeSet<String> {
    fn collect(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, root, found);
            } else {
                found.insert(path.strip_prefix(root).expect("below").to_str().expect("UTF-8").to_owned());
            }
        }
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ui");
    let mut found = BTreeSet::new();
    collect(&root, &root, &mut found);
    found
}

/// The files that a script of the page imports, by their paths below `ui/`.
fn imports(root: &Path, script: &str) -> Vec<String> {
    let text = fs::read_to_string(root.join(script)).expect("a script");
    let named = text.lines().filter_map(|line| line.strip_suffix("';")?.rsplit_once("from '"));
    let named = named.filter(|(import, _)| import.starts_with("import ") || import.starts_with("} "));
    let resolve = |(_, path): (&str, &str)| {
        let mut folder: Vec<&str> = script.split('/').collect();
        folder.pop();
        for part in path.split('/') {
            match part {
                "." => {}
                ".." => drop(folder.pop()),
                name => folder.push(name),
            }
        }
        folder.join("/")
    };
    named.map(resolve).collect()
}

/// Scripts that import one another in a circle can only be understood together.
#[test]
fn the_scripts_of_the_page_import_one_another_in_one_direction() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ui");
    let mut left: Vec<(String, Vec<String>)> = files()
        .into_iter()
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "js"))
        .map(|name| (name.clone(), imports(&root, &name)))
        .collect();
    assert!(left.iter().map(|(_, imports)| imports.len()).sum::<usize>() > 20, "{left:?}");
    loop {
        let names: BTreeSet<String> = left.iter().map(|(name, _)| name.clone()).collect();
        let count = left.len();
        left.retain(|(_, imports)| imports.iter().any(|import| names.contains(import)));
        if left.len() == count {
            break;
        }
    }
    assert!(left.is_empty(), "a circle is among {left:#?}");
}

async fn page_gateway(change: impl FnOnce(&mut Settings) + Send + 'static) -> Gateway {
    let upstream = Upstream::spawn().await;
    Gateway::with_upstream(&upstream).set(change).spawn().await
}

async fn fetch(gateway: &Gateway, path: &str) -> reqwest::Response {
    gateway.http.get(format!("{}{path}", gateway.base)).send().await.expect("an answer")
}

#[tokio::test]
async fn every_file_of_the_folder_is_served_and_no_other() {
    let gateway = page_gateway(|_| {}).await;
    let files = files();
    assert!(files.contains("index.html") && files.contains("app.js"), "{files:?}");
    for name in &files {
        let answer = fetch(&gateway, &format!("/ui/{name}")).await;
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        let content_type = answer.headers()["content-type"].to_str().expect("text").to_owned();
        let expected = match Path::new(name).extension().and_then(|extension| extension.to_str()) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("html") => "text/html; charset=utf-8",
            other => panic!("{name}: a file of an unknown type: {other:?}"),
        };
        assert_eq!(content_type, expected, "{name}");
        let on_disk =
            fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("ui").join(name)).expect("the file");
        assert_eq!(answer.bytes().await.expect("a body"), on_disk, "{name}");
    }
    for path in ["/ui/nothing.js", "/ui/app", "/ui/..%2fCargo.toml", "/ui/lib/", "/ui/%2e%2e/src/lib.rs"] {
        assert_eq!(fetch(&gateway, path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let no_text = gateway.get("/ui/%ff.js").await;
    assert_eq!((no_text.status, &no_text.body["error"]["code"]), (400, &"invalid_url".into()));
}

#[tokio::test]
async fn every_answer_says_what_the_page_may_do() {
    let gateway = page_gateway(|_| {}).await;
    for path in ["/ui/", "/ui/app.js", "/ui/style.css"] {
        let answer = fetch(&gateway, path).await;
        let header = |name: &str| answer.headers()[name].to_str().expect("text");
        assert_eq!(
            header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'"
        );
        assert_eq!((header("x-content-type-options"), header("x-frame-options")), ("nosniff", "DENY"));
        assert_eq!(header("referrer-policy"), "no-referrer");
        let again = gateway.http.get(format!("{}{path}", gateway.base));
        let again = again.header("if-none-match", header("etag")).send().await.expect("an answer");
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path}");
        let tag = header("etag");
        for (known, status) in [
            (format!("W/{tag}"), 304),
            (format!("\"other\", W/{tag}"), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
        ] {
            let again = gateway.http.get(format!("{}{path}", gateway.base)).header("if-none-match", &known);
            assert_eq!(again.send().await.expect("an answer").status().as_u16(), status, "{path} {known}");
        }
    }
}

#[tokio::test]
async fn a_switched_off_page_says_how_it_is_switched_on() {
    let gateway = page_gateway(|settings| settings.ui.enabled = UiSwitch::Off).await;
    for path in ["/ui", "/ui/", "/ui/app.js"] {
        let answer = gateway.get(path).await;
        assert_eq!(
            (answer.status, answer.body["error"]["code"].as_str()),
            (404, Some("ui_disabled")),
            "{path}"
        );
        assert!(answer.body["error"]["message"].as_str().expect("a text").contains("ui.enabled"));
    }
}

#[tokio::test]
async fn the_address_without_slash_leads_to_the_page_also_behind_a_prefix() {
    let gateway = page_gateway(|_| {}).await;
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let answer = client.get(format!("{}/ui", gateway.base)).send().await.expect("an answer");
    assert_eq!(
        (answer.status(), &answer.headers()["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"ui/".parse().unwrap())
    );
}

#[tokio::test]
async fn a_link_of_another_site_opens_the_page_and_nothing_else() {
    let gateway = page_gateway(|_| {}).await;
    let visit = async |path: &str, mode: &str, dest: &str| {
        let request = gateway.http.get(format!("{}{path}", gateway.base));
        let request = request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", mode);
        request.header("sec-fetch-dest", dest).send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(visit("/ui/", "navigate", "document").await, 200);
    assert_eq!(visit("/ui/", "navigate", "iframe").await, 403);
    assert_eq!(visit("/ui/", "no-cors", "script").await, 403);
    assert_eq!(visit("/ui/app.js", "navigate", "document").await, 403);
    assert_eq!(visit("/v1/responses", "navigate", "document").await, 403);
}

#[tokio::test]
async fn a_directory_replaces_the_files_of_the_binary_and_nothing_above_it_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("page")).expect("a folder");
    fs::write(folder.path().join("page/index.html"), "<p>mine</p>").expect("written");
    fs::write(folder.path().join("secret.html"), "secret").expect("written");
    let pipe = folder.path().join("page/pipe.html");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    let page = folder.path().join("page");
    let gateway = page_gateway(move |settings| settings.ui.dir = Some(page)).await;
    assert_eq!(fetch(&gateway, "/ui/").await.text().await.expect("a text"), "<p>mine</p>");
    for path in [
        "/ui/app.js",
        "/ui/..%2fsecret.html",
        "/ui/%2e%2e%2fsecret.html",
        "/ui/%2fetc%2fpasswd.html",
        "/ui/pipe.html",
    ] {
        assert_eq!(fetch(&gateway, path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
}
