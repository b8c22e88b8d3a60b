//! SIGHUP when it is least expected: while the settings are read for the first time, while they are read again and the
//! gateway is told to stop, and at the demo, which has none to read again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::reload::{KEY_A, KEY_B, Running, yaml};
use super::{ask, text};
use antwort_test_support::eventually;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Upstream, done, finish};

/// A file that is read no sooner than it is written.
fn fifo(folder: &Path) -> PathBuf {
    let path = folder.join("antwort.yaml");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Waits until somebody reads it.
async fn writer(fifo: &Path) -> File {
    let path = fifo.to_owned();
    tokio::task::spawn_blocking(move || File::options().write(true).open(path).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_hangup_while_the_settings_are_read_at_the_start_is_a_reload_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Stream(vec![text("Hi"), finish("stop"), done()]));
    let file = fifo(folder.path());
    let environment =
        [("ANTWORT_UPSTREAM_URL", ""), ("ANTWORT_LOG", ""), ("ANTWORT_CONFIG", file.to_str().unwrap())];
    let process = Process::launch(folder.path(), &upstream, &environment);
    let mut first = writer(&file).await;
    process.signal("HUP");
    first.write_all(yaml(&upstream, &[KEY_A, KEY_B], "").as_bytes()).unwrap();
    drop(first);
    process.until_ready().await;
    // It is read again because of the signal alone.
    let mut second = writer(&file).await;
    let gateway = Running::of(folder.path(), process);
    assert_eq!(gateway.create("key-a", &ask()).await.0, 200);
    second.write_all(yaml(&upstream, &[KEY_B], "").as_bytes()).unwrap();
    drop(second);
    assert!(eventually(async || gateway.create("key-a", &ask()).await.0 == 401).await, "{}", gateway.log());
    assert_eq!(gateway.create("key-b", &ask()).await.0, 200);
}

/// The reload waited for the file, and the end of the process for the reload.
#[tokio::test]
async fn a_reload_whose_file_cannot_be_read_to_its_end_keeps_nobody_from_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let mut gateway = Running::start(folder.path(), &upstream, &yaml(&upstream, &[KEY_B], "")).await;
    std::fs::remove_file(folder.path().join("antwort.yaml")).unwrap();
    let file = fifo(folder.path());
    gateway.process.signal("HUP");
    let _never_written = writer(&file).await;
    gateway.process.terminate();
    let mut code = None;
    assert!(
        eventually(async || {
            code = gateway.process.exit_code();
            code.is_some()
        })
        .await,
        "{}",
        gateway.log()
    );
    assert_eq!(code, Some(0), "{}", gateway.log());
}

struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_demo_stops_in_order_when_its_terminal_hangs_up() {
    let folder = tempfile::tempdir().unwrap();
    let (said, log) = (folder.path().join("said"), folder.path().join("log"));
    let child = Command::new(env!("CARGO_BIN_EXE_antwort"))
        .arg("demo")
        .current_dir(folder.path())
        .env_clear()
        .env("ANTWORT_LISTEN", "127.0.0.1:0")
        .env("ANTWORT_STORE_URL", "memory:")
        .stdin(Stdio::null())
        .stdout(File::create(&said).unwrap())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut demo = Demo(child);
    let has = async |file: &Path, part: &str| {
        eventually(async || std::fs::read_to_string(file).unwrap().contains(part)).await
    };
    assert!(has(&said, "Serving until Ctrl-C").await, "{}", std::fs::read_to_string(&log).unwrap());
    let status = Command::new("kill").args(["-s", "HUP", &demo.0.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut code = None;
    assert!(
        eventually(async || {
            code = demo.0.try_wait().unwrap().and_then(|status| status.code());
            code.is_some()
        })
        .await
    );
    assert_eq!(code, Some(0), "a signal would leave none");
}
