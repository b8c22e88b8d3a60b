//! The files of the web page: those in the binary, or those of a directory.

use std::path::{Component, Path, PathBuf};

/// The files of `ui/` in the repository, with their paths below it; made by `build.rs`.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));

/// Files of a directory above this size are not served.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where the files are.
pub(crate) enum UiFiles {
    /// In the binary.
    Embedded,
    /// In a directory.
    Directory(PathBuf),
}

impl UiFiles {
    /// Those of the directory, or else of the binary.
    ///
    /// # Errors
    /// If the binary has none, as it was built without the page.
    pub(crate) fn new(directory: Option<PathBuf>) -> Result<Self, &'static str> {
        match directory {
            Some(directory) => Ok(Self::Directory(directory)),
            None if EMBEDDED.is_empty() => Err(
                "this binary was built without the web page (the cargo feature `ui`): set ui.dir, or ui.enabled to off",
            ),
            None => Ok(Self::Embedded),
        }
    }

    /// The file at this path; `None` if there is none.
    pub(super) async fn read(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::Embedded => {
                let (_, bytes) = EMBEDDED.iter().find(|(name, _)| *name == path)?;
                Some(bytes.to_vec())
            }
            Self::Directory(directory) => {
                let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                if !Path::new(path).components().all(is_plain) {
                    return None;
                }
                let path = directory.join(path);
                let metadata = tokio::fs::metadata(&path).await.ok()?;
                // Reading a pipe would wait for ever.
                if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
                    return None;
                }
                tokio::fs::read(path).await.ok()
            }
        }
    }
}
