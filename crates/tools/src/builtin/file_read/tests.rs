//! Files inside, and every way out that is known.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;

const DENIED: &str = "access denied: path not in allowed directories";

/// `<temp>/work` is the working directory, `<temp>/work/data` and `<temp>/shared` may be read, and `<temp>/secret`
/// must not be.
struct Place {
    temp: TempDir,
    tool: FileRead,
}

fn place() -> Place {
    let temp = TempDir::new().unwrap();
    let at = |path: &str| temp.path().join(path);
    for dir in ["work/data/sub", "shared", "secret", "work/database", "work/data2"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    fs::write(at("work/data/hello.txt"), "hello").unwrap();
    fs::write(at("work/data/sub/deep.txt"), "deep").unwrap();
    fs::write(at("shared/more.txt"), "more").unwrap();
    for secret in ["secret/key", "work/secret.txt", "work/database/key", "work/data2/key"] {
        fs::write(at(secret), "secret").unwrap();
    }
    let allowed = ["./data/".into(), at("shared"), "./missing/".into()];
    let tool = FileRead::open(&allowed, &at("work"), 100).unwrap();
    Place { tool, temp }
}

impl Place {
    fn at(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }

    async fn read(&self, arguments: Value) -> Result<Value, String> {
        let output = self.tool.call(arguments.as_object().unwrap(), &ToolContext::default()).await;
        output.map(|output| output.structured.unwrap()).map_err(|error| error.message)
    }

    async fn content(&self, path: &str) -> Result<String, String> {
        let result = self.read(json!({"path": path})).await?;
        Ok(result["content"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn files_inside() {
    let place = place();
    let expected = json!({"path": "./data/hello.txt", "content": "hello", "size": 5});
    assert_eq!(place.read(json!({"path": "./data/hello.txt"})).await, Ok(expected));
    symlink("sub/deep.txt", place.at("work/data/near")).unwrap();
    let absolute = |path: &str| place.at(path).to_str().unwrap().to_owned();
    for (path, content) in [
        ("data/hello.txt".to_owned(), "hello"),
        ("./data//./hello.txt".to_owned(), "hello"),
        ("data/sub/deep.txt".to_owned(), "deep"),
        ("data/sub/../hello.txt".to_owned(), "hello"),
        ("data/near".to_owned(), "deep"),
        (absolute("work/data/hello.txt"), "hello"),
        (absolute("shared/more.txt"), "more"),
    ] {
        assert_eq!(place.content(&path).await.as_deref(), Ok(content), "{path}");
    }
    for (path, problem) in [
        ("data/none.txt", "failed to read file: no such file"),
        ("data/none/none.txt", "failed to read file: no such file"),
        ("data/hello.txt/x", "failed to read file: no such file"),
        ("data", "failed to read file: it is a directory"),
        ("./data/", "failed to read file: it is a directory"),
        ("data/sub", "failed to read file: it is a directory"),
    ] {
        assert_eq!(place.content(path).await, Err(problem.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn no_path_leads_outside() {
    let place = place();
    let at = |path: &str| place.at(path);
    symlink(at("secret/key"), at("work/data/absolute")).unwrap();
    symlink("../../secret/key", at("work/data/relative")).unwrap();
    symlink("../..", at("work/data/up")).unwrap();
    symlink("/", at("work/data/root")).unwrap();
    symlink("/proc/self/root", at("work/data/proc")).unwrap();
    symlink("/proc/self/fd/0", at("work/data/stdin")).unwrap();
    symlink("circle", at("work/data/circle")).unwrap();
    symlink("relative", at("work/data/twice")).unwrap();
    symlink(at("secret"), at("shared/dir")).unwrap();
    let _socket = UnixListener::bind(at("work/data/socket")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("work/data/pipe"), 0o666.into()).unwrap();
    let absolute = |path: &str| format!("{}/{path}", place.temp.path().display());
    let long = format!("data/{}", "a/".repeat(4096));
    for path in [
        "/etc/passwd",
        "//etc/passwd",
        "/",
        ".",
        "..",
        "secret.txt",
        "./secret.txt",
        "../secret/key",
        "data/../secret.txt",
        "./data/../../secret/key",
        "data/sub/../../secret.txt",
        "data/../data/hello.txt",
        "data/none/../../secret.txt",
        "database/key",
        "data2/key",
        "data/../../../../../../../../etc/passwd",
        "missing/x",
        "~/.ssh/id_rsa",
        "file:///etc/passwd",
        "data\\..\\secret.txt",
        "data/absolute",
        "data/relative",
        "data/twice",
        "data/circle",
        "data/up/secret/key",
        "data/root/etc/passwd",
        "data/proc/etc/passwd",
        "data/stdin",
        "data/pipe",
        "data/socket",
        "data/hello.txt\0.png",
        "data/\0",
        "/proc/self/environ",
        "/proc/self/cwd/data/hello.txt",
        "/dev/zero",
        &absolute("secret/key"),
        &absolute("work/data/../secret.txt"),
        &absolute("shared/../secret/key"),
        &absolute("shared/dir/key"),
        &absolute("work/data2/key"),
        &absolute("shared2"),
        &long,
    ] {
        let got = place.content(path).await;
        // What is no link on this system, such as a backslash, is a missing file at worst.
        assert_eq!(got, Err(DENIED.to_owned()), "{path:?}");
    }
}

#[tokio::test]
async fn a_directory_stays_the_same_when_its_name_changes() {
    let place = place();
    fs::rename(place.at("work/data"), place.at("work/old")).unwrap();
    symlink(place.at("secret"), place.at("work/data")).unwrap();
    assert_eq!(place.content("data/hello.txt").await.as_deref(), Ok("hello"));
    assert_eq!(place.content("data/key").await, Err("failed to read file: no such file".to_owned()));
}

#[tokio::test]
async fn a_directory_behind_a_link_is_known_by_both_names() {
    let temp = TempDir::new().unwrap();
    let real = temp.path().canonicalize().unwrap();
    fs::create_dir(real.join("real")).unwrap();
    fs::write(real.join("real/a"), "a").unwrap();
    symlink("real", real.join("link")).unwrap();
    let tool = FileRead::open(&["link".into()], &real, 100).unwrap();
    let place = Place { tool, temp };
    for path in ["link/a", "real/a"] {
        assert_eq!(place.content(path).await.as_deref(), Ok("a"), "{path}");
    }
    assert!(FileRead::open(&["none".into()], &real, 100).is_none());
    assert!(FileRead::open(&[], &real, 100).is_none());
    // What a variable that is not set leaves behind is not the working directory.
    assert!(FileRead::open(&["".into()], &real, 100).is_none());
}

#[tokio::test]
async fn long_files_come_in_parts() {
    let place = place();
    let text: String = "äöü€x".repeat(40);
    fs::write(place.at("shared/long"), &text).unwrap();
    let path = place.at("shared/long").to_str().unwrap().to_owned();
    for length in [1, 2, 3, 7, 99, 100, 1000] {
        let (mut whole, mut offset) = (String::new(), json!(0));
        loop {
            let part = place.read(json!({"path": path, "offset": offset, "length": length})).await.unwrap();
            assert_eq!(part["size"], text.len());
            let content = part["content"].as_str().unwrap();
            assert!(!content.is_empty() && content.len() <= length.clamp(3, 100));
            whole.push_str(content);
            match part.get("next_offset") {
                Some(next) => offset = next.clone(),
                None => break,
            }
        }
        assert_eq!(whole, text, "{length}");
    }
    let read = async |offset: Value, length: Value| {
        place.read(json!({"path": path, "offset": offset, "length": length})).await
    };
    assert_eq!(
        read(json!(1), json!(2)).await.unwrap()["content"],
        "ö",
        "an offset within a character is the next"
    );
    assert_eq!(
        read(json!(6.0), Value::Null).await.unwrap()["content"].as_str().unwrap().chars().next(),
        Some('€')
    );
    let beyond = read(json!(10_000), Value::Null).await.unwrap();
    assert_eq!(beyond, json!({"path": path, "content": "", "size": text.len()}));
    let far = read(json!(u64::MAX), Value::Null).await.unwrap();
    assert_eq!((&far["content"], far.get("next_offset")), (&json!(""), None));
    for wrong in [json!(-1), json!(1.5), json!("1"), json!(1e300)] {
        assert_eq!(
            read(wrong.clone(), Value::Null).await,
            Err("offset must be a whole number of bytes".into())
        );
        assert_eq!(read(json!(0), wrong).await, Err("length must be a whole number of bytes".into()));
    }
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let place = place();
    for (name, bytes) in [("binary", &b"ab\xFF\xFEcd"[..]), ("cut", b"abc\xE2\x82")] {
        fs::write(place.at("shared").join(name), bytes).unwrap();
        let path = place.at("shared").join(name);
        let got = place.content(path.to_str().unwrap()).await;
        assert_eq!(got, Err("failed to read file: it is not UTF-8 text".to_owned()), "{name}");
    }
    fs::write(place.at("shared/empty"), "").unwrap();
    assert_eq!(place.content(place.at("shared/empty").to_str().unwrap()).await.as_deref(), Ok(""));
    for arguments in [json!({}), json!({"path": 5}), json!({"path": ""})] {
        assert_eq!(place.read(arguments).await, Err("path parameter required".to_owned()));
    }
}
