//! Images: URLs unchanged, files as `data:` URLs.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The URL of an image for the model.
pub(super) fn url(image: &str) -> Result<String, String> {
    let image = image.trim();
    if ["http://", "https://", "data:"].iter().any(|scheme| image.starts_with(scheme)) {
        return Ok(image.to_owned());
    }
    let bytes = std::fs::read(image).map_err(|error| format!("Error: cannot read {image}: {error}"))?;
    let Some(kind) = kind(&bytes, Path::new(image)) else {
        return Err(format!("Error: {image}: expected an image (PNG, JPEG, GIF or WebP)"));
    };
    Ok(format!("data:image/{kind};base64,{}", BASE64_STANDARD.encode(bytes)))
}

/// Detected from the first bytes, or else from the file name.
fn kind(bytes: &[u8], path: &Path) -> Option<&'static str> {
    for (start, kind) in
        [(b"\x89PNG".as_slice(), "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp")]
    {
        if bytes.starts_with(start) {
            return Some(kind);
        }
    }
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some("png"),
        "jpg" | "jpeg" => Some("jpeg"),
        "gif" => Some("gif"),
        "webp" => Some("webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn files_become_data_and_urls_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("picture");
        std::fs::write(&path, b"\x89PNG\r\n").expect("written");
        assert_eq!(url(path.to_str().expect("UTF-8")).as_deref(), Ok("data:image/png;base64,iVBORw0K"));
        assert_eq!(url(" https://a.example/b.png").as_deref(), Ok("https://a.example/b.png"));
        std::fs::write(&path, "words").expect("written");
        assert!(url(path.to_str().expect("UTF-8")).expect_err("no picture").contains("expected an image"));
        assert!(url("/no/such.png").expect_err("no file").starts_with("Error: cannot read /no/such.png"));
    }
}
